"""How users fared, worked out by hand."""

import pytest

from roost_engine.domain.model import JobId
from roost_sim.figures.outcome import NO_USER, JobResult
from roost_sim.figures.users import user_slowdowns


def job(user_id: int, jct_s: float, work_s: float, submit_s: float = 5.0) -> JobResult:
    return JobResult(
        job_id=JobId(f"{user_id}-{jct_s}-{work_s}"),
        submit_s=submit_s,
        work_s=work_s,
        gpu_count=1,
        ended_s=submit_s + jct_s,
        user_id=user_id,
    )


def test_a_slowdown_is_mean_completion_over_mean_run_time() -> None:
    # User 1: (10 + 130) / (10 + 60) = 2; user 2: 30 / 10 = 3.
    found = user_slowdowns([job(1, 10, 10), job(1, 130, 60), job(2, 30, 10)])
    assert found is not None
    assert found.worst == pytest.approx(3.0)
    assert found.jain == pytest.approx(5**2 / (2 * (2**2 + 3**2)))


def test_a_short_job_that_waits_does_not_outweigh_its_users_long_jobs() -> None:
    found = user_slowdowns([job(1, 3601, 1), job(1, 35_999, 35_999)])
    assert found is not None
    assert found.worst == pytest.approx(1.1)


def test_users_that_fare_alike_have_index_1() -> None:
    found = user_slowdowns([job(1, 20, 10), job(2, 40, 20)])
    assert found is not None
    assert found.worst == pytest.approx(2.0)
    assert found.jain == pytest.approx(1.0)


def test_jobs_without_a_user_or_an_end_are_left_out() -> None:
    unfinished = job(2, 10, 10)
    unfinished.ended_s = None
    found = user_slowdowns([job(NO_USER, 900, 1), unfinished, job(1, 20, 10)])
    assert found is not None
    assert (found.worst, found.jain) == (2.0, 1.0)
    assert user_slowdowns([job(NO_USER, 900, 1)]) is None
    assert user_slowdowns([]) is None


def test_jobs_of_no_length_have_a_finite_slowdown() -> None:
    found = user_slowdowns([job(1, 0, 0), job(2, 0, 0)])
    assert found is not None
    assert (found.worst, found.jain) == (0.0, 1.0)
