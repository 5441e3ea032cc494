"""The bound of the learned order: a job that became eligible too late never overtakes."""

from collections.abc import Callable
from dataclasses import replace
from math import inf, nan

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tests.engine.conftest import HarnessFactory

from roost_engine.domain.actions import Place
from roost_engine.domain.events import JobEnded, JobStarted
from roost_engine.domain.model import JobId, JobSpec
from roost_engine.engine import Engine, EngineConfig
from roost_engine.plugins.plugins import Policies
from roost_engine.prediction.predictors import Predictors
from roost_engine.prediction.run_time.run_times import BAND_COUNT, RunTimes
from roost_engine.prediction.service import ServiceIndex
from roost_engine.queue.learned_order import (
    Fairness,
    LearnedOrder,
    LearnedOrderConfig,
)
from roost_engine.testing.builders import job, node, share, waiting
from roost_engine.testing.fakes import ToldRunTimes, ends_about

WINDOW_S = 10_000.0
MODES = list(Fairness)
FIXED = LearnedOrderConfig(window_s=WINDOW_S, window_backlogs=0.0)


def told(spec: JobSpec) -> RunTimes:
    """Expect of a job the time that its name says, in seconds."""
    run_s = float(spec.name or 100.0)
    return ends_about(run_s) if run_s == run_s else RunTimes(np.full(BAND_COUNT, nan))


def learned(
    config: LearnedOrderConfig = FIXED, run_times: Callable[[JobSpec], RunTimes] = told
) -> Policies:
    predictors = ToldRunTimes(run_times)
    return Policies(order=LearnedOrder(config, predictors), predictors=predictors)


def expected(job_id: str, run_s: float, **request: int | float) -> JobSpec:
    """Describe a job that is expected to run for so long."""
    return replace(job(job_id, **request), name=str(run_s))  # type: ignore[arg-type]


expectations = st.one_of(st.floats(0.0, 1e9), st.sampled_from([0.0, nan, 1e-9, 1e12]))
moments = st.floats(0.0, 1e7)


@given(
    fairness=st.sampled_from(MODES),
    index=st.sampled_from(list(ServiceIndex)),
    ageing=st.one_of(st.floats(0.0, 1e6), st.just(2.0)),
    window_s=st.floats(0.0, 1e6),
    from_s=moments,
    late_s=st.floats(1e-3, 1e6),
    runs_s=st.tuples(expectations, expectations),
    gpus=st.tuples(st.integers(1, 512), st.integers(1, 512)),
    priority=st.integers(-(10**6), 10**6),
)
@example(Fairness.FREE, ServiceIndex.MEAN, 2.0, 100.0, 0.0, 1.0, (1e9, 0.0), (512, 1), 0)
@example(Fairness.FREE, ServiceIndex.RISK, 2.0, 100.0, 0.0, 1.0, (nan, nan), (512, 1), 0)
def test_whatever_is_expected_a_job_that_comes_after_the_window_is_later_in_order(
    fairness: Fairness,
    index: ServiceIndex,
    ageing: float,
    window_s: float,
    from_s: float,
    late_s: float,
    runs_s: tuple[float, float],
    gpus: tuple[int, int],
    priority: int,
) -> None:
    config = LearnedOrderConfig(
        fairness=fairness, index=index, ageing=ageing, window_s=window_s, window_backlogs=0.0
    )
    order = LearnedOrder(config, ToldRunTimes(told))
    first = expected("1", runs_s[0], gpus=gpus[0], submit_s=from_s, priority=priority)
    since_s = from_s + window_s + late_s
    late = expected("2", runs_s[1], gpus=gpus[1], submit_s=since_s, priority=priority)
    assert order.key(waiting(first), from_s) < order.key(waiting(late), since_s)


@given(
    backlogs=st.floats(0.0, 100.0),
    others=st.lists(st.tuples(st.integers(1, 64), st.floats(1.0, 1e6)), max_size=20),
    late_s=st.floats(1.0, 1e6),
    run_s=expectations,
)
def test_the_window_is_that_of_the_queue_that_the_job_found(
    backlogs: float, others: list[tuple[int, float]], late_s: float, run_s: float
) -> None:
    config = LearnedOrderConfig(window_s=WINDOW_S, window_backlogs=backlogs, ageing=1e9)
    predictors = ToldRunTimes(told)
    order = LearnedOrder(config, predictors)
    for number, (gpu_count, length_s) in enumerate(others):
        order.key(waiting(expected(f"1{number}", length_s, gpus=gpu_count)), 0.0)
    found = order.key(waiting(expected("2", 1e6, gpus=512)), 0.0)
    window_s = WINDOW_S + backlogs * predictors.backlog.drain_s()
    after_s = window_s + late_s
    late = waiting(expected("3", run_s, submit_s=after_s))
    assert found < order.key(late, after_s)


def test_the_window_of_a_job_does_not_recede_while_the_queue_grows() -> None:
    # Slurm ages priorities every few minutes: each time the job is asked about again. If it were
    # given the window of that moment, an overload would put it off for ever.
    config = LearnedOrderConfig(window_s=WINDOW_S, window_backlogs=64.0, ageing=1e9)
    order = LearnedOrder(config, ToldRunTimes(told))
    gang = waiting(expected("1", 1e6, gpus=64))
    before = order.key(gang, 0.0)
    for number in range(50):
        order.key(waiting(expected(f"2{number}", 1e5, gpus=8)), 100.0)
    gang.spec = replace(gang.spec, priority=7)
    assert order.key(gang, 200.0)[2] == before[2]


def test_a_job_that_waits_again_after_a_run_is_promised_the_window_of_then() -> None:
    config = LearnedOrderConfig(window_s=WINDOW_S, window_backlogs=1.0)
    predictors = ToldRunTimes(told)
    order = LearnedOrder(config, predictors)
    gang = waiting(expected("1", 1e6, gpus=64))
    before = order.key(gang, 0.0)
    predictors.holds(JobId("1"), 1000, 64, 0.0)
    for number in range(50):
        order.key(waiting(expected(f"2{number}", 1e6, gpus=64)), 100.0)
    predictors.holds(JobId("1"), 1000, 0, 0.0)
    after = order.key(gang, 200.0)
    assert isinstance(after[2], float)
    assert after[2] > float(before[2])


@pytest.mark.parametrize(
    ("fairness", "low", "high", "is_first"),
    [
        (Fairness.STRICT, 100, 101, "high"),
        (Fairness.BAND, 100, 199, "short"),  # one band of 100
        (Fairness.BAND, 199, 200, "high"),  # two neighbouring bands
        (Fairness.FREE, 0, 10**6, "short"),
    ],
)
def test_how_much_of_slurms_priority_counts_first(
    fairness: Fairness, low: int, high: int, is_first: str
) -> None:
    order = LearnedOrder(replace(FIXED, fairness=fairness, band=100), ToldRunTimes(told))
    short = waiting(expected("1", 10.0, priority=low))
    long = waiting(expected("2", 5_000.0, priority=high))
    first = min((short, long), key=lambda record: order.key(record, 0.0))
    assert first is (long if is_first == "high" else short)


@pytest.mark.parametrize("fairness", MODES)
def test_what_an_operator_put_first_is_first_and_last_is_last(fairness: Fairness) -> None:
    order = LearnedOrder(replace(FIXED, fairness=fairness), ToldRunTimes(told))
    up = replace(expected("1", 1e6, gpus=8, submit_s=1e6), precedence=1)
    plain = expected("2", 10.0, priority=10**6)
    down = replace(expected("3", 10.0, priority=10**7), precedence=-1)
    records = [waiting(spec) for spec in (down, plain, up)]
    ranked = sorted(records, key=lambda record: order.key(record, 0.0))
    assert [record.job_id for record in ranked] == ["1", "2", "3"]


def test_a_begin_time_counts_as_a_later_submission() -> None:
    order = LearnedOrder(FIXED, ToldRunTimes(told))
    # Else users could submit weeks ahead and overtake from the first minute on.
    early = waiting(expected("1", 500.0, submit_s=0.0, eligible_s=50_000.0))
    plain = waiting(expected("2", 500.0, submit_s=49_000.0))
    assert order.key(plain, 50_000.0) < order.key(early, 50_000.0)


@pytest.mark.parametrize("fairness", MODES)
@pytest.mark.parametrize("factor", [1e-3, 1.0, 1e3])
def test_the_engine_places_an_overdue_job_before_all_that_came_after_its_window(
    make_harness: HarnessFactory, fairness: Fairness, factor: float
) -> None:
    harness = make_harness([node("a")], policies=learned(replace(FIXED, fairness=fairness)))
    harness.run(job("0", gpus=8))
    harness.queue(expected("long", 1e5 * factor, gpus=8))
    for number in range(1, 20):
        harness.now_s = number * 3_000.0
        late = expected(f"short-{number}", 10.0 / factor, gpus=8, submit_s=harness.now_s)
        harness.queue(late)
    placed = ["0"]
    while "long" not in placed:
        ended = JobEnded(at_s=harness.now_s + 1.0, job_id=JobId(placed[-1]))
        placed += [action.job_id for action in harness.feed(ended) if isinstance(action, Place)]
        harness.start()
    assert set(placed) <= {"0", "short-1", "short-2", "short-3", "long"}


def test_gpus_work_also_under_jobs_that_slurm_started_by_itself(
    make_harness: HarnessFactory,
) -> None:
    # After a restart of the daemon, or in shadow mode, the engine has placed none of the running
    # jobs. A queue without a GPU that works would take for ever, and so would every window.
    policies = learned()
    assert isinstance(policies.predictors, Predictors)
    backlog = policies.predictors.backlog
    harness = make_harness([node("a"), node("b")], policies=policies)
    full = share("a", *range(8))
    harness.feed(JobStarted(at_s=0.0, job_id=JobId("1"), shares=(full,)))
    half = (share("b", 0, 1, 2, 3),)
    harness.feed(JobStarted(at_s=0.0, job_id=JobId("2"), shares=half, job=job("2", gpus=4)))
    shadow = replace(job("3", gpus=4), binding=False)
    harness.queue(shadow)
    rest = (share("b", 4, 5, 6, 7),)
    harness.feed(JobStarted(at_s=0.0, job_id=JobId("3"), shares=rest))
    harness.queue(expected("4", 1e6, gpus=8))
    waits_gpu_s = 8 * ends_about(1e6).rest_s()
    assert backlog.drain_s() == pytest.approx(waits_gpu_s / 16)
    harness.feed(JobEnded(at_s=1.0, job_id=JobId("3")))
    assert backlog.drain_s() == pytest.approx(waits_gpu_s / 12)
    harness.feed(JobEnded(at_s=1.0, job_id=JobId("2")))
    assert backlog.drain_s() == pytest.approx(waits_gpu_s / 8)


def test_without_a_window_there_is_no_bound() -> None:
    order = LearnedOrder(LearnedOrderConfig(window_s=inf, ageing=1e6), ToldRunTimes(told))
    gang = waiting(expected("1", 1e5, gpus=64))
    late = waiting(expected("2", 10.0, submit_s=1e9))
    assert order.key(late, 1e9) < order.key(gang, 0.0)


def test_a_predictor_that_answers_no_number_costs_a_job_its_window_and_no_more() -> None:
    engine = Engine(EngineConfig(), learned())
    order = engine.policies.order
    assert isinstance(order, LearnedOrder)
    key = order.key(waiting(expected("1", nan, gpus=8, submit_s=5.0)), 5.0)
    assert key[2] == 5.0 + WINDOW_S


# -- shares of users -------------------------------------------------------------------------------


_comers = st.lists(
    st.tuples(
        st.integers(1, 3),  # the user
        st.integers(1, 64),
        expectations,
        st.floats(0.0, 3.0 * WINDOW_S),  # after the one before
    ),
    min_size=2,
    max_size=30,
)


@given(comers=_comers, slack=st.floats(1.0, 3.0), fairness=st.sampled_from(MODES))
def test_the_next_jobs_of_a_user_over_the_share_go_behind_those_of_others_for_a_window(
    comers: list[tuple[int, int, float, float]], slack: float, fairness: Fairness
) -> None:
    predictors = ToldRunTimes(told)
    order = LearnedOrder(replace(FIXED, share_slack=slack, fairness=fairness), predictors)
    at_s, found = 0.0, list[tuple[JobSpec, bool, tuple[int | float | str, ...]]]()
    for number, (user_id, gpus, run_s, later_s) in enumerate(comers):
        at_s += later_s
        spec = expected(str(number), run_s, gpus=gpus, user_id=user_id, submit_s=at_s)
        gpu_s = gpus * told(spec).rest_s()
        more_gpu_s = gpu_s if gpu_s == gpu_s else 0.0
        # Asked before the job is there, and again with it.
        is_over = predictors.users.is_over(user_id, slack, at_s, more_gpu_s)
        found.append((spec, is_over, order.key(waiting(spec), at_s)))
    for spec, is_over, key in found:
        assert float(key[2]) <= spec.submit_s + (2.0 if is_over else 1.0) * WINDOW_S
        for other, is_other_over, other_key in found:
            if is_over and not is_other_over and other.submit_s < spec.submit_s + WINDOW_S:
                assert other_key < key
            if other.submit_s > spec.submit_s + 2.0 * WINDOW_S:
                assert other_key > key


_weights = st.lists(st.integers(1, 100), min_size=3, max_size=3)


@given(comers=_comers, slack=st.floats(1.0, 3.0), weights=_weights)
@example(comers=[(1, 8, 100.0, 0.0), (2, 8, 100.0, 0.0)], slack=1.0, weights=[1, 1, 1])
def test_jobs_that_are_not_behind_need_no_more_than_the_share_that_the_slack_allows(
    comers: list[tuple[int, int, float, float]], slack: float, weights: list[int]
) -> None:
    predictors = ToldRunTimes(lambda spec: ends_about(min(float(spec.name), 1e6)))
    shares = {user_id: one / sum(weights) for user_id, one in enumerate(weights, start=1)}
    predictors.users.apply_shares(shares)
    order = LearnedOrder(replace(FIXED, share_slack=slack), predictors)
    wanted, not_behind = dict[int, float](), dict[int, float]()
    for number, (user_id, gpus, run_s, _) in enumerate(comers):
        spec = expected(str(number), run_s if run_s == run_s else 1.0, gpus=gpus, user_id=user_id)
        key = order.key(waiting(spec), 0.0)
        gpu_s = gpus * ends_about(min(float(spec.name), 1e6)).rest_s()
        wanted[user_id] = wanted.get(user_id, 0.0) + gpu_s
        if float(key[2]) <= WINDOW_S:
            not_behind[user_id] = not_behind.get(user_id, 0.0) + gpu_s
            part = shares[user_id] / sum(shares[other] for other in wanted)
            share = sum(wanted.values()) * part
            assert not_behind[user_id] <= slack * share * (1.0 + 1e-9)


def test_slack_without_end_is_no_rule() -> None:
    predictors = ToldRunTimes(told)
    order = LearnedOrder(FIXED, predictors)
    for number in range(50):
        order.key(waiting(expected(f"1{number}", 1e5, gpus=64, user_id=1)), 0.0)
    order.key(waiting(expected("2", 10.0, user_id=2)), 0.0)
    key = order.key(waiting(expected("3", 10.0, user_id=1)), 0.0)
    assert float(key[2]) < WINDOW_S
