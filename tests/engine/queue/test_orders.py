"""Orders by value: attained service, and the ideal speed that a job achieved."""

from dataclasses import replace

import pytest

from roost_engine.domain.model import Placement
from roost_engine.domain.tier import Tier
from roost_engine.job_record import JobRecord, JobState
from roost_engine.policies.protocols import KeyedOrder, RekeyedOrder
from roost_engine.prediction.speed.speed_predictor import SpeedPredictor
from roost_engine.prediction.speed.speed_table import ModelSpeeds, TableOfSpeeds
from roost_engine.prediction.speed.tier_speeds import TierSpeeds
from roost_engine.queue.orders import OrderByValue, SpeedAchieved, attained_service
from roost_engine.testing.builders import job, share, waiting

SPEEDS = ModelSpeeds(model="bert", gpu_count=16, speeds=TierSpeeds(1.0, 0.8, 0.4))
PREDICTOR = SpeedPredictor(TableOfSpeeds((SPEEDS,)))


def requeued(job_id: str, ran_s: float, gpus: int = 8, priority: int = 0) -> JobRecord:
    """Return the record of a job that waits again after a run."""
    record = waiting(job(job_id, gpus=gpus, priority=priority))
    record.earlier_run_s = ran_s
    return record


def ran_on(*tiers: Tier, run_s: float = 100.0) -> JobRecord:
    """Return the record of a job of 16 GPUs that waits after a run on each tier."""
    spec = replace(job("1", gpus=8, nodes=2), model="bert")
    record = waiting(spec)
    for number, tier in enumerate(tiers):
        start_s = number * run_s
        nodes = share("a", *range(8)), share("b", *range(8))
        placement = Placement(("a", "b"), tuple(range(8)), spec.shapes[0], tier)  # type: ignore[arg-type]
        record.state, record.shares, record.placement = JobState.RUNNING, nodes, placement
        record.started_s = start_s
        again = waiting(spec)
        again.remember_runs(record, start_s + run_s)
        record = again
    return record


def test_least_attained_service_counts_gpus() -> None:
    one, eight = requeued("1", 800.0, gpus=1), requeued("2", 101.0, gpus=8)
    assert attained_service(one, 900.0) < attained_service(eight, 900.0) == (808.0,)


def test_an_order_settles_ties_by_slurms_priority() -> None:
    order = OrderByValue(attained_service, name="las")
    low, high, served = requeued("1", 0.0), requeued("2", 0.0, priority=9), requeued("3", 5.0)
    ranked = sorted((served, low, high), key=lambda record: order.key(record, 10.0))
    assert [record.job_id for record in ranked] == ["2", "1", "3"]
    assert isinstance(order, KeyedOrder)


def test_keys_are_made_again_when_trust_in_forecasts_changes() -> None:
    trusted = [True]
    order = OrderByValue(lambda job, at_s: (float(trusted[0]),), is_trusted=lambda: trusted[0])
    assert isinstance(order, RekeyedOrder)
    before, record = order.generation, requeued("1", 5.0)
    assert order.key_again(record, 1.0) == order.key(record, 1.0)
    trusted[0] = False
    assert order.generation != before
    assert order.key_again(record, 1.0)[1] == 0.0


def test_a_reported_speed_is_the_speed_achieved() -> None:
    record = ran_on(Tier.CLUSTER)
    record.earlier_run_s, record.work_s = 100.0, 90.0
    assert list(SpeedAchieved(PREDICTOR).value(record, 200.0)) == pytest.approx([0.9])


@pytest.mark.parametrize(
    ("tiers", "achieved"),
    [
        ((), 0.0),
        ((Tier.RACK,), 1.0),  # two nodes are never closer than one rack
        ((Tier.CLUSTER,), 0.5),  # 0.4 of a speed of 0.8
        ((Tier.RACK, Tier.CLUSTER), 0.75),
    ],
)
def test_without_reports_each_run_counts_with_the_expected_speed_of_its_tier(
    tiers: tuple[Tier, ...], achieved: float
) -> None:
    record = ran_on(*tiers)
    assert list(SpeedAchieved(PREDICTOR).value(record, 1_000.0)) == pytest.approx([achieved])


def test_without_a_predictor_a_job_without_reports_has_achieved_nothing() -> None:
    assert SpeedAchieved().value(ran_on(Tier.RACK), 1_000.0) == (0.0,)


def test_jobs_that_have_waited_for_the_longest_wait_go_first_in_the_order_of_their_waits() -> None:
    order = OrderByValue(attained_service, longest_wait_s=1_000.0)
    fresh, old, older = (
        waiting(job(name), since) for name, since in (("1", 500.0), ("2", 0.0), ("3", -9.0))
    )
    old.earlier_run_s = older.earlier_run_s = 3_600.0
    moved = waiting(replace(job("4"), precedence=1), 900.0)
    records = [fresh, old, older, moved]
    by_key = sorted(records, key=lambda record: order.key(record, 999.0))
    assert [record.job_id for record in by_key] == ["4", "3", "1", "2"]
    by_key = sorted(records, key=lambda record: order.key(record, 1_000.0))
    assert [record.job_id for record in by_key] == ["4", "3", "2", "1"]
    assert order.peek_key(old, 1_000.0) == order.key(old, 1_000.0)
