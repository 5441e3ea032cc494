import grpc
import pytest
from tests.daemon.rpc.probes import hello
from tests.daemon.rpc.served import Served

from roost_engine.domain.events import JobQueued, JobStarted, NodeSeen
from roost_engine.domain.model import GpuUuid, JobId
from roost_engine.testing import builders
from roost_proto.v1 import placement_pb2 as pb
from roostd.rpc.access.peers import LOCAL_HOST
from roostd.rpc.services.placement import rank_order
from roostd.telemetry.claim import Claim
from roostd.telemetry.probe_messages import read_hello


def place(served: Served, *, binding: bool = True, gpus: int = 4) -> None:
    served.feed(NodeSeen(at_s=100.0, node=builders.node("n1", 4)))
    message = read_hello(hello("n1", lanes={(0, 2): 4, (1, 3): 4}))
    served.state.board.apply_hello(message, "stream", Claim(host=LOCAL_HOST))
    served.state.board.apply_hello(read_hello(hello("n2")), "other", Claim(host=LOCAL_HOST))
    served.feed(*served.emitted)
    job = builders.job("7_3", gpus=gpus, binding=binding)
    served.feed(JobQueued(at_s=100.0, job=job))
    served.state.job_ids[12] = JobId("7_3")


async def test_a_plan_has_gpus_uuids_and_an_order_in_which_neighbours_are_linked(
    served: Served,
) -> None:
    place(served)

    plan = await served.placement().GetPlan(pb.GetPlanRequest(slurm_job_id=12, node="n1"))

    assert plan.managed
    assert list(plan.gpu_indices) == [0, 1, 2, 3]
    assert list(plan.gpu_uuids) == [f"GPU-n1-{index}" for index in range(4)]
    assert list(plan.rank_order) in ([0, 2, 1, 3], [2, 0, 1, 3], [0, 2, 3, 1], [2, 0, 3, 1])


@pytest.mark.parametrize(
    ("slurm_job_id", "node", "binding"),
    [(12, "n1", False), (12, "n2", True), (13, "n1", True), (2**63, "n1", True)],
)
async def test_jobs_that_roost_does_not_steer_have_no_plan(
    served: Served, slurm_job_id: int, node: str, binding: bool
) -> None:
    place(served, binding=binding)

    plan = await served.placement().GetPlan(pb.GetPlanRequest(slurm_job_id=slurm_job_id, node=node))

    assert plan == pb.Plan(managed=False)


async def test_an_allocation_other_than_planned_is_counted(served: Served) -> None:
    place(served)
    stub = served.placement()

    same = await stub.ReportAllocation(
        pb.AllocationReport(slurm_job_id=12, node="n1", gpu_indices=[3, 2, 1, 0])
    )
    other = await stub.ReportAllocation(
        pb.AllocationReport(slurm_job_id=12, node="n1", gpu_indices=[0, 1])
    )
    unmanaged = await stub.ReportAllocation(
        pb.AllocationReport(slurm_job_id=99, node="n1", gpu_indices=[0])
    )

    assert (same.as_planned, other.as_planned, unmanaged.as_planned) == (True, False, True)
    assert served.count("roost_allocation_mismatches_total") == 1


async def test_an_allocation_by_a_pin_that_was_just_replaced_is_as_planned(served: Served) -> None:
    place(served, gpus=2)
    before = served.state.engine.record(JobId("7_3")).placement
    assert before is not None
    taken = builders.share("n1", *before.gpu_indices)
    served.feed(JobStarted(at_s=101.0, job_id=JobId("8"), shares=(taken,)))
    after = served.state.engine.record(JobId("7_3")).placement
    assert after is not None
    assert after.gpu_indices != before.gpu_indices

    answer = await served.placement().ReportAllocation(
        pb.AllocationReport(slurm_job_id=12, node="n1", gpu_indices=before.gpu_indices)
    )
    assert answer.as_planned
    assert served.count("roost_allocation_mismatches_total") == 0


@pytest.mark.parametrize(
    ("node", "claim"),
    [
        ("n1", Claim(host="10.0.0.7")),  # the caller is not where the node's probe is
        ("n1", Claim(host="")),
        ("n3", None),  # no probe has reported for the node
        ("", None),
    ],
)
async def test_in_clear_text_a_plan_is_sent_only_to_the_host_of_the_node_s_probe(
    served: Served, node: str, claim: Claim | None
) -> None:
    place(served)
    if claim is not None:
        served.state.board.apply_hello(read_hello(hello(node)), "later", claim)
    stub = served.placement()

    for ask in (
        stub.GetPlan(pb.GetPlanRequest(slurm_job_id=12, node=node)),
        stub.ReportAllocation(pb.AllocationReport(slurm_job_id=12, node=node, gpu_indices=[0])),
    ):
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await ask
        assert caught.value.code() is grpc.StatusCode.PERMISSION_DENIED
        assert caught.value.details() == (
            f"without mutual TLS plans for {node} are sent only to the host of its probe"
        )
    assert served.count("roost_allocation_mismatches_total") == 0


async def test_a_probe_that_took_a_silent_node_s_place_gets_no_plans_of_it(
    served: Served,
) -> None:
    place(served)
    board = served.state.board
    known = Claim(host="10.0.0.7", gpu_uuids=frozenset({GpuUuid("GPU-real")}))
    board.apply_hello(read_hello(hello("n1")), "real", known)
    forged = Claim(host=LOCAL_HOST, gpu_uuids=frozenset({GpuUuid("GPU-forged")}))
    board.apply_hello(read_hello(hello("n1")), "forged", forged)

    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await served.placement().GetPlan(pb.GetPlanRequest(slurm_job_id=12, node="n1"))

    assert caught.value.code() is grpc.StatusCode.PERMISSION_DENIED


def test_rank_order_walks_along_bridges() -> None:
    order = rank_order(builders.bridges(8), (0, 1, 4, 5))

    assert [set(order[:2]), set(order[2:])] in ([{0, 1}, {4, 5}], [{4, 5}, {0, 1}])


def test_rank_order_of_gpus_that_the_probe_does_not_know_is_as_given() -> None:
    assert rank_order(builders.bridges(4), (6, 7)) == [6, 7]
    assert rank_order(builders.bridges(4), ()) == []


async def test_progress_of_the_owner_is_used_and_that_of_others_is_not(served: Served) -> None:
    place(served)
    stub = served.placement()
    report = pb.ProgressReport(slurm_job_id=12, node="n1", uid=1, step_count=5)
    assert not (await stub.Progress(report)).accepted
    shares = (builders.share("n1", 0, 1, 2, 3),)
    served.feed(JobStarted(at_s=101.0, job_id=JobId("7_3"), shares=shares))
    owner = served.state.engine.record(JobId("7_3")).spec.user_id

    mine = await stub.Progress(
        pb.ProgressReport(slurm_job_id=12, node="n1", uid=owner, step_count=5)
    )
    foreign = await stub.Progress(
        pb.ProgressReport(slurm_job_id=12, node="n1", uid=owner + 1, step_count=5)
    )
    elsewhere = await stub.Progress(
        pb.ProgressReport(slurm_job_id=12, node="n2", uid=owner, step_count=5)
    )
    unknown = await stub.Progress(
        pb.ProgressReport(slurm_job_id=99, node="n1", uid=owner, step_count=5)
    )

    assert mine == pb.ProgressAck(accepted=True)
    assert "not the owner" in foreign.reason
    assert elsewhere.reason == "the job does not run on n2"
    assert unknown.reason == "Roost does not know this job"
