"""user_service: what users have had and want, and which of them are over their share."""

from math import inf, log, nan

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roost_engine.domain.model import UNKNOWN_USER, JobId
from roost_engine.prediction.user_service import HALF_LIFE_S, UserService, UserServiceState

A, B, C = JobId("1"), JobId("2"), JobId("3")
ANN, BOB, EVE = 1, 2, 3


def test_a_user_with_more_than_the_share_is_over() -> None:
    users = UserService()
    assert not users.wait(A, ANN, 300.0, 1.0, 0.0)  # alone, a user has a share of everything
    assert not users.wait(B, BOB, 100.0, 1.0, 0.0)
    assert users.wait(C, ANN, 1.0, 1.0, 0.0)
    assert not users.is_over(BOB, 1.0, 0.0)


@pytest.mark.parametrize(
    ("slack", "is_over"), [(1.0, True), (1.4, True), (1.6, False), (inf, False)]
)
def test_the_slack_is_how_many_shares_a_user_may_have(slack: float, is_over: bool) -> None:
    users = UserService()
    users.wait(A, ANN, 300.0, slack, 0.0)
    users.wait(B, BOB, 100.0, slack, 0.0)
    assert users.is_over(ANN, slack, 0.0) is is_over  # 300 of 400: one and a half shares


def test_the_answer_for_a_job_stays_while_the_job_waits() -> None:
    users = UserService()
    users.wait(B, BOB, 100.0, 1.0, 0.0)
    assert not users.wait(A, ANN, 90.0, 1.0, 0.0)
    assert users.wait(C, ANN, 90.0, 1.0, 0.0)
    assert not users.wait(A, ANN, 90.0, 1.0, 5.0)  # asked again: its priority has changed
    users.leave(C)
    assert not users.wait(C, ANN, 1.0, 1.0, 5.0)


def test_what_runs_counts_and_fades_by_half_in_a_week() -> None:
    users = UserService()
    users.hold(A, ANN, 4, 0.0)
    users.hold(A, ANN, 0, HALF_LIFE_S)
    had_gpu_s = 4 * 0.5 * HALF_LIFE_S / log(2.0)
    users.hold(B, BOB, 1, HALF_LIFE_S)
    state = {user: (gpu_s, at_s) for user, gpu_s, at_s in users.state().used}
    assert state[ANN][0] == pytest.approx(had_gpu_s)
    assert state[ANN][1] == HALF_LIFE_S
    users.hold(B, BOB, 0, 2 * HALF_LIFE_S)
    assert users.state().used[0][1] == pytest.approx(had_gpu_s / 2)


def test_a_running_job_counts_by_what_it_has_had_not_by_what_was_expected() -> None:
    users = UserService()
    users.wait(A, ANN, 1e6, 1.0, 0.0)
    users.wait(B, BOB, 5_000.0, 1.0, 0.0)
    assert users.is_over(ANN, 1.0, 0.0)
    users.hold(A, ANN, 1, 0.0)
    assert not users.is_over(ANN, 1.0, 1_000.0)
    assert users.is_over(ANN, 1.0, 10_000.0)


def test_only_users_whose_jobs_wait_or_run_have_a_share() -> None:
    users = UserService()
    users.wait(A, ANN, 60.0, 1.0, 0.0)
    users.wait(B, BOB, 40.0, 1.0, 0.0)
    assert not users.is_over(ANN, 1.25, 0.0)
    users.wait(C, EVE, 1.0, 1.0, 0.0)
    assert users.is_over(ANN, 1.25, 0.0)  # now a third is a share
    users.leave(C)
    assert not users.is_over(ANN, 1.25, 0.0)


def test_jobs_without_a_known_user_count_for_the_total_alone() -> None:
    users = UserService()
    users.wait(A, ANN, 100.0, 1.0, 0.0)
    users.wait(B, BOB, 10.0, 1.0, 0.0)
    users.hold(C, UNKNOWN_USER, 8, 0.0)
    assert users.is_over(ANN, 1.0, 0.0)
    assert not users.is_over(ANN, 1.0, 100.0)
    assert not users.wait(C, UNKNOWN_USER, 1e9, 1.0, 100.0)


@pytest.mark.parametrize("absurd", [nan, inf, -5.0])
def test_what_is_no_amount_of_work_is_none(absurd: float) -> None:
    users = UserService()
    users.wait(B, BOB, 10.0, 1.0, 0.0)
    assert not users.wait(A, ANN, absurd, 1.0, 0.0)


def test_what_users_have_had_outlives_an_engine() -> None:
    users = UserService()
    users.hold(A, ANN, 4, 0.0)
    users.hold(A, ANN, 0, 1_000.0)
    users.wait(B, BOB, 50.0, 1.0, 1_000.0)
    users.hold(B, BOB, 1, 1_000.0)
    later = UserService.of(users.state())
    assert later.state() == users.state() != UserServiceState()
    later.wait(B, BOB, 50.0, 1.0, 1_000.0)
    assert later.is_over(ANN, 1.5, 1_000.0)
    assert not later.is_over(BOB, 1.5, 1_000.0)


# -- shares ------------------------------------------------------------------------------------


def test_a_user_with_a_larger_share_may_have_more() -> None:
    users = UserService()
    users.apply_shares({ANN: 0.6, BOB: 0.2, EVE: 0.2})
    users.wait(A, ANN, 300.0, 1.0, 0.0)
    users.wait(B, BOB, 100.0, 1.0, 0.0)
    assert not users.is_over(ANN, 1.0, 0.0)  # 3 of 4 parts, as EVE has no jobs
    assert users.is_over(ANN, 1.0, 0.0, more_gpu_s=1.0)
    assert users.is_over(BOB, 1.0, 0.0, more_gpu_s=1.0)
    users.wait(C, EVE, 1.0, 1.0, 0.0)
    assert users.is_over(ANN, 1.0, 0.0)


def test_shares_that_change_count_for_the_users_that_are_there() -> None:
    users = UserService()
    users.wait(A, ANN, 300.0, 1.0, 0.0)
    users.wait(B, BOB, 100.0, 1.0, 0.0)
    assert users.is_over(ANN, 1.0, 0.0)
    users.apply_shares({ANN: 0.75, BOB: 0.25})
    assert not users.is_over(ANN, 1.0, 0.0)
    users.apply_shares({})
    assert users.is_over(ANN, 1.0, 0.0)


def test_a_user_without_a_share_has_the_smallest_and_one_with_0_goes_behind() -> None:
    users = UserService()
    users.apply_shares({ANN: 0.75, BOB: 0.25, EVE: 0.0})
    users.wait(A, ANN, 75.0, 1.0, 0.0)
    users.wait(B, 4, 25.0, 1.0, 0.0)  # a user without an association
    assert not users.is_over(4, 1.0, 0.0)
    assert users.is_over(4, 1.0, 0.0, more_gpu_s=1.0)
    assert users.wait(C, EVE, 1.0, 3.0, 0.0)


@pytest.mark.parametrize("shares", [{ANN: 0.0, BOB: 0.0}, {ANN: nan, BOB: -1.0}, {ANN: inf}])
def test_shares_that_say_nothing_are_equal_shares(shares: dict[int, float]) -> None:
    users = UserService()
    users.apply_shares(shares)
    users.wait(A, ANN, 101.0, 1.0, 0.0)
    users.wait(B, BOB, 100.0, 1.0, 0.0)
    assert users.is_over(ANN, 1.0, 0.0)
    assert not users.is_over(BOB, 1.0, 0.0)


events = st.lists(
    st.tuples(
        st.sampled_from(["wait", "hold", "leave"]),
        st.integers(0, 7),  # the job
        st.floats(0.0, 1e6),
        st.floats(0.0, 1e5),
    ),
    max_size=60,
)


def faded_gpu_s(gpu_count: int, begin_s: float, end_s: float, at_s: float) -> float:
    """Return what a job has had that held GPUs from one time to another."""
    kept = (2.0 ** ((moment_s - at_s) / HALF_LIFE_S) for moment_s in (end_s, begin_s))
    return gpu_count * HALF_LIFE_S / log(2.0) * float(next(kept) - next(kept))


@given(events, st.lists(st.integers(1, 50), min_size=3, max_size=3), st.booleans())
def test_the_sums_of_users_are_those_of_their_jobs(
    found: list[tuple[str, int, float, float]], weights: list[int], is_late: bool
) -> None:
    users, at_s = UserService(), 0.0
    shares = {user_id: weight / sum(weights) for user_id, weight in enumerate(weights)}
    if not is_late:
        users.apply_shares(shares)
    waiting, running = dict[int, float](), dict[int, float]()
    runs = list[tuple[int, float, float]]()  # job, begin, end
    for what, job, gpu_s, later_s in found:
        at_s += later_s
        job_id, user_id = JobId(str(job)), job % 3
        waiting.pop(job, None)
        if (since_s := running.pop(job, None)) is not None:
            runs.append((job, since_s, at_s))
        if what == "wait":
            users.hold(job_id, user_id, 0, at_s)
            users.wait(job_id, user_id, gpu_s, 2.0, at_s)
            waiting[job] = gpu_s
        elif what == "hold":
            users.hold(job_id, user_id, 2, at_s)
            running[job] = at_s
        else:
            users.leave(job_id)
            users.hold(job_id, user_id, 0, at_s)
    runs += [(job, since_s, at_s) for job, since_s in running.items()]
    own = dict.fromkeys(range(3), 0.0)
    for job, begin_s, end_s in runs:
        own[job % 3] += faded_gpu_s(2, begin_s, end_s, at_s)
    for job, gpu_s in waiting.items():
        own[job % 3] += gpu_s
    active = {job % 3 for job in (*waiting, *running)}
    users.apply_shares(shares)
    for user_id in active:
        share = shares[user_id] / sum(shares[other] for other in active)
        parts = own[user_id] / share / max(sum(own.values()), 1e-9)
        if abs(parts - 1.5) > 0.01 and sum(own.values()) > 1.0:
            assert users.is_over(user_id, 1.5, at_s) is (parts > 1.5)
