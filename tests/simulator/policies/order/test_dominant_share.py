"""Dominant resource fairness: what users hold decides."""

from tests.simulator.hand_worked import run, starts


def test_drf_counts_what_a_user_holds() -> None:
    # User 1 holds 4 GPUs until 100. At 50 4 GPUs are free: with 2 user 1 would have 6,
    # with 3 user 2 would have 4: 3 comes first though it was submitted later.
    users = {"1": 1, "9": 3, "2": 1, "3": 2}
    jobs = run(
        *("drf", ("1", 0, 100, 4), ("9", 0, 50, 4), ("2", 10, 10, 2), ("3", 20, 10, 4)),
        users=users,
    )
    assert starts(jobs) == {"1": 0.0, "9": 0.0, "3": 50.0, "2": 60.0}


def test_drf_of_jobs_without_users_serves_the_smallest_first() -> None:
    jobs = run("drf", ("1", 0, 100, 8), ("2", 1, 10, 8), ("3", 2, 10, 5))
    assert starts(jobs) == {"1": 0.0, "3": 100.0, "2": 110.0}
