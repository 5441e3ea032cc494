"""What is counted of a kind of jobs, and of a job that runs."""

import numpy as np
import pytest

from roost_engine.prediction.history_kinds import HALF_LIFE_S, Kind, KindSums, WatchedRun
from roost_engine.prediction.run_times import BAND_COUNT, ENDS_S


def watched(band: int, speed_frac: float) -> WatchedRun:
    kinds = (Kind("all", 1.0),)
    return WatchedRun(
        user_id=1, kinds=kinds, since_s=100.0, age_s=0.0, speed_frac=speed_frac, band=band
    )


def test_counts_halve_in_a_half_life_and_with_each_later_end() -> None:
    sums = KindSums(at_s=10.0, ended=np.full(BAND_COUNT, 8.0), entered=np.full(BAND_COUNT, 16.0))
    sums.fade(10.0 + HALF_LIFE_S, kept_frac=0.5)
    assert sums.at_s == 10.0 + HALF_LIFE_S
    assert sums.ended == pytest.approx(np.full(BAND_COUNT, 2.0))
    assert sums.entered == pytest.approx(np.full(BAND_COUNT, 4.0))


def test_a_clock_that_was_set_back_makes_nothing_grow() -> None:
    sums = KindSums(at_s=1_000.0, ended=np.ones(BAND_COUNT))
    sums.fade(0.0, kept_frac=1.0)
    assert sums.at_s == 1_000.0
    assert sums.ended == pytest.approx(np.ones(BAND_COUNT))


def test_a_job_at_half_speed_leaves_its_band_after_twice_the_time() -> None:
    assert watched(0, 1.0).next_s() == pytest.approx(100.0 + ENDS_S[0])
    assert watched(0, 0.5).next_s() == pytest.approx(100.0 + 2 * ENDS_S[0])


def test_a_job_that_waits_and_one_in_the_last_band_leave_no_band() -> None:
    assert watched(0, 1.0).leaves_band
    assert not watched(0, 0.0).leaves_band
    assert not watched(BAND_COUNT - 1, 1.0).leaves_band
