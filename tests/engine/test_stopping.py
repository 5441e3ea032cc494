"""Jobs that the engine has asked Slurm to stop; speeds, link use and pins of timers."""

import pytest
from tests.engine.conftest import HarnessFactory

from roost_engine.domain.actions import WakeAt
from roost_engine.domain.events import (
    EarlierRuns,
    JobQueued,
    JobsStopped,
    LinksSeen,
    SharesSeen,
    SpeedSeen,
    TimerPinned,
    WaitSoFar,
)
from roost_engine.domain.model import JobId
from roost_engine.engine import Engine, EngineConfig
from roost_engine.job_record import JobState
from roost_engine.plugins.plugins import Policies
from roost_engine.plugins.policy_kinds import make_order
from roost_engine.plugins.stacks import OrderKind
from roost_engine.prediction.predictors import Predictors
from roost_engine.scoring.heuristic import HeuristicScore
from roost_engine.testing.builders import (
    EngineHarness,
    bridges,
    job,
    node,
    placed,
    preempted,
)
from roost_engine.testing.fakes import (
    FakePreemption,
)


def preempting(make_harness: HarnessFactory, policy: FakePreemption) -> EngineHarness:
    """Run a job of low priority on the only node, then queue one of higher priority."""
    config = EngineConfig(stop_timeout_s=30.0)
    policies = Policies(preemption=policy)
    harness = make_harness([node("a")], bridges(), policies=policies, config=config)
    harness.run(job("1", gpus=8, priority=1))
    harness.queue(job("2", gpus=8, priority=2))
    return harness


def test_the_gpus_of_a_stopped_job_go_to_the_waiting_job(make_harness: HarnessFactory) -> None:
    harness = preempting(make_harness, FakePreemption())
    assert harness.state("1") is JobState.STOPPING
    assert "2" in placed(harness.stop("1"))
    assert harness.state("1") is JobState.WAITING


@pytest.mark.parametrize("order", [OrderKind.PRIORITY, OrderKind.LAS, OrderKind.LEARNED_LEFT])
def test_a_stopped_job_does_not_grow_older_in_the_history_whatever_the_order(
    make_harness: HarnessFactory, order: OrderKind
) -> None:
    predictors = Predictors()
    policies = Policies(order=make_order(order, predictors), predictors=predictors)
    harness = make_harness([node("a")], bridges(), policies=policies)
    harness.run(job("1", gpus=8, user_id=7))
    harness.now_s = 500.0
    harness.queue(job("2", gpus=8, user_id=8, priority=2))
    harness.stop("1")
    harness.start()
    assert (harness.state("1"), harness.state("2")) == (JobState.WAITING, JobState.RUNNING)
    assert predictors.history.running_ages_s(7, 9_500.0) == [500.0]
    harness.now_s = 9_500.0
    harness.end("2")
    harness.start()
    assert harness.state("1") is JobState.RUNNING
    assert predictors.history.running_ages_s(7, 9_700.0) == [700.0]


def test_a_job_that_was_stopped_while_no_engine_ran_does_not_grow_older(
    make_harness: HarnessFactory,
) -> None:
    before = Predictors()
    policies = Policies(predictors=before)
    harness = make_harness([node("a")], bridges(), policies=policies)
    harness.run(job("1", gpus=8, user_id=7))
    predictors = Predictors()
    predictors.restore(before.state())
    again = make_harness([], policies=Policies(predictors=predictors))
    runs = EarlierRuns(run_s=300.0, run_s_by_tier=(300.0, 0.0, 0.0), stop_count=1, work_s=0.0)
    wait = WaitSoFar(since_s=400.0, runs=runs)
    again.feed(JobQueued(at_s=400.0, job=job("1", gpus=8, user_id=7), wait=wait))
    assert predictors.history.running_ages_s(7, 5_000.0) == [300.0]


def test_a_job_that_cannot_be_stopped_keeps_running(make_harness: HarnessFactory) -> None:
    harness = preempting(make_harness, FakePreemption())
    harness.refuse_stop("1")
    assert (harness.state("1"), harness.state("2")) == (JobState.RUNNING, JobState.WAITING)


def test_a_job_that_has_not_stopped_in_time_keeps_running(make_harness: HarnessFactory) -> None:
    policy = FakePreemption(lease_s=5.0, renews_leases=True)
    config = EngineConfig(stop_timeout_s=30.0)
    policies = Policies(preemption=policy)
    harness = make_harness([node("a")], bridges(), policies=policies, config=config)
    harness.run(job("1"))
    assert list(preempted(harness.advance(5.0))) == ["1"]
    harness.advance(34.0)
    assert harness.state("1") is JobState.STOPPING
    harness.advance(35.0)
    assert harness.state("1") is JobState.RUNNING


def test_a_wake_up_is_requested_for_the_next_review(make_harness: HarnessFactory) -> None:
    policy = FakePreemption(lease_s=50.0, review_every_s=60.0)
    harness = preempting(make_harness, policy)
    assert harness.state("1") is JobState.RUNNING
    assert WakeAt(at_s=60.0) in harness.advance(10.0)  # after the alarm of the start deadline
    assert list(preempted(harness.advance(60.0))) == ["1"]


def test_speeds_of_known_jobs_are_stored(make_harness: HarnessFactory) -> None:
    harness = make_harness([node("a")], bridges())
    harness.run(job("1"))
    for job_id in ("1", "nobody"):
        harness.feed(SpeedSeen(at_s=0.0, job_id=JobId(job_id), speed_frac=0.5))
    # Ten seconds at half speed are five seconds of work.
    assert harness.engine.record(JobId("1")).efficiency(10.0) == 0.5


def test_link_use_of_running_jobs_is_stored_until_they_stop(
    make_harness: HarnessFactory,
) -> None:
    harness = make_harness([node("a")], bridges())
    harness.run(job("1", gpus=8))
    harness.queue(job("2", gpus=8))
    for job_id in ("1", "2", "nobody"):
        seen = LinksSeen(at_s=0.0, job_id=JobId(job_id), nvlink_frac=None, pcie_frac=0.25)
        harness.feed(seen)
    assert harness.engine.record(JobId("1")).pcie_frac == 0.25
    assert harness.engine.record(JobId("2")).pcie_frac is None
    harness.feed(JobsStopped(at_s=1.0, job_ids=(JobId("1"),)))
    assert harness.engine.record(JobId("1")).pcie_frac is None


def test_a_gate_without_timers_ignores_pins(make_harness: HarnessFactory) -> None:
    harness = make_harness([node("a")], bridges())
    assert harness.feed(TimerPinned(at_s=0.0, timer="rack", pinned_s=5.0)) == ()


def test_shares_are_kept_by_the_predictors_where_there_are_any(
    make_harness: HarnessFactory,
) -> None:
    seen = SharesSeen(at_s=0.0, shares={1001: 0.75, 1002: 0.25})
    assert make_harness([node("a")], bridges()).feed(seen) == ()
    predictors = Predictors()
    engine = Engine(EngineConfig(), Policies(score=HeuristicScore(), predictors=predictors))
    predictors.users.wait(JobId("1"), 1001, 60.0, 1.0, 0.0)
    predictors.users.wait(JobId("2"), 1002, 40.0, 1.0, 0.0)
    assert predictors.users.is_over(1001, 1.0, 0.0)
    assert engine.step(seen) == ()
    assert not predictors.users.is_over(1001, 1.0, 0.0)
