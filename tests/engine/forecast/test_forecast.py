"""Quantiles over plays: deterministic with a seed, ordered, and wide where little is known."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import islice
from math import inf
from typing import Any

import numpy as np
import pytest
from tests.engine.forecast.scenes import any_time, ends_in, running, snapshot, waiting, wish

from roost_engine.domain.model import JobId
from roost_engine.forecast.forecast import (
    Forecast,
    ForecastConfig,
    Outcome,
    forecast,
    plays,
)
from roost_engine.forecast.snapshot import PastArrival, Snapshot


def of(found: Snapshot, draws: int = 20, seed: int = 1, **numbers: Any) -> Forecast:
    config = ForecastConfig(**numbers)
    return forecast(found, list(islice(plays(found, config, np.random.default_rng(seed)), draws)))


@pytest.fixture
def queue() -> Snapshot:
    """One GPU is held, and three jobs of a user wait for it."""
    return snapshot(
        free=[0],
        wishes=[wish(1)],
        waiting=[waiting(number) for number in (1, 2, 3)],
        running=[running("r", (0, 1))],
    )


def test_the_same_seed_gives_the_same_forecast(queue: Snapshot) -> None:
    assert of(queue) == of(queue)
    assert of(queue) != of(queue, seed=2)


def test_quantiles_are_in_order_and_a_job_starts_after_the_one_before_it(queue: Snapshot) -> None:
    found = of(queue)
    assert list(found.jobs) == ["r", "1", "2", "3"]
    assert found.jobs[JobId("r")].start is None
    last_s = 0.0
    for number in (1, 2, 3):
        job = found.jobs[JobId(f"{number}")]
        assert job.start is not None
        assert last_s < job.start.median_s < job.end.median_s
        assert job.start.low_s < job.start.median_s < job.start.high_s
        last_s = job.start.median_s


def test_of_twenty_plays_the_second_and_the_last_but_one_are_nearly_the_bounds() -> None:
    found = snapshot(free=[0], wishes=[wish(1)], waiting=[waiting(1)])
    outcomes = [outcome(1_000.0 + second) for second in range(1, 21)]
    start = forecast(found, outcomes).jobs[JobId("1")].start
    assert start is not None
    assert (start.low_s, start.median_s, start.high_s) == pytest.approx((2.1, 10.5, 18.9))


def outcome(start_s: float, until_s: float = 1e6) -> Outcome:
    start = np.array([start_s])
    return Outcome(until_s, start, start + 1.0)


def test_the_end_of_a_running_job_is_not_a_matter_of_the_draws() -> None:
    found = snapshot(
        free=[0], wishes=[], running=[running("r", (0, 1))], running_times=[any_time()]
    )
    few, many = (of(found, draws=draws, seed=draws).jobs[JobId("r")].end for draws in (3, 20))
    assert few == many
    assert few.low_s < few.median_s < few.high_s


def test_a_running_job_that_is_slow_ends_later() -> None:
    slow = replace(running("r", (0, 1)), speed_frac=0.5)
    ends = [
        of(snapshot(free=[0], wishes=[], running=[job], running_times=[any_time()]))
        .jobs[JobId("r")]
        .end
        for job in (running("r", (0, 1)), slow)
    ]
    assert ends[1].median_s == pytest.approx(2.0 * ends[0].median_s)


def test_a_job_with_a_begin_time_says_so() -> None:
    later = replace(waiting(1), not_before_s=1_600.0)
    found = of(snapshot(free=[1], wishes=[wish(1)], waiting=[later, waiting(2)]))
    assert found.jobs[JobId("1")].earliest_s == 600.0
    assert found.jobs[JobId("2")].earliest_s == 0.0


def test_bounds_of_few_plays_are_wider_than_what_they_show() -> None:
    found = snapshot(free=[0], wishes=[wish(1)], waiting=[waiting(1)])
    start = forecast(found, [outcome(1_600.0), outcome(2_000.0), outcome(2_400.0)])
    expected = start.jobs[JobId("1")].start
    assert expected is not None
    assert expected.low_s < 600.0 < expected.median_s == 1_000.0 < 1_400.0 < expected.high_s


@pytest.mark.parametrize("count", [5, 20])
def test_a_job_that_some_plays_do_not_start_has_no_upper_bound(count: int) -> None:
    found = snapshot(free=[0], wishes=[wish(1)], waiting=[waiting(1)])
    outcomes = [outcome(1_100.0)] * (count - 3) + [outcome(inf, until_s=1_500.0)] * 3
    start = forecast(found, outcomes).jobs[JobId("1")].start
    assert start is not None
    assert start.low_s < 500.0
    assert start.high_s == inf
    never = forecast(found, [outcome(inf, until_s=1_500.0)] * count).jobs[JobId("1")].start
    assert never is not None
    assert (never.low_s, never.median_s) == (500.0, inf)


def test_one_play_alone_has_bounds_too(queue: Snapshot) -> None:
    start = of(queue, draws=1).jobs[JobId("3")].start
    assert start is not None
    assert start.low_s <= start.median_s < start.high_s


def test_runs_that_are_alike_make_the_interval_wider(queue: Snapshot) -> None:
    """Errors of independent draws cancel out over a long queue."""
    found = snapshot(
        free=[0],
        wishes=[wish(1)],
        waiting=[waiting(number) for number in range(40)],
        running=[running("r", (0, 1))],
    )

    def width(**numbers: Any) -> float:
        start = of(found, draws=40, **numbers).jobs[JobId("39")].start
        assert start is not None
        return start.high_s / start.low_s

    apart = width(kind_frac=0.0, user_frac=0.0, common_frac=0.0)
    assert width(kind_frac=0.5, user_frac=0.2, common_frac=0.2) > 1.5 * apart


def past(at_s: float, run_s: float | None, key: int = 0, row: int = 0) -> PastArrival:
    return PastArrival(
        at_s=at_s, wish=0, key=(key,), time_parts=(), limit_s=inf, run_s=run_s, row=row
    )


def with_arrivals(arrivals: Sequence[PastArrival]) -> Snapshot:
    return snapshot(
        free=[0],
        wishes=[wish(1)],
        waiting=[waiting(1)],
        running=[running("r", (0, 1))],
        running_times=[ends_in(2_000.0)],
        arrivals=arrivals,
        arrival_times=[any_time() for _ in arrivals],
    )


def test_jobs_still_to_come_delay_a_job_that_they_pass() -> None:
    first = [past(number * 50.0, 200.0, key=0, row=number) for number in range(20)]
    last = [past(number * 50.0, 200.0, key=9, row=number) for number in range(20)]
    passed, unpassed, none = (
        of(with_arrivals(arrivals), most_events=500).jobs[JobId("1")].start
        for arrivals in (first, last, ())
    )
    assert passed is not None
    assert unpassed is not None
    assert none is not None
    assert none.median_s == pytest.approx(unpassed.median_s, rel=0.3)
    assert passed.median_s > 2 * unpassed.median_s


def test_too_few_arrivals_tell_nothing() -> None:
    few = [past(number * 50.0, None, row=number) for number in range(9)]
    assert of(with_arrivals(few)) == of(with_arrivals(()))


def test_an_arrival_that_has_not_ended_runs_as_was_expected() -> None:
    open_runs = [past(number * 50.0, None, row=number) for number in range(20)]
    start = of(with_arrivals(open_runs), most_events=500).jobs[JobId("1")].start
    assert start is not None
    assert start.low_s > 0


def test_a_waiting_job_has_a_run_time_by_its_distribution_alone(queue: Snapshot) -> None:
    found = of(queue).jobs
    assert found[JobId("r")].run is None
    run = found[JobId("1")].run
    assert run is not None
    assert run == found[JobId("3")].run
    exact_s = [any_time().quantile_s(frac) for frac in (0.1, 0.5, 0.9)]
    assert [run.low_s, run.median_s, run.high_s] == pytest.approx(exact_s)


def test_an_empty_queue_has_an_empty_forecast() -> None:
    assert of(snapshot(free=[4], wishes=[])).jobs == {}
