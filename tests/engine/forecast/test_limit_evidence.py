"""Run times that count the limits too, and stay as they are where limits tell nothing."""

from collections.abc import Sequence
from dataclasses import replace
from math import inf
from typing import NamedTuple

import numpy as np
import pytest
from tests.engine.forecast.scenes import any_time, ends_in

from roost_engine.forecast.limit_evidence import LimitEvidence
from roost_engine.forecast.run_time_table import RunTimeTable

HOUR_S = 3_600.0
TIMES = any_time()  # a minute to a day, the median about half an hour
MEDIAN_S = TIMES.quantile_s(0.5)
LONG_S, SHORT_S = 40.0 * MEDIAN_S, 1.5 * MEDIAN_S


class Ran(NamedTuple):
    limit_s: float
    age_s: float
    has_ended: bool


def ran(limit_s: float, age_s: float, *, has_ended: bool = True) -> Ran:
    return Ran(limit_s, age_s, has_ended)


def evidence(runs: Sequence[Ran] = ()) -> LimitEvidence:
    return LimitEvidence(
        RunTimeTable.of([replace(TIMES, age_s=run.age_s) for run in runs]),
        [run.limit_s for run in runs],
        [run.has_ended for run in runs],
    )


def medians_s(runs: Sequence[Ran], *limits_s: float) -> list[float]:
    table = RunTimeTable.of([TIMES] * len(limits_s))
    return list(map(float, evidence(runs).applied(table, limits_s).median_s()))


def as_expected(limit_s: float, count: int = 200) -> list[Ran]:
    shares = (np.arange(count) + 0.5) / count
    return [ran(limit_s, TIMES.quantile_s(share)) for share in shares.tolist()]


def test_without_evidence_nothing_changes() -> None:
    table = RunTimeTable.of([TIMES, TIMES])
    found = evidence().applied(table, (HOUR_S, inf))
    assert found.ended_fracs == pytest.approx(table.ended_fracs)


def test_jobs_that_ran_as_long_as_expected_change_nothing() -> None:
    assert medians_s(as_expected(LONG_S), LONG_S) == pytest.approx([MEDIAN_S], rel=0.05)


def test_where_jobs_of_long_limits_ran_long_the_next_one_is_expected_to() -> None:
    long_s = TIMES.quantile_s(0.85)
    runs = [ran(LONG_S, long_s)] * 50 + [ran(SHORT_S, TIMES.quantile_s(0.2))] * 50
    of_long, of_short = medians_s(runs, LONG_S, SHORT_S)
    assert of_long == pytest.approx(long_s, rel=0.3)
    assert of_short < 0.5 * MEDIAN_S


def test_a_limit_that_no_job_had_is_taken_to_be_like_all() -> None:
    long_s = TIMES.quantile_s(0.85)
    (of_none,) = medians_s([ran(LONG_S, long_s)] * 50, inf)
    assert of_none == pytest.approx(long_s, rel=0.3)


def test_few_jobs_tell_little() -> None:
    few, many = (
        medians_s([ran(LONG_S, TIMES.quantile_s(0.9))] * count, LONG_S)[0] for count in (1, 40)
    )
    assert MEDIAN_S < few < 0.5 * many


def test_jobs_that_still_run_count_as_at_least_as_long() -> None:
    """Where only ended jobs count, the short ones of a band have ended, and the long ones not."""
    ended = [ran(LONG_S, TIMES.quantile_s(0.3))] * 20
    running = [ran(LONG_S, TIMES.quantile_s(0.6), has_ended=False)] * 40
    without, with_them = (medians_s(runs, LONG_S)[0] for runs in (ended, [*ended, *running]))
    assert without < MEDIAN_S < with_them


def test_the_limit_of_the_job_still_ends_it() -> None:
    table = RunTimeTable.of([ends_in(10 * HOUR_S, limit_s=HOUR_S)])
    found = evidence(as_expected(LONG_S)).applied(table, (HOUR_S,))
    assert found.rest_s(np.array([0.9])).tolist() == [HOUR_S]


def test_no_jobs_at_all() -> None:
    table = RunTimeTable.of([])
    assert len(evidence(as_expected(inf)).applied(table, ()).age_s) == 0


def test_ages_beyond_the_table_and_limits_beyond_all_bands_count() -> None:
    runs = [ran(1e9 * MEDIAN_S, 1e8), ran(1.0, 0.0)]
    found = medians_s(runs, 1e9 * MEDIAN_S, 1.0)
    assert found[0] > MEDIAN_S > found[1]
