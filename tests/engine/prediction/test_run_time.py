"""run_time: how long jobs will still run, by those like them."""

from math import exp, inf, nan

import pytest
from tests.engine.offers import record

from roost_engine.domain.model import JobId
from roost_engine.job_record import JobRecord
from roost_engine.prediction.job_class import TimerClass
from roost_engine.prediction.run_time import HALF_LIFE_S, RunTimePredictor

CLASS = TimerClass.of(8, 0.5)
OTHER_CLASS = TimerClass.of(1, 0.0)
UNKNOWN_S = RunTimePredictor().remaining_s(record(), CLASS, 0.0)


def after(*runs_s: float, job: JobRecord | None = None, at_s: float = 0.0) -> RunTimePredictor:
    known = RunTimePredictor()
    for run_s in runs_s:
        known.add(job or record(), CLASS, run_s, at_s)
    return known


def old(job: JobRecord, run_s: float) -> JobRecord:
    """A job that has run so long, and waits."""
    job.earlier_run_s = run_s
    return job


def test_before_anything_is_known_an_hour_is_assumed_and_more_of_who_is_old() -> None:
    # 1 in 3600 s ends up to 3840 s of age, then 1 in 3840, 15360, 61440, 245760 s. Three times
    # these are the lengths of the bands but for the last, so e ** -3 get through each:
    # 3600 · (1 - e ** -1.0667) + e ** -1.0667 · (3840 · (1 - e ** -3) + e ** -3 · (15360 · ...))
    through, all_but = exp(-3), 1 - exp(-3)
    farther = 61_440 * all_but + through * 245_760
    far = 3_840 * all_but + through * (15_360 * all_but + through * farther)
    young = 3_600 * (1 - exp(-3_840 / 3_600)) + exp(-3_840 / 3_600) * far
    assert young == pytest.approx(3_927, abs=1)
    assert RunTimePredictor().remaining_s(record(), CLASS, 0.0) == pytest.approx(young)
    assert RunTimePredictor().remaining_s(old(record(), 300_000.0), CLASS, 0.0) == pytest.approx(
        245_760
    )


def test_without_history_a_limit_is_used_to_three_tenths() -> None:
    assert RunTimePredictor().remaining_s(record(limit_s=10_000), CLASS, 0.0) == pytest.approx(
        3_000
    )


def test_each_level_is_drawn_towards_the_wider() -> None:
    # One job ended at 345,760 s, 100,000 s into the last band, of which 245,760 s were expected.
    # All: (100,000 + 3 · 245,760) / 4 = 209,320; class: (100,000 + 3 · 209,320) / 4 = 181,990;
    # owner: (100,000 + 3 · 181,990) / 4 = 161,492.5
    known = after(345_760.0, job=record(name="train"))
    of_owner, nameless = record(name="train"), record()
    assert known.remaining_s(old(of_owner, 300_000.0), CLASS, 0.0) == pytest.approx(161_492.5)
    assert known.remaining_s(old(nameless, 300_000.0), CLASS, 0.0) == pytest.approx(181_990)
    assert known.remaining_s(old(nameless, 300_000.0), OTHER_CLASS, 0.0) == pytest.approx(209_320)


def test_jobs_that_still_run_count() -> None:
    # It has spent 99,840 s in the last band by the full hour and has not ended.
    # All: (99,840 + 3 · 245,760) / 3 = 279,040; class: (99,840 + 3 · 279,040) / 3 = 312,320
    known = RunTimePredictor()
    known.begin(record("2"), CLASS, 1.0, 0.0)
    at_s = 345_760.0
    assert known.remaining_s(old(record(), 300_000.0), CLASS, at_s) == pytest.approx(312_320)
    assert known.remaining_s(old(record(), 300_000.0), OTHER_CLASS, at_s) == pytest.approx(279_040)


def test_of_a_job_at_half_speed_half_of_the_time_counts() -> None:
    slow, fast = RunTimePredictor(), RunTimePredictor()
    slow.begin(record("2"), CLASS, 0.5, 0.0)
    fast.begin(record("2"), CLASS, 1.0, 0.0)
    expected_s = fast.remaining_s(record(), CLASS, 360_000.0)
    assert slow.remaining_s(record(), CLASS, 720_000.0) == pytest.approx(expected_s)


def test_a_job_that_was_stopped_grows_no_older() -> None:
    known, stopped = RunTimePredictor(), record("2")
    known.begin(stopped, CLASS, 1.0, 0.0)
    known.pause(old(stopped, 7_200.0), 7_200.0)
    before_s = known.remaining_s(record(), CLASS, 7_200.0)
    assert known.remaining_s(record(), CLASS, 500_000.0) == before_s
    known.begin(stopped, CLASS, 1.0, 500_000.0)
    assert known.remaining_s(record(), CLASS, 700_000.0) > before_s


def test_a_job_that_left_without_a_run_is_forgotten() -> None:
    known = RunTimePredictor()
    known.begin(record("2"), CLASS, 1.0, 0.0)
    known.forget(JobId("2"))
    assert known.state().running == ()
    assert known.remaining_s(record(), CLASS, 500_000.0) == UNKNOWN_S


def test_many_runs_outweigh_what_was_assumed() -> None:
    assert after(*[600.0] * 300).remaining_s(record(), CLASS, 0.0) == pytest.approx(600, rel=0.01)


def test_the_share_of_the_limit_weighs_long_jobs_more() -> None:
    known = RunTimePredictor()
    for _ in range(300):
        known.add(record(limit_s=1_000.0), CLASS, 1_000.0, 0.0)
        known.add(record(limit_s=9_000.0), CLASS, 1_000.0, 0.0)
    # 2000 s used of 10,000 s asked for
    job = record(limit_s=50_000.0)
    assert known.remaining_s(job, CLASS, 0.0) == pytest.approx(10_000, rel=0.02)


def test_the_older_a_job_the_longer_it_will_run() -> None:
    known = after(*[100.0] * 900, *[100_000.0] * 100)
    expected = [known.remaining_s(old(record(), age_s), CLASS, 0.0) for age_s in (0.0, 1_000.0)]
    assert expected[0] == pytest.approx(0.9 * 100 + 0.1 * 100_000, rel=0.2)
    assert expected[1] == pytest.approx(100_000, rel=0.2)


def test_a_limit_is_used_to_the_learned_share_or_as_much_again_as_has_run() -> None:
    assert (
        RunTimePredictor().remaining_s(old(record(limit_s=10_000.0), 1_000.0), CLASS, 0.0) == 2_000
    )
    assert (
        RunTimePredictor().remaining_s(old(record(limit_s=10_000.0), 2_500.0), CLASS, 0.0) == 2_500
    )


def test_never_past_its_limit() -> None:
    job = record(limit_s=10_000.0)
    job.earlier_run_s = 9_000.0
    assert RunTimePredictor().remaining_s(job, CLASS, 0.0) == 1_000
    job.earlier_run_s = 11_000.0
    assert RunTimePredictor().remaining_s(job, CLASS, 0.0) == 1


def test_old_runs_fade() -> None:
    known = after(*[100.0] * 100)
    for _ in range(100):
        known.add(record(), CLASS, 10_000.0, 20 * HALF_LIFE_S)
    assert known.remaining_s(record(), CLASS, 0.0) == pytest.approx(10_000, rel=0.05)


@pytest.mark.parametrize("run_s", [nan, inf, -1.0])
def test_what_is_no_length_is_dropped(run_s: float) -> None:
    assert after(run_s).remaining_s(record(), CLASS, 0.0) == UNKNOWN_S


@pytest.mark.parametrize("limit_s", [nan, inf, 0.0, -5.0])
def test_what_is_no_limit_is_none(limit_s: float) -> None:
    assert RunTimePredictor().remaining_s(record(limit_s=limit_s), CLASS, 0.0) == UNKNOWN_S


def test_remembers_a_bounded_number_of_owners() -> None:
    known = RunTimePredictor()
    for user_id in range(10_010):
        known.add(record(user_id=user_id, name="train"), CLASS, 7_200.0, 0.0)
    state = dict(known.state().kinds)
    assert len(state) == 10_000
    assert "owner 10009 train" in state
    assert "owner 0 train" not in state
    assert "all" in state


def test_state_goes_on_where_it_was_taken() -> None:
    known, copy = after(100.0, 900.0), RunTimePredictor()
    known.begin(record("2"), CLASS, 1.0, 0.0)
    copy.restore(known.state())
    assert copy.remaining_s(record(), CLASS, 9e5) == known.remaining_s(record(), CLASS, 9e5)
