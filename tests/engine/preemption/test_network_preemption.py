"""Victims are stopped best-served first, where that pays, within budget and cool-down.

Most tests use a lease of 3600 s, a restart of 120 s and a patience of 600 s.
"""

from collections.abc import Sequence
from dataclasses import replace
from math import inf

import pytest
from tests.engine.conftest import HarnessFactory

from roost_engine.domain.events import JobStarted, SpeedSeen
from roost_engine.domain.model import JobId, JobSpec
from roost_engine.job_record import JobRecord, JobState
from roost_engine.plugins.plugins import Policies
from roost_engine.policies.preemption_protocols import (
    JudgingMoves,
    JudgingPreemption,
)
from roost_engine.prediction.speed.speed_predictor import SpeedPredictor
from roost_engine.prediction.speed.tier_speeds import TierSpeeds
from roost_engine.preemption.network_preemption import NetworkPreemption, NetworkPreemptionConfig
from roost_engine.testing.builders import EngineHarness, bridges, job, node, preempted, shape, share

CONFIG = NetworkPreemptionConfig(partitions=("main",))


def saving(
    job_id: str, checkpoint_s: float | None = 600.0, gpus: int = 1, partition: str = "main"
) -> JobSpec:
    """Describe a job that saves checkpoints."""
    return replace(job(job_id, gpus=gpus, partition=partition), checkpoint_s=checkpoint_s)


def running(
    job_id: str,
    speed_frac: float | None = 1.0,
    since_s: float = 0.0,
    checkpoint_s: float | None = 600.0,
    partition: str = "main",
) -> JobRecord:
    """Return the record of a job that has run on 8 GPUs since `since_s` at one speed."""
    gpus = tuple(range(8))
    record = JobRecord(
        spec=saving(job_id, checkpoint_s, partition=partition),
        state=JobState.RUNNING,
        queued_s=since_s,
        started_s=since_s,
        shares=(share("a", *gpus),),
    )
    record.note_speed(speed_frac, since_s)
    return record


def waiting(job_id: str = "9", queued_s: float = 0.0, gpus: int = 8) -> JobRecord:
    return JobRecord(spec=job(job_id, gpus=gpus), state=JobState.WAITING, queued_s=queued_s)


def order(policy: NetworkPreemption, *records: JobRecord, at_s: float) -> list[str]:
    return [record.job_id for record in policy.first_to_go(records, at_s)]


@pytest.fixture
def policy() -> NetworkPreemption:
    return NetworkPreemption(CONFIG)


def test_is_a_judging_preemption(policy: NetworkPreemption) -> None:
    assert isinstance(policy, JudgingPreemption)


def test_only_jobs_with_checkpoints_in_configured_partitions_may_be_stopped() -> None:
    policy = NetworkPreemption(CONFIG)
    assert policy.lease_s(running("1")) == 3600
    assert policy.lease_s(running("1", checkpoint_s=inf)) == 3600
    assert policy.lease_s(running("1", checkpoint_s=None)) == inf
    assert policy.lease_s(running("1", partition="other")) == inf
    assert NetworkPreemption(NetworkPreemptionConfig()).lease_s(running("1")) == inf


def test_the_best_served_job_is_stopped_first(policy: NetworkPreemption) -> None:
    slow, fast = running("1", 0.5), running("2", 0.9)
    assert order(policy, slow, fast, at_s=5000.0) == ["2", "1"]


def test_a_job_that_would_lose_more_is_stopped_later(policy: NetworkPreemption) -> None:
    # Worth: 1.0 · 3600 - (900 + 120) = 2580 against 0.95 · 3600 - (60 + 120) = 3240.
    seldom, often = running("1", 1.0, checkpoint_s=900.0), running("2", 0.95, checkpoint_s=60.0)
    assert order(policy, seldom, often, at_s=5000.0) == ["2", "1"]


def test_a_job_without_a_checkpoint_yet_loses_only_its_present_run(
    policy: NetworkPreemption,
) -> None:
    assert policy.loss_s(running("1", since_s=4900.0), 5000.0) == 100 + 120
    assert policy.loss_s(running("1", since_s=0.0), 5000.0) == 600 + 120
    assert policy.loss_s(running("1", since_s=0.0, checkpoint_s=inf), 5000.0) == 5000 + 120


def test_no_job_is_stopped_for_a_job_that_has_not_waited_its_patience(
    policy: NetworkPreemption,
) -> None:
    victim = running("1")
    assert not policy.displaces(waiting(queued_s=4500.0), victim, 5000.0)
    assert policy.displaces(waiting(queued_s=4400.0), victim, 5000.0)


def test_a_stopped_job_does_not_displace_a_job_with_the_same_score(
    policy: NetworkPreemption,
) -> None:
    # The stopped job ran 1800 s at full speed: S = 1. The worth 1.0 · 3600 - 720 is not above
    # S · 3600.
    came_back = JobRecord(
        spec=saving("2", gpus=8),
        state=JobState.WAITING,
        queued_s=0.0,
        earlier_run_s=1800.0,
        work_s=1800.0,
    )
    assert not policy.displaces(came_back, running("1"), 5000.0)


def test_a_badly_served_job_is_not_displaced(policy: NetworkPreemption) -> None:
    # Worth: 0.2 · 3600 - 720 = 0, not above S · 3600 = 0 of a job that never ran.
    assert not policy.displaces(waiting(), running("1", 0.2), 5000.0)
    assert policy.displaces(waiting(), running("1", 0.21), 5000.0)


def test_a_job_without_a_reported_speed_counts_as_well_served(policy: NetworkPreemption) -> None:
    assert policy.score(running("1", None), 5000.0) == 1.0


def test_a_plan_must_gain_more_gpu_seconds_than_it_loses(policy: NetworkPreemption) -> None:
    # The victim's 8 GPUs lose 720 s each: 5760 GPU-seconds. One GPU gains 3600, two gain 7200.
    assert not policy.approve(waiting(gpus=1), [running("1")], 5000.0)
    assert policy.approve(waiting(gpus=2), [running("1")], 5000.0)


def test_the_hourly_budget_holds_and_is_renewed(policy: NetworkPreemption) -> None:
    first, second, third = (running(name) for name in "123")
    assert not policy.approve(waiting(gpus=24), [first, second, third], 5000.0)
    assert policy.approve(waiting(gpus=16), [first, second], 5000.0)
    assert order(policy, third, at_s=8599.0) == []
    assert order(policy, third, at_s=8600.0) == ["3"]


def test_each_partition_has_a_budget_of_its_own() -> None:
    policy = NetworkPreemption(replace(CONFIG, partitions=("main", "other"), budget_per_hour=1))
    assert policy.approve(waiting(), [running("1")], 5000.0)
    others = running("2", partition="other")
    assert order(policy, running("3"), others, at_s=5001.0) == ["2"]


def test_the_same_job_is_not_asked_again_within_its_cool_down(policy: NetworkPreemption) -> None:
    assert policy.approve(waiting(), [running("1")], 5000.0)
    again = running("1", since_s=5100.0)
    assert order(policy, again, at_s=12_199.0) == []
    assert order(policy, again, at_s=12_200.0) == ["1"]


def test_budget_and_cool_down_survive_a_restart(policy: NetworkPreemption) -> None:
    policy.approve(waiting(), [running("1")], 5000.0)
    later = NetworkPreemption(replace(CONFIG, budget_per_hour=1))
    later.restore(policy.state())
    assert later.state() == policy.state()
    assert order(later, running("2"), at_s=5001.0) == []
    assert order(later, running("1"), running("2"), at_s=9000.0) == ["2"]


@pytest.mark.parametrize("name", ["lease_s", "patience_s", "budget_per_hour"])
def test_refuses_negative_numbers(name: str) -> None:
    with pytest.raises(ValueError, match=name):
        NetworkPreemptionConfig(**{name: -1})  # type: ignore[arg-type]


# -- in the engine -----------------------------------------------------------------------------


def engine_with(
    make_harness: HarnessFactory, config: NetworkPreemptionConfig, specs: Sequence[JobSpec]
) -> EngineHarness:
    harness = make_harness(
        [node("a"), node("b")],
        bridges(),
        policies=Policies(preemption=NetworkPreemption(config)),
    )
    for spec in specs:
        harness.run(spec)
        harness.feed(SpeedSeen(at_s=harness.now_s, job_id=spec.job_id, speed_frac=1.0))
    return harness


def test_a_starved_job_gets_the_gpus_of_a_job_with_checkpoints(
    make_harness: HarnessFactory,
) -> None:
    running_now = [saving("1", None, gpus=8), saving("2", gpus=8)]
    harness = engine_with(make_harness, CONFIG, running_now)
    harness.advance(3500.0)
    harness.queue(job("3", gpus=8))
    # The lease of job 2 ends at 3600 s. Job 3 has waited 600 s at 4100 s; reviews are every minute.
    assert preempted(harness.advance(4139.0)) == {}
    assert preempted(harness.advance(4140.0)) == {"2": "3"}
    harness.stop("2")
    harness.start("3")
    assert harness.state("3") is JobState.RUNNING
    assert harness.state("2") is JobState.WAITING
    assert harness.engine.record(JobId("2")).stop_count == 1


def test_a_job_that_started_before_the_engine_may_be_stopped(
    make_harness: HarnessFactory,
) -> None:
    harness = engine_with(make_harness, CONFIG, [saving("1", None, gpus=8)])
    shares = (share("b", *range(8)),)
    began = JobStarted(
        at_s=0.0, job_id=JobId("2"), shares=shares, job=saving("2", gpus=8), since_s=-5000.0
    )
    harness.feed(began)
    assert harness.engine.record(JobId("2")).run_s(100.0) == 5100.0
    harness.queue(job("3", gpus=8))
    assert preempted(harness.advance(3599.0)) == {}, "its lease begins when it is reported"
    assert preempted(harness.advance(4000.0)) == {"2": "3"}


@pytest.mark.parametrize(("node_count", "speed_frac"), [(1, 1.0), (2, 0.7)])
def test_the_speed_of_a_job_that_another_engine_placed_depends_on_its_node_count(
    node_count: int, speed_frac: float
) -> None:
    policy = NetworkPreemption(CONFIG, SpeedPredictor())
    shares = tuple(share(name, *range(8 // node_count)) for name in "ab"[:node_count])
    found = replace(running("1", None), spec=saving("1", gpus=8), shares=shares)
    assert policy.score(found, 100.0) == pytest.approx(speed_frac)  # UNKNOWN_SPEEDS in a rack


def test_a_refused_stop_uses_up_the_cool_down(make_harness: HarnessFactory) -> None:
    harness = engine_with(make_harness, CONFIG, [saving("1", gpus=8), saving("2", None, gpus=8)])
    harness.queue(job("3", gpus=8))
    assert preempted(harness.advance(4000.0)) == {"1": "3"}
    harness.refuse_stop("1")
    assert harness.state("1") is JobState.RUNNING
    # The request to stop was made when the lease ended, at 3600 s.
    assert preempted(harness.advance(10_799.0)) == {}
    assert preempted(harness.advance(10_800.0)) == {"1": "3"}


# -- migration ---------------------------------------------------------------------------------

MOVING = replace(CONFIG, moves=True)


class Speeds:
    """The same speeds for all jobs: 1 on one node, and `rack_frac` on several nodes."""

    def __init__(self, rack_frac: float) -> None:
        self._found = TierSpeeds(1.0, rack_frac, rack_frac)

    def speeds(self, model: str, gpu_count: int) -> TierSpeeds | None:
        return self._found

    def typical(self, gpu_count: int) -> TierSpeeds:
        return self._found


def spread(
    make_harness: HarnessFactory, config: NetworkPreemptionConfig, rack_frac: float = 0.5
) -> EngineHarness:
    """Run job 9 on four GPUs of each node, beside job 1 on a and 2 on b, until its lease ends."""
    policy = NetworkPreemption(config, SpeedPredictor(Speeds(rack_frac)))
    harness = make_harness(
        [node("a", rack="r"), node("b", rack="r")], bridges(), policies=Policies(preemption=policy)
    )
    harness.run(job("1", gpus=4, required=["a"]), job("2", gpus=4, required=["b"]))
    harness.run(replace(job("9", shape(8), shape(4, 2)), checkpoint_s=600.0))
    assert harness.placement("9").nodes == ("a", "b")
    harness.advance(4_000.0)
    return harness


def test_is_a_judging_migration_policy(policy: NetworkPreemption) -> None:
    assert isinstance(policy, JudgingMoves)


def test_a_badly_placed_job_migrates_where_that_pays(make_harness: HarnessFactory) -> None:
    # It gains 3600 · (1 - 0.5) = 1800 s of work and loses 600 + 120 s.
    harness = spread(make_harness, MOVING)
    assert preempted(harness.end("1")) == {"9": None}
    harness.stop("9")
    assert harness.placement("9").nodes == ("a",)


@pytest.mark.parametrize(
    ("config", "rack_frac"),
    [
        (CONFIG, 0.5),
        (MOVING, 0.8),  # the gain of 3600 · (1 - 0.8) = 720 s is not above the loss
        (replace(MOVING, budget_per_hour=0), 0.5),
        (replace(MOVING, partitions=("other",)), 0.5),
        (replace(MOVING, lease_s=5_000.0), 0.5),
    ],
)
def test_a_job_does_not_migrate_where_that_does_not_pay_or_is_not_allowed(
    make_harness: HarnessFactory, config: NetworkPreemptionConfig, rack_frac: float
) -> None:
    assert preempted(spread(make_harness, config, rack_frac).end("1")) == {}


def test_a_migration_counts_as_a_stop(make_harness: HarnessFactory) -> None:
    harness = spread(make_harness, replace(MOVING, budget_per_hour=1))
    harness.end("1")
    policy = harness.engine.policies.preemption
    assert isinstance(policy, NetworkPreemption)
    assert policy.state().stops == ((4_000.0, "main"),)
    assert policy.state().asked == ((JobId("9"), 4_000.0),)
    assert not policy.approve_move(running("3"), 0, 4_001.0)


def test_the_job_that_gains_most_migrates_first_and_one_without_gain_does_not(
    make_harness: HarnessFactory,
) -> None:
    harness = spread(make_harness, MOVING)
    policy, spread_out = harness.engine.policies.preemption, harness.engine.record(JobId("9"))
    assert isinstance(policy, NetworkPreemption)
    assert spread_out.spec is not None
    spec = replace(spread_out.spec, job_id=JobId("8"), checkpoint_s=900.0)
    seldom = replace(spread_out, spec=spec)
    on_one_node = harness.engine.record(JobId("1"))
    found = policy.movers([on_one_node, seldom, spread_out], 4_000.0)
    assert [record.job_id for record in found] == ["9", "8"]
