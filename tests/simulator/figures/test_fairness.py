import pytest

from roost_engine.domain.model import JobId
from roost_sim.figures.fairness import fairness_of, finish_time_ratios
from roost_sim.figures.outcome import JobResult


def job(number: int, submit_s: float, ended_s: float, work_s: float, gpus: int) -> JobResult:
    return JobResult(
        job_id=JobId(str(number)),
        submit_s=submit_s,
        work_s=work_s,
        gpu_count=gpus,
        started_s=ended_s - work_s,
        ended_s=ended_s,
        held_gpu_count=gpus,
    )


def test_a_job_alone_that_never_waits_has_ratio_1() -> None:
    assert finish_time_ratios([job(1, 5, 15, 10, 8)], 0, 1, 8).tolist() == [1.0]


def test_ratio_by_hand() -> None:
    # The first is never alone for 10 of its 10 s: n = 2, half of 8 GPUs is 4, it has 8: due 20 s,
    # took 10. The second is in the system for 20 s, with another for 10: n = 1.5, due 15 s.
    both = [job(1, 0, 10, 10, 8), job(2, 0, 20, 10, 8)]
    assert finish_time_ratios(both, 0, 2, 8).tolist() == pytest.approx([10 / 20, 20 / 15])


def test_small_jobs_are_due_their_run_time() -> None:
    both = [job(1, 0, 10, 10, 1), job(2, 0, 40, 10, 1)]
    assert finish_time_ratios(both, 0, 2, 8).tolist() == pytest.approx([1.0, 4.0])
    found = fairness_of(both, 0, 2, 8)
    assert found is not None
    assert (found.mean, found.most) == pytest.approx((2.5, 4.0))
    assert found.jain == pytest.approx(25 / (2 * 17))  # (1 + 4)^2 / (2 · (1 + 16))


def test_jobs_outside_the_span_count_as_company_only() -> None:
    jobs = [job(1, 0, 10, 10, 8), job(2, 0, 20, 10, 8), job(3, 20, 30, 10, 8)]
    assert len(finish_time_ratios(jobs, 1, 2, 8)) == 1
    assert finish_time_ratios(jobs, 1, 2, 8).tolist() == pytest.approx([20 / 15])


def test_nothing_ended_means_no_figure() -> None:
    waiting = job(1, 0, 10, 10, 8)
    waiting.ended_s = None
    assert fairness_of([waiting], 0, 1, 8) is None
