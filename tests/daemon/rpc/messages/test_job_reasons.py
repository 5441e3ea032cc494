"""messages.jobs: why a job is not placed by Roost, how long it waited, and standing pins."""

from dataclasses import replace

import pytest
from tests.daemon.rpc.messages.told_jobs import NINE, ONE, TWO, start
from tests.daemon.rpc.served import ManualClock

from roost_engine.domain.events import JobEnded, JobQueued, JobStarted, NodeSeen
from roost_engine.engine import Engine, EngineConfig
from roost_engine.plugins.plugins import Policies
from roost_engine.testing.builders import job, node, share
from roost_proto.v1 import operator_pb2 as pb
from roostd.rpc.messages import jobs
from roostd.rpc.messages.outlook import outlooks
from roostd.state import DaemonState, Owner, UnmanagedJob


@pytest.mark.parametrize(
    ("is_blocked", "told"), [(True, pb.JOB_STATE_WAITING), (False, pb.JOB_STATE_LET_GO)]
)
def test_a_job_that_roost_does_not_place_tells_why_and_whose_it_is(
    state: DaemonState, is_blocked: bool, told: "pb.JobState.ValueType"
) -> None:
    state.unmanaged[NINE] = UnmanagedJob(reason="held", is_blocked=is_blocked)
    state.owners[NINE] = Owner(42, "debug")

    (listed,) = (
        one for one in jobs.jobs(state, False, dict(outlooks(state))) if one.job_id == NINE
    )

    assert listed == jobs.job(state, NINE)
    assert listed.state == told
    assert listed.reason == "held"
    assert (listed.user_id, listed.partition) == (42, "debug")


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
