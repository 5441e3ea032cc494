"""Leases of a crowd: none ends between two rounds, and the number of renewals stays small."""

from hypothesis import given
from hypothesis import strategies as st

from roost_engine.domain.model import JobId
from roostd.slurm.lease_plan import (
    HEAD_COUNT,
    LONGEST_S,
    MOST_AT_ONCE,
    RENEWALS,
    LeasePlan,
    lease_of_others_s,
)

LEASE_S = 60.0
ROUND_S = LEASE_S / RENEWALS


def crowd(count: int) -> list[JobId]:
    return [JobId(str(number)) for number in range(1, count + 1)]


def test_few_jobs_have_the_configured_lease_and_are_renewed_in_each_round() -> None:
    plan, jobs = LeasePlan(), crowd(2 * HEAD_COUNT)
    for round_ in range(3):
        assert plan.due(jobs, LEASE_S, round_ * ROUND_S) == [(60, jobs)]
        plan.note(jobs, 60, round_ * ROUND_S)
    assert plan.due([], LEASE_S, 0.0) == []


def test_the_lease_of_the_others_grows_with_their_number() -> None:
    assert lease_of_others_s(LEASE_S, 10) == LEASE_S
    assert lease_of_others_s(LEASE_S, 10_000) == 1_140.0
    assert lease_of_others_s(LEASE_S, 1_000_000) == LONGEST_S
    assert lease_of_others_s(7_200.0, 1_000_000) == 7_200.0


def test_a_crowd_costs_few_renewals_and_no_lease_ends() -> None:
    plan, jobs, now_s = LeasePlan(), crowd(20_000), 1_000.0
    ends_s = dict.fromkeys(jobs, now_s)
    counts = list[int]()
    for _ in range(400):
        renewed = 0
        for length_s, due in plan.due(jobs, LEASE_S, now_s):
            plan.note(due, length_s, now_s)
            ends_s |= dict.fromkeys(due, now_s + length_s)
            renewed += len(due)
        counts.append(renewed)
        now_s += ROUND_S
        assert min(ends_s.values()) > now_s
    assert counts[0] == 20_000
    assert max(counts[1:]) <= HEAD_COUNT + MOST_AT_ONCE
    assert sum(counts[200:]) / 200 < 2.2 * HEAD_COUNT


def test_a_job_that_moves_between_head_and_others_keeps_a_lease() -> None:
    plan, jobs = LeasePlan(), crowd(3_000)
    for length_s, due in plan.due(jobs, LEASE_S, 0.0):
        plan.note(due, length_s, 0.0)
    moved = [*jobs[HEAD_COUNT : 2 * HEAD_COUNT], *jobs[:HEAD_COUNT], *jobs[2 * HEAD_COUNT :]]
    (long_s, others), (short_s, head) = plan.due(moved, LEASE_S, ROUND_S)
    assert (short_s, head) == (60, moved[:HEAD_COUNT])
    assert (long_s, set(others)) == (300, set(jobs[:HEAD_COUNT]))


def test_a_renewal_that_failed_is_due_in_the_next_round() -> None:
    plan, jobs = LeasePlan(), crowd(3_000)
    assert plan.due(jobs, LEASE_S, 0.0) == plan.due(jobs, LEASE_S, ROUND_S)


def test_a_job_whose_lease_was_changed_is_due_in_the_next_round() -> None:
    plan, jobs = LeasePlan(), crowd(3_000)
    for length_s, due in plan.due(jobs, LEASE_S, 0.0):
        plan.note(due, length_s, 0.0)
    plan.forget(jobs[-1])
    plan.forget(jobs[0])
    assert plan.due(jobs, LEASE_S, ROUND_S) == [(300, [jobs[-1]]), (60, jobs[:HEAD_COUNT])]


@given(st.integers(0, 5_000), st.floats(10.0, 86_400.0))
def test_every_new_job_is_due_at_once(count: int, lease_s: float) -> None:
    jobs = crowd(count)
    due = [job_id for _, ids in LeasePlan().due(jobs, lease_s, 5.0) for job_id in ids]
    assert sorted(due) == sorted(jobs)


def test_the_head_is_renewed_last() -> None:
    """Where an array's record has tasks of both, all of them have the configured lease then."""
    tasks = [JobId(f"7_{task}") for task in range(15_000)]
    lengths_s = [length_s for length_s, _ in LeasePlan().due(tasks, LEASE_S, 0.0)]
    assert lengths_s == [1_740, 60]
