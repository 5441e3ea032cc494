from typing import Any

import grpc
import pytest
from google.protobuf import descriptor_pool, message_factory
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha.proto_reflection_descriptor_database import (
    ProtoReflectionDescriptorDatabase,
)
from tests.daemon.rpc.probes import floats, hello, sample
from tests.daemon.rpc.served import Served

from roost_engine.domain.actions import PolicyFailed
from roost_engine.domain.errors import (
    PolicyError,
)
from roost_engine.domain.events import JobEnded, JobQueued, JobStarted, NodeSeen
from roost_engine.domain.model import JobId, NodeName
from roost_engine.engine import Engine, EngineConfig
from roost_engine.forecast.forecast import Forecast
from roost_engine.job_record import shares_of
from roost_engine.plugins.plugins import Policies
from roost_engine.policies.protocols import GateVerdict, Offer, WaitEnded
from roost_engine.testing import builders
from roost_proto.v1 import operator_pb2 as pb
from roost_proto.v1 import telemetry_pb2 as telemetry_pb
from roostd.config.config import Config
from roostd.state import Owner
from roostd.telemetry.probe_messages import read_hello


@pytest.fixture
def cluster(served: Served) -> Served:
    """Two nodes of 4 GPUs, n1 with a probe whose NVML order differs; job 1 on two GPUs."""
    for name in ("n1", "n2"):
        served.feed(NodeSeen(at_s=100.0, node=builders.node(name, 4, rack="r1")))
        assert list(served.state.board.introduce(NodeName(name))) == []
    greeting = hello("n1", minors=[2, 3, 0, 1], lanes={(0, 1): 4, (2, 3): 4})
    report = served.state.board.apply_hello(read_hello(greeting), "stream")
    served.feed(*served.emitted)
    served.state.board.apply_sample(
        report, sample(sm_frac=floats(0.1, 0.2, 0.3, None)), is_checked=True
    )
    served.state.node_states[NodeName("n1")] = "idle"
    served.feed(JobQueued(at_s=100.0, job=builders.job("1", gpus=2, user_id=42)))
    return served


def start(served: Served, job_id: str = "1") -> None:
    record = served.state.engine.record(JobId(job_id))
    assert record.placement is not None
    served.feed(JobStarted(at_s=101.0, job_id=JobId(job_id), shares=shares_of(record.placement)))


async def test_status_tells_modes_policy_and_counts(cluster: Served) -> None:
    start(cluster)

    status = await cluster.operator().GetStatus(pb.GetStatusRequest())

    assert (status.version, status.cluster, status.uptime_s) == ("9.9", "test", 60.0)
    assert status.default_mode == pb.MODE_SHADOW
    assert (status.node_count, status.probe_count) == (2, 1)
    assert (status.gpu_count, status.gpu_free_count) == (8, 6)
    assert (status.running_job_count, status.decision_count) == (1, 1)
    assert status.slurm_fault == ""


async def test_status_tells_what_is_broken(cluster: Served) -> None:
    cluster.state.slurm_fault, cluster.state.journal_fault = "no answer", "disk full"

    status = await cluster.operator().GetStatus(pb.GetStatusRequest())

    assert status.slurm_fault == "no answer; journal: disk full"


class BrokenGate:
    """A gate with a bug."""

    name = "broken"

    def decide(self, offer: Offer) -> GateVerdict:
        raise PolicyError("it has a bug")

    def note(self, outcome: WaitEnded) -> None:
        pass


async def test_status_and_explain_name_the_policy_of_every_slot_and_its_faults(
    cluster: Served,
) -> None:
    cluster.state.engine = Engine(EngineConfig(), Policies(gate=BrokenGate()))
    cluster.feed(NodeSeen(at_s=100.0, node=builders.node("n1", 4)))
    actions = cluster.feed(JobQueued(at_s=100.0, job=builders.job("1", gpus=2)))
    (failed,) = (action for action in actions if isinstance(action, PolicyFailed))
    cluster.state.policy_failures[failed.slot] = failed.reason

    status = await cluster.operator().GetStatus(pb.GetStatusRequest())
    told = await cluster.operator().ExplainJob(pb.ExplainJobRequest(job_id="1"))

    assert [(one.slot, one.policy, one.heuristic) for one in status.slots] == [
        ("order", "priority", "priority"),
        ("gate", "broken", "open"),
        ("score", "heuristic", "heuristic"),
        ("preemption", "none", "none"),
    ]
    faults = {one.slot: (one.fault_count, one.last_fault) for one in status.slots}
    assert faults.pop("gate") == (1, "it has a bug")
    assert set(faults.values()) == {(0, "")}
    assert list(told.slots) == list(status.slots)


async def test_status_and_explain_name_the_stack_and_the_parts_that_replace_its_own(
    cluster: Served,
) -> None:
    settings = {"stack": "roost-no-preemption", "gate": {"kind": "open"}}
    cluster.state.config = Config.model_validate(settings)
    cluster.feed(JobQueued(at_s=100.0, job=builders.job("1", gpus=2)))

    status = await cluster.operator().GetStatus(pb.GetStatusRequest())
    told = await cluster.operator().ExplainJob(pb.ExplainJobRequest(job_id="1"))

    assert status.stack == told.stack == "roost-no-preemption, gate.kind open"
    assert status.placement == "common-shapes"


async def test_a_node_shows_who_holds_what_and_the_probe_s_values_in_gres_order(
    cluster: Served,
) -> None:
    start(cluster)
    cluster.clock.at_s += 3.0

    node = await cluster.operator().GetNode(pb.GetNodeRequest(name="n1"))

    assert (node.rack, node.usable, node.slurm_state) == ("r1", True, "idle")
    assert node.sample_age_s == 3.0
    assert [gpu.uuid for gpu in node.gpus] == [f"GPU-n1-{nvml}" for nvml in (2, 3, 0, 1)]
    assert [gpu.HasField("sm_frac") for gpu in node.gpus] == [True, False, True, True]
    assert node.gpus[0].sm_frac == pytest.approx(0.3)
    assert [gpu.job_id for gpu in node.gpus] == ["1", "1", "", ""]
    assert [gpu.free for gpu in node.gpus] == [False, False, True, True]


async def test_a_node_without_probe_says_so(cluster: Served) -> None:
    response = await cluster.operator().ListNodes(pb.ListNodesRequest())

    assert [node.name for node in response.nodes] == ["n1", "n2"]
    assert response.nodes[1].problems == ["no probe: links and load are unknown"]
    assert not response.nodes[1].HasField("sample_age_s")


async def test_a_node_whose_probe_sees_no_gpus_says_why(cluster: Served) -> None:
    greeting = hello("n2", gpu_count=0)
    greeting.problems.append("NVML is missing: install the driver")
    cluster.state.board.apply_hello(read_hello(greeting), "stream")

    response = await cluster.operator().ListNodes(pb.ListNodesRequest())

    assert response.nodes[1].problems == [
        "the probe sees no GPUs, Slurm 4: links and load are not known",
        "NVML is missing: install the driver",
    ]
    assert response.nodes[1].HasField("sample_age_s")
    assert len(response.nodes[1].gpus) == 4


async def test_topology_is_in_gres_order(cluster: Served) -> None:
    topology = await cluster.operator().GetTopology(pb.GetTopologyRequest(node="n1"))

    assert [(gpu.index, gpu.minor_number) for gpu in topology.gpus] == [
        (index, index) for index in range(4)
    ]
    lanes = {(link.a, link.b): link.nvlink_count for link in topology.links if link.nvlink_count}
    assert lanes == {(0, 1): 4, (2, 3): 4}
    assert len(topology.links) == 6
    assert topology.links[0].level == telemetry_pb.ANCESTOR_LEVEL_NUMA_NODE


async def test_topology_of_a_node_without_probe_says_what_to_do(cluster: Served) -> None:
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await cluster.operator().GetTopology(pb.GetTopologyRequest(node="n2"))

    assert caught.value.code() is grpc.StatusCode.FAILED_PRECONDITION
    assert caught.value.details() == "node n2 has no probe: start roost-probe there"


async def test_topology_of_a_node_whose_probe_sees_no_gpus_tells_why(cluster: Served) -> None:
    greeting = hello("n2", gpu_count=0)
    greeting.problems.append("NVML is missing: install the driver")
    cluster.state.board.apply_hello(read_hello(greeting), "stream")

    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await cluster.operator().GetTopology(pb.GetTopologyRequest(node="n2"))

    assert caught.value.code() is grpc.StatusCode.FAILED_PRECONDITION
    assert caught.value.details() == (
        "the probe of node n2 sees no GPUs: NVML is missing: install the driver"
    )


async def test_a_job_s_way_is_told_from_decision_to_end(cluster: Served) -> None:
    operator = cluster.operator()
    placing = await operator.GetJob(pb.GetJobRequest(job_id="1"))
    start(cluster)
    running = await operator.GetJob(pb.GetJobRequest(job_id="1"))
    cluster.feed(JobEnded(at_s=105.0, job_id=JobId("1")))
    now = await operator.ListJobs(pb.ListJobsRequest())
    ever = await operator.ListJobs(pb.ListJobsRequest(include_ended=True))

    assert placing.state == pb.JOB_STATE_PLACING
    assert placing.planned == [pb.NodeAllocation(node="n1", gpu_indices=[0, 1])]
    assert (placing.link_score, placing.best_link_score) == (400, 400)
    assert running.state == pb.JOB_STATE_RUNNING
    assert running.allocated == running.planned
    assert (running.user_id, running.waited_s) == (42, 1.0)
    assert list(now.jobs) == []
    assert [job.state for job in ever.jobs] == [pb.JOB_STATE_ENDED]


async def test_the_user_of_a_job_that_slurm_has_not_told_is_unknown_not_root(
    cluster: Served,
) -> None:
    shares = (builders.share("n2", 0),)
    cluster.feed(JobStarted(at_s=102.0, job_id=JobId("9"), shares=shares))
    operator = cluster.operator()

    unknown = await operator.GetJob(pb.GetJobRequest(job_id="9"))
    cluster.state.owners[JobId("9")] = Owner(0, "main")
    known = await operator.GetJob(pb.GetJobRequest(job_id="9"))

    assert not unknown.HasField("user_id")
    assert (known.HasField("user_id"), known.user_id, known.partition) == (True, 0, "main")


async def test_explain_lists_candidates_with_reasons_why_not(cluster: Served) -> None:
    cluster.clock.at_s = 110.0

    told = await cluster.operator().ExplainJob(pb.ExplainJobRequest(job_id="1"))

    assert told.decided_ago_s == 10.0
    assert told.policy == "heuristic"
    assert told.candidates[0].why_not == ""
    assert all(candidate.why_not for candidate in told.candidates[1:])
    assert "link_frac" in told.candidates[0].features
    assert told.candidates[0].nodes == ["n1"]


async def test_a_waiting_job_tells_what_it_waits_for(cluster: Served) -> None:
    cluster.feed(JobQueued(at_s=100.0, job=builders.job("2", gpus=4)))
    cluster.feed(JobQueued(at_s=100.0, job=builders.job("3", gpus=4)))

    told = await cluster.operator().ExplainJob(pb.ExplainJobRequest(job_id="3"))

    assert told.job.state == pb.JOB_STATE_WAITING
    assert "4 GPUs" in told.job.reason
    assert sum(exclusion.node_count for exclusion in told.exclusions) == 2


async def test_what_an_earlier_daemon_decided_is_still_told(cluster: Served) -> None:
    record = cluster.state.engine.record(JobId("1"))
    place = cluster.state.place(JobId("1"), record)
    assert place is not None
    shares = (builders.share("n2", 0, 1),)
    cluster.feed(JobStarted(at_s=102.0, job_id=JobId("9"), shares=shares))
    cluster.state.earlier_decisions[JobId("9")] = place

    job = await cluster.operator().GetJob(pb.GetJobRequest(job_id="9"))

    assert [allocation.node for allocation in job.planned] == ["n1"]
    assert [allocation.node for allocation in job.allocated] == ["n2"]


@pytest.mark.parametrize("name", ["none", "", "n1\n"])
async def test_unknown_names_are_not_found(cluster: Served, name: str) -> None:
    operator: Any = cluster.operator()
    for call, request in (
        (operator.GetNode, pb.GetNodeRequest(name=name)),
        (operator.GetTopology, pb.GetTopologyRequest(node=name)),
        (operator.GetJob, pb.GetJobRequest(job_id=name)),
        (operator.ExplainJob, pb.ExplainJobRequest(job_id=name)),
    ):
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await call(request)
        assert caught.value.code() is grpc.StatusCode.NOT_FOUND
        assert repr(name) in (caught.value.details() or "")


async def test_an_arrays_number_is_answered_with_its_tasks(cluster: Served) -> None:
    cluster.state.forecast = Forecast(at_s=100.0, play_count=1, jobs={})
    cluster.feed(JobQueued(at_s=100.0, job=builders.job("7_3", gpus=2)))
    operator: Any = cluster.operator()
    for call, request in (
        (operator.GetJob, pb.GetJobRequest(job_id="7")),
        (operator.ExplainJob, pb.ExplainJobRequest(job_id="7")),
        (operator.GetEta, pb.GetEtaRequest(job_id="7")),
    ):
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await call(request)
        assert caught.value.code() is grpc.StatusCode.NOT_FOUND
        assert "ask for a task of it: 7_3" in (caught.value.details() or "")


async def test_bytes_that_are_no_request_are_an_invalid_argument(served: Served) -> None:
    call: Any = served.operator_channel().unary_unary("/roost_proto.v1.Operator/GetNode")

    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await call(b"\xff\xff\xff")

    assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert caught.value.details() == "not a message of this method"


async def test_the_socket_lets_in_owner_and_group_only(served: Served) -> None:
    assert served.socket.stat().st_mode & 0o777 == 0o660


async def test_health_follows_the_daemon(served: Served) -> None:
    stub: Any = health_pb2_grpc.HealthStub(served.operator_channel())
    service = "roost_proto.v1.Operator"
    answers = []
    for is_serving in (True, False):
        await served.servers.set_serving(is_serving)
        answer = await stub.Check(health_pb2.HealthCheckRequest(service=service))
        answers.append(health_pb2.HealthCheckResponse.ServingStatus.Name(answer.status))

    assert answers == ["SERVING", "NOT_SERVING"]


async def test_a_client_that_knows_nothing_learns_the_service_by_reflection(
    cluster: Served,
) -> None:
    import asyncio

    def ask() -> tuple[list[str], Any]:
        with grpc.insecure_channel(f"unix:{cluster.socket}") as channel:
            database = ProtoReflectionDescriptorDatabase(channel)
            pool = descriptor_pool.DescriptorPool(database)
            service = pool.FindServiceByName("roost_proto.v1.Operator")
            method = service.FindMethodByName("GetNode")
            request = message_factory.GetMessageClass(method.input_type)
            response = message_factory.GetMessageClass(method.output_type)
            call: Any = channel.unary_unary(
                "/roost_proto.v1.Operator/GetNode",
                request_serializer=request.SerializeToString,
                response_deserializer=response.FromString,
            )
            return list(database.get_services()), call(request(name="n1"))

    services, node = await asyncio.to_thread(ask)

    assert "roost_proto.v1.Operator" in services
    assert "grpc.health.v1.Health" in services
    assert node.name == "n1"
