"""The learned order: least expected service first, within Slurm's priority and a bound."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.engine.conftest import HarnessFactory

from roost_engine.domain.events import JobChanged
from roost_engine.domain.model import JobId, JobSpec
from roost_engine.engine import EngineConfig
from roost_engine.plugins.plugins import Plugins
from roost_engine.plugins.stacks import OrderKind
from roost_engine.policies.protocols import KeyedOrder, QueueView, SortKey
from roost_engine.prediction.predictors import Predictors
from roost_engine.prediction.run_time.run_times import RunTimes
from roost_engine.prediction.service import ServiceIndex, expected_s
from roost_engine.queue.learned_order import Fairness, LearnedOrder, LearnedOrderConfig
from roost_engine.scoring.heuristic import HeuristicScore
from roost_engine.testing.builders import (
    EngineHarness,
    bridges,
    job,
    node,
    placed,
    waiting,
)

SHORT, LONG = 1, 2  # users whose jobs run for a minute, and for ten hours
ON = EngineConfig(standing_pins=True, standing_pin_after_s=0.0)


def taught(reads_limits: bool = True) -> Predictors:
    """Return predictors that have seen twenty jobs of each user."""
    predictors = Predictors(reads_limits=reads_limits)
    for number in range(20):
        for user_id, run_s in ((SHORT, 60.0), (LONG, 36_000.0)):
            spec = replace(job(f"{user_id}{number}", user_id=user_id), name=f"train-{user_id}")
            predictors.history.add(spec, run_s, 0.0)
    return predictors


def of(user_id: int, job_id: str = "1", gpus: int = 1, **fields: object) -> JobSpec:
    spec = job(job_id, gpus=gpus, user_id=user_id)
    return replace(spec, name=f"train-{user_id}", **fields)  # type: ignore[arg-type]


FREE = LearnedOrderConfig()


def key(spec: JobSpec, config: LearnedOrderConfig = FREE) -> SortKey:
    return LearnedOrder(config, taught()).key(waiting(spec), 0.0)


def test_a_job_of_a_user_with_short_jobs_goes_first() -> None:
    assert isinstance(LearnedOrder(LearnedOrderConfig(), Predictors()), KeyedOrder)
    assert key(of(SHORT, "9")) < key(of(LONG, "1"))
    assert key(of(LONG, "9", gpus=1)) < key(of(LONG, "1", gpus=8))


@pytest.mark.parametrize("index", ServiceIndex)
def test_each_index_tells_short_jobs_from_long_ones(index: ServiceIndex) -> None:
    config = LearnedOrderConfig(index=index)
    assert key(of(SHORT, "9"), config) < key(of(LONG, "1"), config)


def test_the_risk_of_a_wrong_guess_weighs_on_jobs_that_may_run_long() -> None:
    fracs = Predictors().history.times(job("1"), 0.0, 0.0).ending_fracs
    times = RunTimes(fracs)
    assert expected_s(times, ServiceIndex.RISK) > expected_s(times, ServiceIndex.MEAN)


def test_strict_fairness_changes_places_among_equal_priorities_only() -> None:
    strict = LearnedOrderConfig(fairness=Fairness.STRICT)
    assert key(of(LONG, "1", priority=11), strict) < key(of(SHORT, "2", priority=10), strict)
    assert key(of(SHORT, "2", priority=10), strict) < key(of(LONG, "1", priority=10), strict)


def test_band_fairness_changes_places_within_a_band_of_priority() -> None:
    band = LearnedOrderConfig(fairness=Fairness.BAND, band=100)
    assert key(of(SHORT, "2", priority=100), band) < key(of(LONG, "1", priority=199), band)
    assert key(of(LONG, "1", priority=200), band) < key(of(SHORT, "2", priority=199), band)


def test_free_fairness_looks_at_priority_for_ties_only() -> None:
    assert key(of(SHORT, "2", priority=1)) < key(of(LONG, "1", priority=10**9))
    assert key(of(LONG, "2", priority=2)) < key(of(LONG, "1", priority=1))


@pytest.mark.parametrize("fairness", Fairness)
def test_what_an_operator_put_first_or_last_wins_in_every_mode(fairness: Fairness) -> None:
    first, last = of(LONG, "1", precedence=1), of(SHORT, "2", precedence=-1, priority=10**6)
    plain, foremost = of(SHORT, "3"), of(LONG, "4", precedence=2)
    config = LearnedOrderConfig(fairness=fairness)
    ranked = sorted((last, plain, first, foremost), key=lambda spec: key(spec, config))
    assert [spec.job_id for spec in ranked] == ["4", "1", "3", "2"]


def test_a_job_goes_before_those_that_it_was_moved_past_and_no_others() -> None:
    order = LearnedOrder(FREE, taught())
    mine, other = of(SHORT, "1"), of(2, "2", gpus=4)
    passed, moved = of(LONG, "3", gpus=8), of(LONG, "4", gpus=64, priority=1)
    keys = {spec.job_id: order.key(waiting(spec), 0.0) for spec in (mine, other, passed, moved)}
    assert sorted(keys, key=keys.__getitem__) == ["1", "2", "3", "4"]
    ahead = replace(moved, overtakes=(passed.job_id, "77"))  # type: ignore[arg-type]
    keys["4"] = order.key(waiting(ahead), 0.0)  # type: ignore[index]
    assert sorted(keys, key=keys.__getitem__) == ["1", "2", "4", "3"]


def test_a_job_keeps_the_place_that_it_was_moved_to_when_its_priority_changes() -> None:
    order = LearnedOrder(FREE, taught())
    old, moved = of(LONG, "3", gpus=8), of(LONG, "4", gpus=64, overtakes=(JobId("3"),))
    passed = order.key(waiting(old), 0.0)
    first = order.key(waiting(moved), 0.0)
    again = order.key(waiting(replace(moved, priority=5)), 60.0)
    assert first[2] == again[2] == passed[2]


def test_only_one_job_gains_from_being_moved_past_the_same_old_one() -> None:
    order = LearnedOrder(FREE, taught())
    old = of(LONG, "3", gpus=8)
    passed = order.key(waiting(old), 0.0)
    first, second = (
        order.key(waiting(of(LONG, name, gpus=64, overtakes=(old.job_id,))), 0.0)
        for name in ("4", "5")
    )
    assert first[2] == passed[2]
    assert second > first


def distrusted() -> Predictors:
    """Return predictors that have put the last jobs in the wrong order."""
    predictors = taught()
    for number in range(320):
        predictors.skill.expect(JobId(str(number)), 1e6 / (number + 1.0))
        predictors.skill.end(JobId(str(number)), number + 1.0)
    assert predictors.skill.trust_frac == 0.0
    return predictors


def test_where_predictions_order_jobs_the_wrong_way_the_first_to_come_goes_first() -> None:
    order, always = (
        LearnedOrder(replace(FREE, earned_trust=trust), distrusted()) for trust in (True, False)
    )
    long, short = of(LONG, "1", submit_s=5.0), of(SHORT, "2", submit_s=6.0)
    assert order.key(waiting(long), 6.0) < order.key(waiting(short), 6.0)
    assert always.key(waiting(long), 6.0) > always.key(waiting(short), 6.0)
    assert (order.generation > 0, always.generation) == (True, 0)


@pytest.mark.parametrize("fields", [{}, {"precedence": 1}, {"priority": 7}, {"eligible_s": 50.0}])
def test_a_key_that_is_made_again_is_the_one_of_the_present_trust(fields: dict[str, float]) -> None:
    predictors = taught()
    order, record = (
        LearnedOrder(FREE, predictors),
        waiting(
            replace(of(LONG, "1", submit_s=5.0), **fields)  # type: ignore[arg-type]
        ),
    )
    before = order.key(record, 6.0)
    assert order.key_again(record, 7.0) == before
    predictors.skill = distrusted().skill
    again = order.key_again(record, 7.0)
    assert again == LearnedOrder(FREE, predictors).key(record, 7.0) < before
    assert LearnedOrder(FREE, predictors).key_again(record, 7.0) == again  # not asked before


def test_a_job_that_was_moved_while_trust_was_lost_goes_before_no_others_when_it_is_back() -> None:
    predictors = taught()
    trusted, predictors.skill = predictors.skill, distrusted().skill
    order, passed = LearnedOrder(FREE, predictors), of(LONG, "3", gpus=8)
    moved = of(LONG, "4", gpus=64, submit_s=1.0, overtakes=(passed.job_id,))
    records = [waiting(spec) for spec in (of(SHORT, "1", submit_s=2.0), passed, moved)]
    assert [order.key(record, 2.0)[2] for record in records] == [2.0, 0.0, 0.0]
    predictors.skill = trusted
    other, one, ahead = (order.key_again(record, 7.0)[2] for record in records)
    assert other < one == ahead  # type: ignore[operator]


def test_a_short_job_that_was_moved_while_trust_was_lost_keeps_its_own_due_time() -> None:
    predictors = taught()
    trusted, predictors.skill = predictors.skill, distrusted().skill
    order, passed = LearnedOrder(FREE, predictors), of(LONG, "3", gpus=8)
    moved = waiting(of(SHORT, "4", submit_s=1.0, overtakes=(passed.job_id,)))
    order.key(waiting(passed), 1.0)
    assert order.key(moved, 1.0)[2] == 0.0
    predictors.skill = trusted
    alone = LearnedOrder(FREE, predictors).key(waiting(of(SHORT, "4", submit_s=1.0)), 1.0)
    assert order.key_again(moved, 7.0)[2] == alone[2]


def test_jobs_that_wait_are_served_as_they_came_once_trust_is_lost(
    make_harness: HarnessFactory,
) -> None:
    policies = Plugins(order=OrderKind.LEARNED).policies(HeuristicScore())
    predictors = policies.predictors
    assert predictors is not None
    predictors.history.restore(taught().history.state())
    harness = make_harness([node("a")], bridges(), policies=policies)
    harness.run(job("100", gpus=8, user_id=7))
    harness.queue(of(LONG, "1", gpus=8, submit_s=1.0), of(SHORT, "2", gpus=8, submit_s=2.0))
    long, short = (harness.engine.sort_key(JobId(one)) for one in "12")
    assert long > short  # type: ignore[operator]
    skill = distrusted().skill
    predictors.skill.trust_frac, predictors.skill.generation = skill.trust_frac, skill.generation
    harness.now_s = 60.0
    assert list(placed(harness.end("100"))) == ["1"]


_SPECS = st.builds(
    lambda user_id, gpus, submit_s, late_s: job(
        "1", gpus=gpus, user_id=user_id, submit_s=submit_s, eligible_s=late_s
    ),
    user_id=st.integers(1, 3),
    gpus=st.integers(1, 64),
    submit_s=st.floats(0, 1e6),
    late_s=st.floats(0, 2e6),
)


@given(
    one=_SPECS,
    later_s=st.floats(0.001, 1e6),
    other=_SPECS,
    index=st.sampled_from(ServiceIndex),
    ageing=st.floats(0, 100),
    window_s=st.floats(0, 1e6),
    backlogs=st.floats(0, 100),
)
def test_no_job_is_overtaken_by_one_that_became_eligible_after_its_window(
    one: JobSpec,
    later_s: float,
    other: JobSpec,
    index: ServiceIndex,
    ageing: float,
    window_s: float,
    backlogs: float,
) -> None:
    config = LearnedOrderConfig(
        index=index, ageing=ageing, window_s=window_s, window_backlogs=backlogs
    )
    order = LearnedOrder(config, predictors := taught())
    record = waiting(one)
    own = order.key(record, 0.0)
    from_s = max(one.submit_s, one.eligible_s)
    record.sort_key = (0, *own)
    due_s = order.due_s(record)
    assert due_s is not None
    bound_s = from_s + window_s + backlogs * predictors.backlog.drain_s()
    assert from_s <= due_s <= bound_s + 1e-3
    late = replace(other, job_id="2", submit_s=due_s + later_s, eligible_s=0.0)  # type: ignore[arg-type]
    assert order.key(waiting(late), 0.0) > own


def test_the_window_grows_with_the_queue_that_a_job_finds() -> None:
    config = LearnedOrderConfig(ageing=1e9, window_s=100.0)
    alone = LearnedOrder(config, taught()).key(waiting(of(LONG, "1")), 0.0)
    crowded = taught()
    crowded.backlog.wait(of(LONG, "2").job_id, 1e6)
    assert LearnedOrder(config, crowded).key(waiting(of(LONG, "1")), 0.0) > alone


def test_a_job_that_the_slots_heuristic_ranked_has_no_due_time() -> None:
    order, record = LearnedOrder(LearnedOrderConfig(), Predictors()), waiting(job("1"))
    assert order.due_s(record) is None
    record.sort_key = (1, 0, 0.0, 1, "1", 0, "")
    assert order.due_s(record) is None


def test_ranking_is_by_key() -> None:
    order = LearnedOrder(LearnedOrderConfig(), taught())
    jobs = (waiting(of(LONG, "1")), waiting(of(SHORT, "2")))
    cluster = EngineHarness().engine.cluster
    assert order.rank(QueueView(jobs=jobs, cluster=cluster, at_s=0.0)) == ["2", "1"]


# -- in the engine -------------------------------------------------------------------------------


@pytest.fixture
def full(make_harness: HarnessFactory) -> EngineHarness:
    """A full node in an engine that has seen jobs of both users, with standing pins."""
    policies = Plugins(order=OrderKind.LEARNED).policies(HeuristicScore())
    assert policies.predictors is not None
    policies.predictors.restore(taught().state())
    harness = make_harness([node("a")], bridges(), policies=policies, config=ON)
    harness.run(job("100", gpus=8, time_limit_s=100.0, user_id=7))
    return harness


def pinned(harness: EngineHarness) -> list[str]:
    return [job_id for job_id, record in harness.engine.records() if record.standing is not None]


def test_the_head_of_the_learned_order_holds_the_standing_pin(full: EngineHarness) -> None:
    full.queue(of(LONG, "1", gpus=8, priority=9))
    assert pinned(full) == ["1"]
    full.queue(of(SHORT, "2", gpus=4))
    assert pinned(full) == ["2"]


def test_where_pins_are_final_the_head_of_the_learned_order_gets_the_one_pin(
    make_harness: HarnessFactory,
) -> None:
    policies = Plugins(order=OrderKind.LEARNED).policies(HeuristicScore())
    assert policies.predictors is not None
    policies.predictors.restore(taught().state())
    config = replace(ON, standing_pins_are_final=True, standing_pin_after_s=10.0)
    harness = make_harness([node("a")], bridges(), policies=policies, config=config)
    harness.run(job("100", gpus=8, time_limit_s=100.0, user_id=7))
    harness.queue(of(LONG, "1", gpus=8, priority=9), of(SHORT, "2", gpus=4))
    assert pinned(harness) == []
    harness.advance(10.0)
    assert pinned(harness) == ["2"]


def test_a_job_put_first_while_it_waits_takes_over_the_pin_and_keeps_its_wait(
    full: EngineHarness,
) -> None:
    full.queue(of(SHORT, "2", gpus=4), of(LONG, "1", gpus=8))
    assert pinned(full) == ["2"]
    full.advance(50.0)
    record = full.engine.record(of(LONG, "1").job_id)
    full.feed(JobChanged(at_s=full.now_s, job=of(LONG, "1", gpus=8, precedence=1)))
    assert pinned(full) == ["1"]
    assert full.engine.record(record.job_id) is record
    assert record.wait.precedence == 1


def test_a_higher_tier_goes_first_whatever_was_learned(full: EngineHarness) -> None:
    full.queue(of(SHORT, "2", gpus=4, precedence=5))
    full.queue(of(LONG, "1", gpus=8, priority_tier=2))
    assert pinned(full) == ["1"]
