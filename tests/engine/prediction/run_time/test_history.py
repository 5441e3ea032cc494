"""history: run times predicted by the jobs of the same kinds that ended and that still run."""

from collections.abc import Sequence
from dataclasses import replace
from math import inf, nan

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from roost_engine.domain.model import UNKNOWN_USER, JobId, JobSpec
from roost_engine.prediction.run_time.history import FEW_COUNT, SPREAD, RunTimeHistory
from roost_engine.prediction.run_time.history_kinds import HALF_LIFE_S, kinds_of
from roost_engine.prediction.run_time.run_times import BAND_COUNT, STARTS_S, RunTimes, band_of
from roost_engine.testing.builders import job, shape
from roost_formats.journal.codec import decode, encode

HOUR_S, DAY_S = 3_600.0, 86_400.0


def of(
    user_id: int = 1,
    name: str = "train",
    gpus: int = 8,
    job_id: str = "1",
    limit_s: float | None = None,
) -> JobSpec:
    spec = job(job_id, shape(gpus), user_id=user_id, time_limit_s=limit_s)
    return replace(spec, name=name)


def after(*runs: tuple[JobSpec, float]) -> RunTimeHistory:
    history = RunTimeHistory()
    for spec, run_s in runs:
        history.add(spec, run_s, 0.0)
    return history


def median_s(history: RunTimeHistory, spec: JobSpec, at_s: float = 0.0) -> float:
    return history.times(spec, 0.0, at_s).quantile_s(0.5)


def check(history: RunTimeHistory) -> None:
    """Counts are possible: as many come to a band as end in it, and no more come to a later one."""
    state = history.state()
    assert (state.ended >= 0).all()
    assert (state.ended <= state.entered * (1 + 1e-6)).all()
    assert np.isfinite(state.entered).all()


def same(one: RunTimes, two: RunTimes) -> bool:
    return np.allclose(one.ending_fracs, two.ending_fracs, rtol=1e-5, atol=1e-7)


# -- what is predicted ---------------------------------------------------------------------------


def test_before_anything_ended_about_an_hour_is_assumed() -> None:
    times = RunTimeHistory().times(of(), 0.0, 0.0)
    assert times.quantile_s(0.5) == pytest.approx(HOUR_S * 0.69, rel=0.1)
    assert times.job_count == 0


def test_one_job_moves_the_band_that_it_ended_in() -> None:
    before = RunTimeHistory().times(of(), 0.0, 0.0).ending_fracs
    plain = RunTimeHistory()
    plain.add(of(name=""), 5.0, 0.0)  # of 5 kinds: all, GPUs, user, user with GPUs, finest
    found = plain.times(of(name=""), 0.0, 0.0).ending_fracs[0]
    # At the edge the bands below are the first one too: of each end it gets the shares of both
    # sides once. Each kind in turn has (ended + FEW · h) / (1 + FEW).
    hazard, kinds = float(before[0]), len(kinds_of(of(name="")))
    assert kinds == 5
    for _ in range(kinds):
        hazard = (sum(SPREAD) + FEW_COUNT * hazard) / (1 + FEW_COUNT)
    assert found == pytest.approx(hazard)


def test_a_job_is_predicted_by_its_own_user_and_name() -> None:
    runs = [(of(1, "train"), 2 * DAY_S), (of(1, "test"), 60.0), (of(2, "test"), 6 * HOUR_S)] * 10
    history = after(*runs)
    assert median_s(history, of(1, "train")) > DAY_S
    assert median_s(history, of(1, "test")) < 120.0
    assert 3 * HOUR_S < median_s(history, of(2, "test")) < 12 * HOUR_S


def test_a_new_name_is_predicted_by_its_user_and_a_new_user_by_all() -> None:
    history = after(*[(of(1, "train"), 2 * DAY_S), (of(2, "x"), 60.0), (of(3, "x"), 60.0)] * 8)
    assert median_s(history, of(1, "never seen")) > DAY_S
    new, all_jobs = history.times(of(9, "y"), 0.0, 0.0), history.times(of(9, ""), 0.0, 0.0)
    assert same(new, all_jobs)
    assert new.job_count == pytest.approx(24.0)
    assert median_s(history, of(9)) < HOUR_S


def test_a_limit_makes_a_kind_and_ends_every_job() -> None:
    history = after(*[(of(limit_s=HOUR_S), 60.0), (of(limit_s=DAY_S), 20 * HOUR_S)] * 8)
    assert median_s(history, of(limit_s=HOUR_S)) < 600.0
    assert median_s(history, of(limit_s=DAY_S)) > 5 * HOUR_S
    assert history.times(of(limit_s=900.0), 0.0, 0.0).rest_s() <= 900.0
    blind = RunTimeHistory(reads_limits=False)
    assert blind.times(of(limit_s=900.0), 0.0, 0.0).rest_s() > 900.0


@pytest.mark.parametrize("limit_s", [0.0, -5.0, inf, nan])
def test_a_limit_that_is_none_limits_nothing(limit_s: float) -> None:
    assert RunTimeHistory().times(of(limit_s=limit_s), 0.0, 0.0).limit_s is None


def test_what_users_run_now_outweighs_what_they_ran_before() -> None:
    history = after(*[(of(), 60.0)] * 30, *[(of(), DAY_S)] * 15)
    assert median_s(history, of()) > 12 * HOUR_S


def test_counts_fade_with_time() -> None:
    history = after(*[(of(), DAY_S)] * 20)
    now = history.times(of(), 0.0, 0.0).job_count
    assert history.times(of(), 0.0, HALF_LIFE_S).job_count == pytest.approx(now / 2)
    assert history.times(of(), 0.0, 100 * HALF_LIFE_S).quantile_s(0.5) == pytest.approx(
        median_s(RunTimeHistory(), of()), rel=1e-3
    )


def test_a_users_size_is_known_once_such_a_job_has_ended() -> None:
    history = RunTimeHistory()
    history.begin(of(), 0.0, 1.0, 0.0)
    history.add(of(2, "other", job_id="2"), 60.0, DAY_S)  # by then the first has left bands
    assert not history.knows_size_of_user(of())
    history.add(of(), 2 * DAY_S, 2 * DAY_S)
    assert history.knows_size_of_user(of(job_id="3"))
    assert not history.knows_size_of_user(replace(of(), shapes=(shape(4),)))
    assert not history.knows_size_of_user(replace(of(), user_id=77))
    assert not history.knows_size_of_user(replace(of(), user_id=UNKNOWN_USER))
    again = RunTimeHistory()
    again.restore(history.state())
    assert again.knows_size_of_user(of())


# -- running jobs --------------------------------------------------------------------------------


def test_jobs_that_still_run_make_such_jobs_longer() -> None:
    history = after(*[(of(), 600.0)] * 5)
    before_s = median_s(history, of())
    for number in range(5):
        history.begin(of(job_id=f"r{number}"), 0.0, 1.0, 0.0)
    history.add(of(2, "other"), 60.0, DAY_S)  # by then they have run for a day
    assert median_s(history, of(), DAY_S) > 5 * before_s
    check(history)


def test_a_job_at_half_speed_grows_older_half_as_fast() -> None:
    slow, fast = RunTimeHistory(), RunTimeHistory()
    slow.begin(of(), 0.0, 0.5, 0.0)
    fast.begin(of(), 0.0, 1.0, 0.0)
    for history, at_s in ((slow, 2 * HOUR_S), (fast, HOUR_S)):
        history.begin(of(9, "any", job_id="9"), 0.0, 1.0, at_s)
    counts = [history.state().entered[0] > 0 for history in (slow, fast)]
    assert np.array_equal(*counts)
    assert int(counts[0].sum()) == band_of(HOUR_S)


def test_an_answer_counts_until_something_is_learned_at_the_same_time() -> None:
    history, at_s = after((of(), 100.0)), DAY_S + HOUR_S
    history.begin(of(job_id="2"), 0.0, 1.0, DAY_S)
    first = history.times(of(), 0.0, at_s)
    assert history.times(of(), 0.0, at_s) is first
    assert history.times(of(), 60.0, at_s) is not first
    history.begin(of(9, "any", job_id="9"), 0.0, 1.0, at_s)  # job 2 has left bands by now
    second = history.times(of(), 0.0, at_s)
    assert not same(first, second)
    history.add(of(), HOUR_S, at_s)
    third = history.times(of(), 0.0, at_s)
    assert not same(second, third)
    history.restore(after((of(), 100.0)).state())
    assert not same(third, history.times(of(), 0.0, at_s))


def test_a_stopped_job_does_not_grow_older_and_is_counted_once() -> None:
    history = RunTimeHistory()
    history.begin(of(), 0.0, 1.0, 0.0)
    history.begin(of(9, "any", job_id="9"), 0.0, 1.0, HOUR_S)
    known = history.state().entered.copy()
    history.pause(of().job_id, HOUR_S, HOUR_S)
    history.forget(JobId("9"))
    history.begin(of(9, "any", job_id="8"), 0.0, 1.0, 10 * DAY_S)
    assert np.array_equal(history.state().entered, known)
    history.forget(JobId("8"))
    history.begin(of(), HOUR_S, 1.0, 10 * DAY_S)
    history.add(of(), 2 * HOUR_S, 10 * DAY_S + HOUR_S)
    state = history.state()
    # What was counted while it ran has faded for ten days; it was not counted again at the end.
    assert state.entered[:, 0].max() == pytest.approx(2.0 ** (-10 / 14), rel=1e-2)
    assert state.ended.sum(axis=1).max() == pytest.approx(1.0)
    check(history)


def test_a_job_that_is_begun_a_thousand_times_leaves_a_bounded_trail() -> None:
    history = RunTimeHistory()
    for number in range(5_000):
        history.begin(of(), 1_000.0, 1.0, float(number))
        history.pause(of().job_id, 1_000.0, float(number))
    assert len(history._due) < 1_100


def test_a_job_in_the_last_band_can_be_kept_over_a_restart_and_begun_again() -> None:
    history, age_s = RunTimeHistory(), STARTS_S[-1] + 1.0
    history.begin(of(), age_s, 1.0, 0.0)
    history.add(of(2, "other"), 60.0, 60 * DAY_S)
    fresh = RunTimeHistory()
    fresh.restore(history.state())
    fresh.begin(of(), age_s + 60 * DAY_S, 1.0, 60 * DAY_S)
    fresh.add(of(), age_s + 61 * DAY_S, 61 * DAY_S)
    check(fresh)
    assert median_s(fresh, of(), 61 * DAY_S) > 60.0


def test_a_job_that_left_without_having_run_tells_nothing() -> None:
    history = RunTimeHistory()
    history.begin(of(), 0.0, 1.0, 0.0)
    history.forget(of().job_id)
    history.begin(of(2, job_id="2"), 0.0, 1.0, DAY_S)
    assert history.state().kinds == ()


# -- absurd input --------------------------------------------------------------------------------


@pytest.mark.parametrize("run_s", [nan, inf, -inf, -1.0])
def test_a_run_time_that_is_none_is_dropped(run_s: float) -> None:
    history = after((of(), run_s))
    assert history.state().kinds == ()


@pytest.mark.parametrize("absurd", [nan, inf, -inf, -1.0, 0.0])
def test_absurd_ages_and_speeds_leave_the_counts_possible(absurd: float) -> None:
    history = RunTimeHistory()
    history.begin(of(job_id="1"), absurd, 1.0, 0.0)
    history.begin(of(job_id="2"), 0.0, absurd, 0.0)
    history.begin(of(job_id="3"), 10.0, 1.0, 0.0)
    history.pause(JobId("3"), absurd, 100.0)
    for number in "123":
        history.add(of(job_id=number), 7_000.0, 10_000.0)
    check(history)
    assert sum(history.times(of(), absurd, 1e4).ending_fracs) == pytest.approx(1.0)
    assert history.times(of(), absurd, 1e4).rest_s() > 0


def test_a_clock_that_jumps_back_neither_raises_nor_fades() -> None:
    history = RunTimeHistory()
    history.add(of(), HOUR_S, 5 * DAY_S)
    history.begin(of(job_id="2"), 0.0, 1.0, DAY_S)
    history.add(of(job_id="3"), HOUR_S, DAY_S)
    history.add(of(job_id="2"), HOUR_S, 2 * DAY_S)
    check(history)
    assert history.times(of(2, ""), 0.0, DAY_S).job_count == pytest.approx(3.0)


def test_a_clock_that_jumped_ahead_and_back_learns_on() -> None:
    history = after(*[(of(), 60.0)] * 9)
    history.begin(of(job_id="2"), 0.0, 1.0, HOUR_S)
    history.add(of(job_id="2"), HOUR_S, 4_000 * DAY_S)  # eleven years ahead
    assert history.times(of(), 0.0, 4_000 * DAY_S).rest_s() > 0
    for number in range(9):
        history.add(of(job_id=f"{number + 3}"), 20 * HOUR_S, 2 * HOUR_S)
    check(history)
    assert median_s(history, of(), 3 * HOUR_S) > 10 * HOUR_S


NAMES = [
    "",
    " ",
    "\udcff\udcfe",
    "naïve-モデル",
    "x" * 10_000,
    "a\nb\x00",
    " name ",
    "user 1 name x",
]


@pytest.mark.parametrize("name", NAMES)
def test_any_name_is_learned_and_kept(name: str) -> None:
    history = after(*[(of(name=name), DAY_S)] * 9, *[(of(2, "other"), 60.0)] * 9)
    assert median_s(history, of(name=name)) > 6 * HOUR_S
    assert max(map(len, history.state().kinds)) < 500
    fresh = RunTimeHistory()
    state = history.state()
    fresh.restore(decode(encode(state), type(state)))
    assert fresh.state() == state


# -- bounds --------------------------------------------------------------------------------------


def word(number: int) -> str:
    """A name without digits for each number."""
    return "".join(chr(ord("g") + int(digit)) for digit in str(number))


def test_one_user_with_twenty_thousand_names_forgets_the_oldest_and_displaces_no_other() -> None:
    history = after(*[(of(2, "train"), 2 * DAY_S)] * 5)
    for number in range(20_000):
        history.add(of(1, word(number)), 60.0, float(number))
    assert len(history.state().kinds) < 600
    assert median_s(history, of(2, "train"), 2e4) > 6 * HOUR_S
    kinds = history.state().kinds
    assert f"user 1 name {word(19_999)}" in kinds
    assert f"user 1 name {word(5)}" not in kinds


def test_one_user_with_ever_new_limits_displaces_no_other() -> None:
    history = after(*[(of(2, "train"), 2 * DAY_S)] * 5)
    for number in range(6_000):
        history.add(of(1, "", limit_s=100.0 + number), 60.0, float(number))
    assert len(history.state().kinds) < 600
    assert median_s(history, of(2, "train"), 6e3) > 6 * HOUR_S


def test_of_too_many_users_the_one_seen_longest_ago_goes() -> None:
    history = after((of(0), DAY_S), *((of(user), 60.0) for user in range(1, 8_000)))
    kinds = history.state().kinds
    assert len(kinds) <= 20_000
    assert "all" in kinds
    assert "user 7999" in kinds
    assert "user 0" not in kinds


def test_jobs_that_only_begin_do_not_fill_memory_either() -> None:
    history = RunTimeHistory()
    for number in range(6_000):
        history.begin(of(number, job_id=str(number)), 0.0, 1.0, 0.0)
    history.begin(of(0, job_id="last"), 0.0, 1.0, DAY_S)
    assert len(history.state().kinds) <= 20_000


# -- state ---------------------------------------------------------------------------------------

_steps = st.tuples(
    st.sampled_from(["begin", "pause", "forget", "add", "add"]),
    st.integers(0, 6),
    st.floats(0.0, 50 * DAY_S),
    st.floats(0.0, 3 * DAY_S),
)


def played(steps: Sequence[tuple[str, int, float, float]]) -> tuple[RunTimeHistory, float]:
    history, at_s = RunTimeHistory(), 0.0
    for verb, number, run_s, wait_s in steps:
        at_s += wait_s
        spec = of(number % 3, "abc"[number % 2], 1 + number % 2, str(number))
        match verb:
            case "begin":
                history.begin(spec, run_s, 0.1 + number / 6, at_s)
            case "pause":
                history.pause(spec.job_id, run_s, at_s)
            case "forget":
                history.forget(spec.job_id)
            case _:
                history.add(spec, run_s, at_s)
    return history, at_s


@given(st.lists(_steps, max_size=40), st.floats(0.0, 90 * DAY_S))
def test_shares_sum_to_one_and_counts_are_possible(
    steps: list[tuple[str, int, float, float]], age_s: float
) -> None:
    history, at_s = played(steps)
    check(history)
    for number in range(4):
        times = history.times(of(number % 3, "ab"[number % 2]), age_s, at_s)
        assert times.ending_fracs.shape == (BAND_COUNT,)
        assert (times.ending_fracs >= 0).all()
        assert times.ending_fracs.sum() == pytest.approx(1.0)
        assert times.rest_s() > 0


@given(st.lists(_steps, max_size=40), st.lists(_steps, max_size=10))
def test_a_restored_history_answers_and_learns_as_the_first(
    before: list[tuple[str, int, float, float]], later: list[tuple[str, int, float, float]]
) -> None:
    first, at_s = played(before)
    state = first.state()
    second = RunTimeHistory()
    second.add(of(77), 5.0, 0.0)  # forgotten by restore
    second.restore(state)
    assert second.state() == state
    for verb, number, run_s, wait_s in later:
        at_s += wait_s
        for history in (first, second):
            if verb == "begin":
                history.begin(of(number, job_id=str(number)), run_s, 1.0, at_s)
            else:
                history.add(of(number, job_id=str(number)), run_s, at_s)
    for number in range(4):
        spec = of(number % 3, "ab"[number % 2])
        assert same(first.times(spec, 0.0, at_s), second.times(spec, 0.0, at_s))


def test_what_is_learned_later_does_not_change_a_state() -> None:
    history = after((of(), 60.0))
    history.begin(of(job_id="2"), 0.0, 1.0, 0.0)
    state = history.state()
    kept = decode(encode(state), type(state))
    history.add(of(job_id="2"), DAY_S, DAY_S)
    assert state == kept
