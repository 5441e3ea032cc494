"""Quantiles of many life tables at once are those of each."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.engine.forecast.scenes import any_time, ends_in

from roost_engine.forecast.run_time_table import RunTimeTable
from roost_engine.prediction.run_time.run_times import BAND_COUNT, RunTimes

FRACS = st.floats(0.0, 1.0)


@given(st.lists(FRACS, min_size=BAND_COUNT, max_size=BAND_COUNT), st.floats(0, 1e6), FRACS)
def test_quantiles_are_those_of_run_times(weights: list[float], age_s: float, frac: float) -> None:
    fracs = np.array(weights) + 1e-3
    times = RunTimes(fracs / fracs.sum(), age_s)
    (rest_s,) = RunTimeTable.of([times]).rest_s(np.array([frac]))
    assert rest_s == pytest.approx(times.quantile_s(frac), rel=1e-6, abs=1.0)


def test_a_limit_ends_a_job() -> None:
    table = RunTimeTable.of([ends_in(5_000.0, age_s=100.0, limit_s=600.0)])
    assert table.rest_s(np.array([0.9])).tolist() == [500.0]


def test_a_job_older_than_any_continues_for_about_as_long() -> None:
    table = RunTimeTable.of([ends_in(60.0, age_s=10_000.0)] * 2)
    assert table.rest_s(np.array([0.0, 0.5])).tolist() == [1.0, 10_000.0]


def test_no_jobs_have_no_times() -> None:
    assert RunTimeTable.of([]).rest_s(np.zeros(0)).tolist() == []


def test_later_shares_are_later_times() -> None:
    table = RunTimeTable.of([any_time()] * 5)
    rest_s = table.rest_s(np.linspace(0.1, 0.9, 5))
    assert np.all(np.diff(rest_s) > 0)
