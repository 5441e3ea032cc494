"""Timers and expectations of a job's speed as operator.proto has them."""

import pytest
from tests.daemon.rpc.served import ManualClock

from roost_engine.domain.events import JobQueued, JobStarted, NodeSeen, TimerPinned
from roost_engine.domain.model import JobId
from roost_engine.engine import Engine, EngineConfig
from roost_engine.gate.delay import DelayGate
from roost_engine.job_record import shares_of
from roost_engine.plugins.plugins import Policies
from roost_engine.prediction.speed.job_class import TimerClass
from roost_engine.testing.builders import delay_policies, job, node
from roostd.config.config import Config
from roostd.rpc.messages import timers
from roostd.state import DaemonState
from roostd.telemetry.board import ProbeBoard

EIGHT_HIGH = TimerClass.of(8, 0.5)


def state_of(policies: Policies) -> DaemonState:
    clock = ManualClock()
    board = ProbeBoard(clock.now_s, lambda event: None)
    engine = Engine(EngineConfig(), policies)
    return DaemonState(version="1", clock=clock, config=Config(), engine=engine, board=board)


@pytest.fixture
def delaying() -> DaemonState:
    """A delay gate on one node of 4 GPUs."""
    state = state_of(delay_policies(DelayGate()))
    state.engine.step(NodeSeen(at_s=100.0, node=node("n1", 4)))
    return state


def run_job(state: DaemonState, job_id: str, gpus: int) -> None:
    state.engine.step(JobQueued(at_s=100.0, job=job(job_id, gpus=gpus)))
    record = state.engine.record(JobId(job_id))
    assert record.placement is not None
    shares = shares_of(record.placement)
    state.engine.step(JobStarted(at_s=100.0, job_id=JobId(job_id), shares=shares))


def test_a_gate_without_timers_has_none_to_tell() -> None:
    assert list(timers.every(state_of(Policies()))) == []


def test_a_class_that_is_not_known_of_yet_has_a_timer_with_its_name_alone(
    delaying: DaemonState,
) -> None:
    assert list(timers.every(delaying)) == []
    timer = timers.one(delaying, EIGHT_HIGH)
    assert (timer.name, timer.sample_count) == ("8/high", 0)
    assert not timer.HasField("pinned_s")
    assert not timer.HasField("tuned_ago_s")


def test_a_pinned_timer_is_told_in_seconds_for_both_tiers(delaying: DaemonState) -> None:
    delaying.engine.step(TimerPinned(at_s=100.0, timer="8/high", pinned_s=300.0))

    (timer,) = timers.every(delaying)

    assert (timer.name, timer.pinned_s) == ("8/high", 300.0)
    assert (timer.node_timer_s, timer.rack_timer_s) == (300.0, 300.0)
    assert timers.one(delaying, EIGHT_HIGH) == timer


def test_sensitivity_is_told_as_speed_across_racks_and_in_a_rack_by_speed_on_one_node(
    delaying: DaemonState,
) -> None:
    found = timers.sensitivity(delaying, job("1", gpus=4))

    assert found is not None
    assert 0 < found.across_frac <= found.rack_frac <= 1
    assert found.timer.partition("/")[0] == "4"
    assert found.run_count == 0


def test_without_predictors_no_sensitivity_is_told() -> None:
    assert timers.sensitivity(state_of(Policies()), job("1", gpus=4)) is None


def test_only_a_job_that_runs_on_several_gpus_achieves_a_speed(delaying: DaemonState) -> None:
    run_job(delaying, "1", gpus=1)
    run_job(delaying, "2", gpus=2)
    delaying.engine.step(JobQueued(at_s=100.0, job=job("3", gpus=4)))
    single, several, waiting = (delaying.engine.record(JobId(name)) for name in "123")

    assert timers.achieved(delaying, single) is None
    assert timers.achieved(delaying, waiting) is None
    achieved = timers.achieved(delaying, several)
    assert achieved is not None
    assert achieved.speed_frac == 1.0  # on one node: as close together as it can be
    assert not achieved.HasField("nvlink_frac")
