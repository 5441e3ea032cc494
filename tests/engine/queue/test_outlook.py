"""Outlooks: positions in both orders, expected run times, and that reading changes nothing."""

from dataclasses import replace

import pytest
from tests.engine.conftest import HarnessFactory

from roost_engine.domain.errors import UnknownJob
from roost_engine.domain.model import JobId, JobSpec
from roost_engine.plugins.plugins import Plugins
from roost_engine.plugins.stacks import OrderKind
from roost_engine.queue.outlook import Outlook, QueuePosition, outlooks_of
from roost_engine.scoring.heuristic import HeuristicScore
from roost_engine.testing.builders import EngineHarness, bridges, job, node


@pytest.fixture
def full(make_harness: HarnessFactory) -> EngineHarness:
    """A node that is full, in an engine with the learned order."""
    policies = Plugins(order=OrderKind.LEARNED).policies(HeuristicScore())
    harness = make_harness([node("a")], bridges(), policies=policies)
    harness.run(job("100", gpus=8))
    return harness


def outlook(harness: EngineHarness, job_id: str, at_s: float = 0.0) -> Outlook:
    return harness.engine.outlook(JobId(job_id), at_s)


def big(job_id: str, priority: int = 0, **fields: object) -> JobSpec:
    return replace(job(job_id, gpus=8, priority=priority), **fields)  # type: ignore[arg-type]


def knows_the_user(harness: EngineHarness) -> None:
    """Let a job of the user have ended: without one, the number of GPUs does not count."""
    predictors = harness.engine.policies.predictors
    assert predictors is not None
    predictors.history.add(job("90"), 3_600.0, 0.0)


def test_positions_are_by_the_order_that_decides_and_by_slurms_priority(
    full: EngineHarness,
) -> None:
    knows_the_user(full)
    full.queue(big("1", priority=9), job("2", gpus=1), job("3", gpus=2, priority=5))
    places = {name: outlook(full, name).position for name in "123"}
    assert places == {
        "1": QueuePosition(position=3, slurm_position=1, of_count=3),
        "2": QueuePosition(position=1, slurm_position=3, of_count=3),
        "3": QueuePosition(position=2, slurm_position=2, of_count=3),
    }


def test_a_list_has_the_same_positions(full: EngineHarness) -> None:
    knows_the_user(full)
    full.queue(
        big("1", priority=9),
        job("2", gpus=1),
        job("3", gpus=2, priority=5),
        big("4", priority_tier=3, precedence=-1),
    )
    engine = full.engine
    records = [engine.record(JobId(name)) for name in ("100", "1", "2", "3", "4")]
    listed = dict(outlooks_of(engine.policies.order, records))
    assert sorted(listed) == ["1", "2", "3", "4"]
    for name, found in listed.items():
        assert found == replace(outlook(full, name), expectation=None)


def test_a_higher_tier_is_ahead_in_both_orders(full: EngineHarness) -> None:
    full.queue(job("2", gpus=1, priority=7), big("1", priority_tier=3))
    assert outlook(full, "1").position == QueuePosition(position=1, slurm_position=1, of_count=2)


def test_a_running_job_has_no_position_but_an_expected_rest(full: EngineHarness) -> None:
    found = outlook(full, "100", 60.0)
    assert found.position is None
    assert found.overtaken_until_s is None
    assert found.expectation is not None


def test_a_job_that_may_not_start_yet_has_no_position(full: EngineHarness) -> None:
    full.queue(job("1", eligible_s=500.0))
    assert outlook(full, "1").position is None


def test_in_shadow_mode_a_decided_job_keeps_its_position(make_harness: HarnessFactory) -> None:
    policies = Plugins(order=OrderKind.LEARNED).policies(HeuristicScore())
    harness = make_harness([node("a")], bridges(), policies=policies)
    knows_the_user(harness)
    harness.queue(job("1", gpus=8, binding=False), job("2", gpus=1, binding=False))
    assert harness.engine.record(JobId("1")).placement is not None
    assert outlook(harness, "1").position == QueuePosition(position=2, slurm_position=1, of_count=2)


def test_expectations_follow_what_was_learned(full: EngineHarness) -> None:
    predictors = full.engine.policies.predictors
    assert predictors is not None
    for number in range(30):
        predictors.history.add(replace(job(f"9{number}"), name="short"), 60.0, 0.0)
    full.queue(replace(job("1", gpus=2), name="short"))
    found = outlook(full, "1")
    assert found.expectation is not None
    known = found.expectation
    assert known.low_s < known.median_s < known.high_s
    assert known.low_s < 60.0 < known.high_s < 600.0
    assert known.similar_count == pytest.approx(10.0, abs=3.0)
    assert known.gpu_s > 2 * known.low_s
    assert found.overtaken_until_s is not None
    assert found.overtaken_until_s > 0.0


def test_orders_without_ageing_say_from_when_on_a_job_goes_first(
    make_harness: HarnessFactory,
) -> None:
    plugins = Plugins(order=OrderKind.LAS, longest_wait_s=5_000.0)
    harness = make_harness([node("a")], bridges(), policies=plugins.policies(HeuristicScore()))
    harness.run(job("100", gpus=8))
    harness.queue(big("1"))
    assert outlook(harness, "1", 100.0).overtaken_until_s == 5_000.0


def test_looking_changes_nothing(full: EngineHarness) -> None:
    full.queue(big("1"), big("2", precedence=-1))
    predictors = full.engine.policies.predictors
    assert predictors is not None
    before, drain_s = predictors.state(), predictors.backlog.drain_s()
    assert outlook(full, "2", 1e6).precedence == -1
    assert (predictors.state(), predictors.backlog.drain_s()) == (before, drain_s)


def test_without_predictors_there_is_a_position_alone(make_harness: HarnessFactory) -> None:
    harness = make_harness([node("a")])
    harness.run(job("100", gpus=8))
    harness.queue(big("1"))
    assert outlook(harness, "1") == Outlook(
        position=QueuePosition(position=1, slurm_position=1, of_count=1)
    )


def test_an_unknown_job_has_none(full: EngineHarness) -> None:
    with pytest.raises(UnknownJob):
        outlook(full, "77")
