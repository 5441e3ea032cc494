"""roostd.core.run_lengths: how long jobs will still run, by those like them."""

from math import inf, nan

import pytest
from tests.daemon.core.offers import record

from roostd.core.jobs import JobRecord
from roostd.core.run_lengths import HALF_LIFE_S, RunLengths
from roostd.core.timer_class import TimerClass

CLASS = TimerClass.of(8, 0.5)
OTHER_CLASS = TimerClass.of(1, 0.0)
FULL_S = 3_600.0


def after(*runs_s: float, job: JobRecord | None = None, at_s: float = 0.0) -> RunLengths:
    known = RunLengths()
    for run_s in runs_s:
        known.add(job or record(), CLASS, run_s, at_s)
    return known


def test_before_anything_is_known_an_hour_is_assumed() -> None:
    assert RunLengths().remaining_s(record(), CLASS, 0.0) == 3_600


def test_without_history_a_limit_is_used_to_three_tenths() -> None:
    assert RunLengths().remaining_s(record(limit_s=10_000), CLASS, 0.0) == pytest.approx(3_000)


def test_each_level_is_drawn_towards_the_wider() -> None:
    # all: (7200 + 3 · 3600) / 4 = 4500; class: (7200 + 3 · 4500) / 4 = 5175;
    # owner: (7200 + 3 · 5175) / 4 = 5681.25
    known = after(7_200)
    assert known.remaining_s(record(), CLASS, 0.0) == pytest.approx(5_681.25)
    assert known.remaining_s(record(user_id=2), CLASS, 0.0) == pytest.approx(5_175)
    assert known.remaining_s(record(user_id=2), OTHER_CLASS, 0.0) == pytest.approx(4_500)


def test_many_runs_outweigh_what_was_assumed() -> None:
    assert after(*[600.0] * 300).remaining_s(record(), CLASS, 0.0) == pytest.approx(600, rel=0.01)


def test_the_share_of_the_limit_weighs_long_jobs_more() -> None:
    known = RunLengths()
    for _ in range(300):
        known.add(record(limit_s=1_000.0), CLASS, 1_000.0, 0.0)
        known.add(record(limit_s=9_000.0), CLASS, 1_000.0, 0.0)
    # 2000 s used of 10,000 s asked for
    job = record(limit_s=50_000.0)
    assert known.remaining_s(job, CLASS, 0.0) == pytest.approx(10_000, rel=0.02)


def test_a_job_that_ran_needs_the_rest_or_as_much_again() -> None:
    known = after(*[10_000.0] * 1000)
    job = record()
    job.earlier_run_s = 4_000.0
    assert known.remaining_s(job, CLASS, 0.0) == pytest.approx(6_000, rel=0.01)
    job.earlier_run_s = 9_000.0
    assert known.remaining_s(job, CLASS, 0.0) == 9_000


def test_never_past_its_limit() -> None:
    job = record(limit_s=10_000.0)
    job.earlier_run_s = 9_000.0
    assert RunLengths().remaining_s(job, CLASS, 0.0) == 1_000
    job.earlier_run_s = 11_000.0
    assert RunLengths().remaining_s(job, CLASS, 0.0) == 1


def test_old_runs_fade() -> None:
    known = after(*[100.0] * 100)
    for _ in range(100):
        known.add(record(), CLASS, 10_000.0, 20 * HALF_LIFE_S)
    assert known.remaining_s(record(), CLASS, 0.0) == pytest.approx(10_000, rel=0.05)


@pytest.mark.parametrize("run_s", [nan, inf, -1.0])
def test_what_is_no_length_is_dropped(run_s: float) -> None:
    assert after(run_s).remaining_s(record(), CLASS, 0.0) == 3_600


@pytest.mark.parametrize("limit_s", [nan, inf, 0.0, -5.0])
def test_what_is_no_limit_is_none(limit_s: float) -> None:
    assert RunLengths().remaining_s(record(limit_s=limit_s), CLASS, 0.0) == 3_600


def test_remembers_a_bounded_number_of_owners() -> None:
    known = RunLengths()
    for user_id in range(10_010):
        known.add(record(user_id=user_id), CLASS, 7_200.0, 0.0)
    state = dict(known.state())
    assert len(state) == 10_000
    assert "owner 10009 " in state
    assert "owner 0 " not in state
    assert "all" in state


def test_state_goes_on_where_it_was_taken() -> None:
    known, copy = after(100.0, 900.0), RunLengths()
    copy.restore(known.state())
    assert copy.remaining_s(record(), CLASS, 0.0) == known.remaining_s(record(), CLASS, 0.0)
