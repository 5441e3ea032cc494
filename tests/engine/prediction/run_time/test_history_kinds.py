"""What is counted of a kind of jobs, and of a job that runs."""

from dataclasses import replace

import numpy as np
import pytest

from roost_engine.domain.model import JobId
from roost_engine.prediction.run_time.history_kinds import (
    HALF_LIFE_S,
    Kind,
    KindSums,
    WatchedRun,
    kinds_of,
    normalised,
)
from roost_engine.prediction.run_time.run_times import BAND_COUNT, ENDS_S
from roost_engine.testing.builders import job, shape


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


def test_numbers_and_hashes_in_a_name_do_not_make_a_new_kind() -> None:
    assert normalised("Train-17_epoch3") == normalised("train-18_EPOCH12") == "train-#_epoch#"
    assert normalised("run-3fa94c1b") == normalised("run-00c0ffee")
    assert normalised("facade") == "facade"  # letters alone are a word


def test_the_kinds_of_a_job_go_from_all_jobs_to_its_own_request() -> None:
    spec = replace(job("1", shape(4, 2), user_id=7, time_limit_s=60.0), name="Fit-3", account="lab")
    wide = ["all", "8 gpus", "account lab"]
    own = ["user 7", "user 7 8 gpus", "user 7 name fit-#", "user 7 name fit-# 2x4 1 60.0"]
    assert [kind.name for kind in kinds_of(spec)] == wide + own
    assert kinds_of(replace(spec, job_id=JobId("2"), name="fit-4")) == kinds_of(spec)
    # A journal may have whole numbers where the engine has fractions: their names stay apart.
    assert kinds_of(replace(spec, time_limit_s=60))[-1].name == "user 7 name fit-# 2x4 1 60"
    assert kinds_of(spec, reads_limits=False)[-1].name == "user 7 name fit-# 2x4 1"
    assert [kind.name for kind in kinds_of(replace(spec, qos="high", user_id=-1))] == [
        "all",
        "partition main high",
        *wide[1:],
    ]
