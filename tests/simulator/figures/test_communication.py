import pytest

from roost_engine.domain.model import JobId
from roost_sim.figures.communication import communication_of
from roost_sim.figures.outcome import JobResult


def job(number: int, gpus: int, work_s: float, ran_s: float, stops: int = 0) -> JobResult:
    return JobResult(
        job_id=JobId(str(number)),
        submit_s=0,
        work_s=work_s,
        gpu_count=gpus,
        ran_s=ran_s,
        preempted_count=stops,
    )


def test_what_is_not_compute_nor_a_restart_is_communication() -> None:
    # Job 1 computes 80 of its 100 s of work and ran 130: 50. Job 2 ran 50 for 40 of compute, of
    # which 2 restarts of 5 s: 0.
    jobs = [job(1, 8, 100, 130), job(2, 2, 50, 50, stops=2)]
    found = communication_of(jobs, lambda job_id, gpus: 0.8, lambda job_id, gpus: 5.0)
    assert found is not None
    assert found.mean_s == pytest.approx((50 + 0) / 2)
    assert found.share_frac == pytest.approx(8 * 50 / (8 * 130 + 2 * 50))


def test_unknown_compute_is_no_figure() -> None:
    assert communication_of([job(1, 1, 10, 10)], None, lambda job_id, gpus: 0.0) is None
    assert communication_of([], lambda job_id, gpus: 1.0, lambda job_id, gpus: 0.0) is None
