"""The engine's view in the words of operator.proto: jobs left to Slurm, waits, UUIDs, problems."""

from dataclasses import replace

import pytest
from tests.daemon.rpc.probes import hello, sample
from tests.daemon.rpc.served import ManualClock

from roost_engine.domain.errors import UnknownJob, UnknownNode
from roost_engine.domain.events import Event, JobEnded, JobQueued, JobStarted, NodeLost, NodeSeen
from roost_engine.domain.model import JobId, NodeName
from roost_engine.engine import Engine, EngineConfig
from roost_engine.plugins.plugins import Policies
from roost_engine.plugins.stacks import OrderKind
from roost_engine.sharing.pairs import Pairs, SharingConfig
from roost_engine.testing.builders import job, node, share
from roost_proto.v1 import operator_pb2 as pb
from roostd.config.config import Config
from roostd.config.decisions import OrderSection
from roostd.rpc.errors import UnknownTopology
from roostd.rpc.messages import convert, jobs
from roostd.slurm.comment import JobComment
from roostd.state import DaemonState, Owner, UnmanagedJob
from roostd.telemetry.board import ProbeBoard
from roostd.telemetry.probe_messages import read_hello

N1, ONE, TWO, NINE = NodeName("n1"), JobId("1"), JobId("2"), JobId("9")


@pytest.fixture
def state() -> DaemonState:
    """Nodes n1 and n2 of 4 GPUs without probes at 100 s; job 1 placed on two GPUs of n1."""
    clock = ManualClock()
    told: list[Event] = []
    state = DaemonState(
        version="1.2",
        clock=clock,
        config=Config(),
        engine=Engine(EngineConfig(), Policies()),
        board=ProbeBoard(clock.now_s, told.append),
        slurm_fault="",
    )
    for name in ("n1", "n2"):
        state.engine.step(NodeSeen(at_s=100.0, node=node(name, 4, cpu_count=8)))
        list(state.board.introduce(NodeName(name)))
    state.engine.step(JobQueued(at_s=100.0, job=job("1", gpus=2)))
    return state


def start(state: DaemonState, job_id: JobId, *gpus: int, cpu_count: int = 1) -> None:
    shares = (share("n1", *gpus, cpu_count=cpu_count),)
    state.engine.step(JobStarted(at_s=101.0, job_id=job_id, shares=shares))


def test_status_tells_the_digest_of_a_model_and_none_for_the_heuristic(state: DaemonState) -> None:
    assert convert.status(state).policy_sha256 == ""

    class Model:
        name = "onnx:0123456789ab"

    state.engine = Engine(EngineConfig(), Policies(score=Model()))  # type: ignore[arg-type]
    assert convert.status(state).policy_sha256 == "0123456789ab"


def test_status_names_the_cluster_of_the_configuration_before_slurms(state: DaemonState) -> None:
    state.cluster = "of-slurm"
    assert convert.status(state).cluster == "of-slurm"
    state.config = Config(cluster="of-file")
    assert convert.status(state).cluster == "of-file"


def test_status_tells_of_shares_only_where_the_order_keeps_them(state: DaemonState) -> None:
    assert not convert.status(state).HasField("share_user_count")
    section = OrderSection(kind=OrderKind.LEARNED, share_slack=1.5)
    state.config = state.config.model_copy(update={"order": section})
    assert convert.status(state).HasField("share_user_count")
    assert convert.status(state).share_user_count == 0
    state.share_count = 12
    assert convert.status(state).share_user_count == 12


def test_nodes_that_slurm_dropped_are_not_told(state: DaemonState) -> None:
    assert convert.node_names(state) == ["n1", "n2"]
    state.engine.step(NodeLost(at_s=101.0, name=N1))

    assert convert.node_names(state) == ["n2"]
    with pytest.raises(UnknownNode):
        convert.node(state, N1, {})


def test_a_node_tells_free_cpus_and_the_holder_of_each_gpu(state: DaemonState) -> None:
    start(state, ONE, 0, 1, cpu_count=3)

    told = convert.node(state, N1, convert.holders(state))

    assert (told.cpu_count, told.cpu_free_count) == (8, 5)
    assert [gpu.job_id for gpu in told.gpus] == ["1", "1", "", ""]
    assert [gpu.free for gpu in told.gpus] == [False, False, True, True]


@pytest.mark.parametrize(
    ("gpu_count", "silent_s", "problems"),
    [
        (4, 10.0, []),
        (4, 11.0, ["the probe has been silent for 11 s"]),
        (
            3,
            0.0,
            [
                "the probe sees 3 GPUs, Slurm 4: links and load are not used; check gres.conf",
            ],
        ),
    ],
)
def test_a_node_tells_what_is_wrong_with_its_probe(
    state: DaemonState, gpu_count: int, silent_s: float, problems: list[str]
) -> None:
    report = state.board.apply_hello(read_hello(hello("n1", gpu_count)), "stream")
    state.board.apply_sample(report, sample(gpu_count=gpu_count), is_checked=True)
    assert isinstance(state.clock, ManualClock)
    state.clock.at_s += silent_s

    assert list(convert.node(state, N1, {}).problems) == problems


def test_links_are_known_only_of_nodes_with_a_probe_that_has_gpus(state: DaemonState) -> None:
    with pytest.raises(UnknownNode):
        convert.topology(state, NodeName("n9"))
    with pytest.raises(UnknownTopology, match="node n1 has no probe"):
        convert.topology(state, N1)
    state.board.apply_hello(read_hello(hello("n1", lanes={(1, 3): 4})), "stream")
    lanes = {(link.a, link.b): link.nvlink_count for link in convert.topology(state, N1).links}
    assert {pair for pair, count in lanes.items() if count} == {(1, 3)}


@pytest.mark.parametrize(
    ("is_blocked", "told"), [(True, pb.JOB_STATE_WAITING), (False, pb.JOB_STATE_LET_GO)]
)
def test_a_job_that_roost_does_not_place_tells_why_and_whose_it_is(
    state: DaemonState, is_blocked: bool, told: "pb.JobState.ValueType"
) -> None:
    state.unmanaged[NINE] = UnmanagedJob(reason="held", is_blocked=is_blocked)
    state.owners[NINE] = Owner(42, "debug")

    (listed,) = (one for one in jobs.jobs(state, False) if one.job_id == NINE)

    assert listed == jobs.job(state, NINE)
    assert listed.state == told
    assert listed.reason == "held"
    assert (listed.user_id, listed.partition) == (42, "debug")


def test_a_job_without_gpus_is_explained_but_not_listed(state: DaemonState) -> None:
    state.unmanaged_reasons = {NINE: "asks for no GPUs"}
    assert convert.explanation(state, NINE).job.reason == "asks for no GPUs"
    assert [one.job_id for one in jobs.jobs(state, True)] == ["1"]


def test_a_job_that_neither_slurm_nor_the_engine_has_is_unknown(state: DaemonState) -> None:
    with pytest.raises(UnknownJob):
        convert.explanation(state, NINE)


@pytest.mark.parametrize(
    ("gpus", "left", "reason"),
    [
        ((2,), None, "Slurm started it before this roostd saw it wait"),
        ((), None, "asks for no GPUs"),
        (
            (2,),
            UnmanagedJob(reason="its partition is off", is_blocked=False),
            "its partition is off",
        ),
    ],
)
def test_a_job_that_runs_without_roost_tells_why(
    state: DaemonState, gpus: tuple[int, ...], left: UnmanagedJob | None, reason: str
) -> None:
    start(state, NINE, *gpus)
    if left is not None:
        state.unmanaged[NINE] = left
    told = jobs.job(state, NINE)
    assert (told.reason, told.gpu_count) == (reason, len(gpus))


@pytest.mark.parametrize(
    ("is_blocked", "reason"), [(False, "left to Slurm, which could have started it"), (True, "")]
)
def test_a_job_that_slurm_started_after_a_wait_under_roost_tells_why(
    state: DaemonState, is_blocked: bool, reason: str
) -> None:
    state.engine.step(JobQueued(at_s=100.0, job=job("9", gpus=99)))
    start(state, NINE, 0, 1)
    left = UnmanagedJob(reason="left to Slurm, which could have started it", is_blocked=is_blocked)
    state.unmanaged[NINE] = left
    assert jobs.job(state, NINE).reason == reason


def test_a_wait_is_counted_to_the_start_or_the_end_and_else_to_now(state: DaemonState) -> None:
    state.engine.step(JobQueued(at_s=100.0, job=job("2", gpus=4, nodes=2)))
    start(state, ONE, 0, 1)
    assert isinstance(state.clock, ManualClock)
    state.clock.at_s = 130.0
    assert jobs.job(state, ONE).waited_s == 1.0
    assert jobs.job(state, TWO).waited_s == 30.0

    state.engine.step(JobEnded(at_s=120.0, job_id=TWO))
    assert jobs.job(state, TWO).waited_s == 20.0


def test_explain_tells_what_a_comment_said(state: DaemonState) -> None:
    assert not convert.explanation(state, ONE).HasField("comment")
    state.comments[ONE] = JobComment("bert", 600.0, ("key lr is unknown",))
    told = convert.explanation(state, ONE).comment
    assert (told.model, told.checkpoint_s) == ("bert", 600.0)
    assert list(told.problems) == ["key lr is unknown"]


def test_explain_says_that_a_job_counts_with_more_memory_than_it_states(
    state: DaemonState,
) -> None:
    state.engine = Engine(EngineConfig(), Policies(sharing=Pairs(SharingConfig())))
    spec = replace(job("1", gpus=1), shares_gpus=True, gpu_memory_bytes=18 << 30)
    state.engine.step(JobQueued(at_s=100.0, job=spec))
    state.comments[ONE] = JobComment(shares_gpus=True, gpu_memory_bytes=5 << 30)
    (problem,) = convert.explanation(state, ONE).comment.problems
    assert problem == (
        "memory: it states 5 GiB of each GPU, and runs of this user and name have used more:"
        " 18 GiB count"
    )
    state.comments[ONE] = JobComment(shares_gpus=True, gpu_memory_bytes=18 << 30)
    assert not convert.explanation(state, ONE).comment.problems


def test_every_candidate_but_the_chosen_one_tells_why_not(state: DaemonState) -> None:
    chosen, *others = convert.explanation(state, ONE).candidates
    assert chosen.why_not == ""
    assert others
    for other in others:
        assert other.score <= chosen.score
        if other.score == chosen.score:
            assert other.why_not == "as good; the chosen one comes first in order"
        else:
            assert other.why_not.startswith("score ")


def test_a_model_that_did_not_load_is_the_reason_why_the_heuristic_answered(
    state: DaemonState,
) -> None:
    assert convert.explanation(state, ONE).fallback_reason == ""
    state.policy_fault = "/m.onnx: no such file"
    assert convert.explanation(state, ONE).fallback_reason == "/m.onnx: no such file"


def test_uuids_are_told_in_the_order_asked_or_not_at_all(state: DaemonState) -> None:
    assert convert.uuids(state, N1, [0]) == []
    told: list[Event] = []
    state.board = ProbeBoard(state.clock.now_s, told.append)
    state.board.apply_hello(read_hello(hello("n1")), "stream")
    for event in told:
        state.engine.step(event)

    assert convert.uuids(state, N1, [3, 1]) == ["GPU-n1-3", "GPU-n1-1"]
    assert convert.uuids(state, N1, [3, 4]) == []
    assert convert.uuids(state, NodeName("n9"), [0]) == []


def standing(state: DaemonState, end_s: float | None) -> pb.Job:
    """A job that waits in Slurm since 100 s, at 130 s; the jobs on all GPUs end at `end_s`."""
    state.engine = Engine(EngineConfig(standing_pins=True, standing_pin_after_s=0.0), Policies())
    state.engine.step(NodeSeen(at_s=100.0, node=node("n1", 4, cpu_count=8)))
    shares = (share("n1", *range(4)),)
    state.engine.step(JobStarted(at_s=100.0, job_id=NINE, shares=shares, end_s=end_s))
    state.engine.step(JobQueued(at_s=100.0, job=job("1", gpus=2)))
    assert isinstance(state.clock, ManualClock)
    state.clock.at_s = 130.0
    return jobs.job(state, ONE)


def test_a_job_with_a_standing_pin_tells_where_and_since_when_it_waits(state: DaemonState) -> None:
    pin = standing(state, 400.0).standing
    assert [(one.node, list(one.gpu_indices)) for one in pin.shares] == [("n1", [0, 1])]
    assert (pin.age_s, pin.start_left_s) == (30.0, 270.0)
    assert not pin.slurm_chooses_gpus
    assert not pin.is_preempting


def test_no_start_is_expected_after_a_job_without_a_time_limit(state: DaemonState) -> None:
    told = standing(state, None)
    assert told.HasField("standing")
    assert not told.standing.HasField("start_left_s")


def test_a_job_under_a_lease_has_no_standing_pin(state: DaemonState) -> None:
    start(state, ONE, 0, 1)
    assert not jobs.job(state, ONE).HasField("standing")


def test_gpus_that_slurm_chooses_itself_are_said_to_be_so(state: DaemonState) -> None:
    standing(state, 400.0)
    record = state.engine.record(ONE)
    assert record.standing is not None
    scattered = replace(record.standing.placement, gpu_indices=(), indices_by_node=((2, 3),))
    record.standing = replace(record.standing, placement=scattered)
    pin = jobs.job(state, ONE).standing
    assert pin.slurm_chooses_gpus
    assert list(pin.shares[0].gpu_indices) == [2, 3]
