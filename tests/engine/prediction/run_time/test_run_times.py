"""run_times: the distribution of a run time, against sums and searches written the slow way."""

from math import inf, nan

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from roost_engine.prediction.run_time.run_times import (
    BAND_COUNT,
    ENDS_S,
    STARTS_S,
    RunTimes,
    band_of,
)

DAY_S = 86_400.0
_weights = st.lists(
    st.one_of(st.just(0.0), st.floats(1e-6, 1.0)), min_size=BAND_COUNT, max_size=BAND_COUNT
).filter(lambda weights: sum(weights) > 0)
_ages_s = st.one_of(st.just(0.0), st.floats(0.0, 100 * DAY_S))
_limits_s = st.one_of(st.none(), st.floats(1.0, 100 * DAY_S))


def in_bands(*bands: int) -> NDArray[np.float64]:
    """Equal shares in some bands."""
    fracs = np.zeros(BAND_COUNT)
    fracs[list(bands)] = 1.0 / len(bands)
    return fracs


@st.composite
def run_times(draw: st.DrawFn, limits_s: st.SearchStrategy[float | None] = _limits_s) -> RunTimes:
    weights = np.array(draw(_weights))
    return RunTimes(weights / weights.sum(), draw(_ages_s), draw(limits_s))


@pytest.mark.parametrize(
    ("run_s", "band"),
    [(-5.0, 0), (0.0, 0), (9.9, 0), (10.0, 1), (14.9, 1), (15.0, 2), (1e12, 32), (inf, 32)],
)
def test_a_band_holds_its_start_and_not_its_end(run_s: float, band: int) -> None:
    assert band_of(run_s) == band


def test_within_a_band_ends_are_spread_evenly() -> None:
    times = RunTimes(in_bands(0))  # from 0 s to 10 s
    assert times.rest_s() == pytest.approx(5.0)
    assert times.quantile_s(0.3) == pytest.approx(3.0)
    assert times.ends_within_frac(3.0) == pytest.approx(0.3)
    # It runs for 4 s with chance 0.6, and ends before, after 2 s on average, with chance 0.4.
    assert times.rest_within_s(4.0) == pytest.approx(0.6 * 4.0 + 0.4 * 2.0)


def test_what_an_age_excludes_is_taken_out() -> None:
    short, long = band_of(60.0), band_of(7_200.0)
    fracs = in_bands(short, long)
    assert RunTimes(fracs).ends_within_frac(ENDS_S[short]) == pytest.approx(0.5)
    old = RunTimes(fracs, age_s=ENDS_S[short])
    assert old.ends_within_frac(STARTS_S[long] - ENDS_S[short]) == pytest.approx(0.0)
    middle_s = (STARTS_S[long] + ENDS_S[long]) / 2
    assert old.rest_s() == pytest.approx(middle_s - ENDS_S[short])


@given(run_times(), st.floats(0.0, 100 * DAY_S), st.floats(0.0, 100 * DAY_S))
def test_the_chance_to_end_grows_with_the_span(times: RunTimes, one_s: float, two_s: float) -> None:
    less, more = (times.ends_within_frac(span_s) for span_s in sorted((one_s, two_s)))
    assert 0.0 <= less <= more + 1e-12 <= 1.0 + 1e-12


@given(run_times(), st.floats(0.0, 1.0), st.floats(0.0, 1.0))
def test_quantiles_grow_with_the_share(times: RunTimes, one: float, two: float) -> None:
    less_s, more_s = (times.quantile_s(frac) for frac in sorted((one, two)))
    assert 1.0 <= less_s <= more_s * (1 + 1e-9)


@given(run_times(st.none()), st.floats(0.01, 0.99))
def test_a_quantile_is_the_span_in_which_that_share_ends(times: RunTimes, frac: float) -> None:
    span_s = times.quantile_s(frac)
    if span_s > 1.0:  # a shorter one is rounded up
        # Where no jobs end for a while, both ends of the gap have the share.
        assert times.ends_within_frac(span_s * (1 - 1e-6) - 1e-3) <= frac + 1e-6
        assert times.ends_within_frac(span_s * (1 + 1e-6) + 1e-3) >= frac - 1e-6


@given(run_times())
def test_nothing_is_expected_beyond_the_limit(times: RunTimes) -> None:
    if times.limit_s is not None:
        left_s = max(times.limit_s - times.age_s, 1.0)
        assert times.rest_s() <= left_s * (1 + 1e-9)
        assert times.quantile_s(1.0) <= left_s * (1 + 1e-9)
        assert times.ends_within_frac(left_s) == 1.0


def test_a_limit_that_rounding_moves_is_reached_all_the_same() -> None:
    fracs = np.zeros(BAND_COUNT)
    fracs[-2] = 1.0
    age_s, limit_s = 2_876_266.627974166, 7_070_571.077568193
    assert age_s + (limit_s - age_s) < limit_s
    times = RunTimes(fracs, age_s=age_s, limit_s=limit_s)
    assert times.ends_within_frac(limit_s - age_s) == 1.0


@given(run_times(), st.floats(0.0, 100 * DAY_S))
def test_a_job_runs_for_at_most_the_span(times: RunTimes, span_s: float) -> None:
    within_s = times.rest_within_s(span_s)
    assert 0.0 <= within_s <= span_s * (1 + 1e-9)
    assert within_s <= times.rest_s() * (1 + 1e-9) + 1e-6
    assert times.rest_within_s(2 * span_s) >= within_s - 1e-6 * span_s


@given(run_times(st.none()))
def test_the_mean_is_what_is_expected_still_to_run_at_each_moment(times: RunTimes) -> None:
    # The share that still runs is a line between any two of these spans.
    edges_s = {edge_s - times.age_s for edge_s in ENDS_S} | {0.0, 2 * times.age_s}
    spans_s = np.array(sorted(span_s for span_s in edges_s if span_s >= 0))
    runs = np.array([1.0 - times.ends_within_frac(float(span_s)) for span_s in spans_s])
    mean_s = float((runs[:-1] + runs[1:]) @ np.diff(spans_s)) / 2
    assert times.rest_s() == pytest.approx(mean_s, rel=1e-6, abs=1.0)


def brute_index(times: RunTimes, spans_s: NDArray[np.float64]) -> float:
    """The best of ends over expected seconds, by trying many spans on many drawn jobs."""
    return max(
        times.ends_within_frac(float(span_s)) / max(times.rest_within_s(float(span_s)), 1.0)
        for span_s in spans_s
    )


@settings(max_examples=40)
@given(run_times())
def test_the_gittins_index_is_that_of_a_search(times: RunTimes) -> None:
    spans_s = np.concatenate([np.geomspace(0.5, 200 * DAY_S, 150), np.array(ENDS_S) - times.age_s])
    if times.limit_s is not None:
        spans_s = np.append(spans_s, times.limit_s - times.age_s)
    searched = brute_index(times, spans_s[spans_s > 0])
    assert times.best_index(1) == pytest.approx(searched, rel=1e-3)
    assert times.best_index(4) == pytest.approx(times.best_index(1) / 4)


def test_a_job_that_probably_ends_soon_has_a_high_index_until_it_is_older() -> None:
    fracs = in_bands(band_of(60.0), band_of(DAY_S))
    young, old = RunTimes(fracs), RunTimes(fracs, age_s=200.0)
    # Half end within 76 s: the index is a half over at most 76 s, though a day is the longest run.
    assert young.best_index(1) > 0.5 / 76.0 > 10 / young.rest_s()
    assert old.best_index(1) == pytest.approx(1 / old.rest_s(), rel=0.2)


@pytest.mark.parametrize("age_s", [1_000.0, 40 * DAY_S, 60 * DAY_S, 300 * DAY_S])
def test_a_job_older_than_any_other_runs_for_about_as_long_again(age_s: float) -> None:
    times = RunTimes(in_bands(2), age_s)
    assert times.rest_s() == pytest.approx(age_s, rel=1e-9)
    assert times.quantile_s(0.5) == pytest.approx(age_s, rel=1e-9)


@pytest.mark.parametrize(
    ("age_s", "same_as_s"), [(nan, 0.0), (-5.0, 0.0), (inf, 1e9), (1e300, 1e9)]
)
def test_an_age_that_is_none_is_cut(age_s: float, same_as_s: float) -> None:
    absurd, sane = RunTimes(in_bands(4), age_s), RunTimes(in_bands(4), same_as_s)
    assert absurd.rest_s() == sane.rest_s()
    assert absurd.quantile_s(0.9) == sane.quantile_s(0.9)
    assert absurd.best_index(1) == sane.best_index(1)


def test_an_endless_span_is_the_whole_rest() -> None:
    times = RunTimes(in_bands(3, 20), age_s=11.0)
    assert times.rest_within_s(inf) == pytest.approx(times.rest_s())
    assert times.ends_within_frac(inf) == 1.0
    assert times.rest_within_s(-10.0) == 0.0


def test_past_its_limit_a_job_is_about_to_end() -> None:
    times = RunTimes(in_bands(20), age_s=100.0, limit_s=50.0)
    assert (times.rest_s(), times.quantile_s(0.9), times.ends_within_frac(0.0)) == (1.0, 1.0, 1.0)
