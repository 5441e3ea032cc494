"""stoppable_jobs: a sequence of running jobs, ranked by what they have had."""

import numpy as np

from roost_engine.domain.model import JobId
from roost_engine.job_record import JobRecord
from roost_engine.policies.stoppable_jobs import StoppableJobs, run_of
from roost_engine.testing.builders import job, waiting


def running(
    number: int, *, gpus: int, submit_s: float, earlier_s: float, started_s: float
) -> JobRecord:
    record = waiting(job(JobId(str(number)), gpus=gpus, submit_s=submit_s))
    record.earlier_run_s, record.started_s = earlier_s, started_s
    return record


def stoppable(*jobs: JobRecord) -> StoppableJobs:
    return StoppableJobs(jobs, np.array([run_of(record) for record in jobs]).T)


def test_most_attained_service_goes_first_and_of_equals_the_latest_submitted() -> None:
    little = running(1, gpus=1, submit_s=0.0, earlier_s=0.0, started_s=90.0)  # 10 GPU-seconds
    before = running(2, gpus=2, submit_s=1.0, earlier_s=20.0, started_s=90.0)  # 60, 20 s earlier
    latest = running(3, gpus=6, submit_s=2.0, earlier_s=0.0, started_s=90.0)  # 60
    ranking = stoppable(little, before, latest).by_attained_service(100.0)
    assert [record.job_id for record in ranking.jobs] == ["3", "2", "1"]
    assert ranking.negative_values == [-60.0, -60.0, -10.0]
    assert [ranking.count_above(value) for value in (5.0, 10.0, 59.0, 60.0)] == [3, 2, 2, 0]


def test_only_the_last_ranking_is_known_as_its_own() -> None:
    jobs = stoppable(running(1, gpus=1, submit_s=0.0, earlier_s=0.0, started_s=0.0))
    assert not jobs.is_ranking(())
    ranking = jobs.by_attained_service(1.0)
    assert jobs.is_ranking(ranking.jobs)
    assert jobs.by_attained_service(1.0) is ranking
    assert not jobs.is_ranking([*ranking.jobs])
    assert jobs.by_attained_service(2.0).negative_values == [-2.0]


def test_a_job_with_more_gpus_overtakes_and_equals_keep_their_order() -> None:
    narrow = running(1, gpus=1, submit_s=0.0, earlier_s=100.0, started_s=0.0)
    wide = running(2, gpus=8, submit_s=1.0, earlier_s=0.0, started_s=0.0)
    alike = running(3, gpus=8, submit_s=2.0, earlier_s=0.0, started_s=0.0)
    jobs = stoppable(narrow, wide, alike)
    for at_s, order in ((0.0, "132"), (10.0, "132"), (14.0, "132"), (20.0, "321"), (30.0, "321")):
        ranking = jobs.by_attained_service(at_s)
        assert "".join(record.job_id for record in ranking.jobs) == order
        values = [-record.attained_gpu_s(at_s) for record in ranking.jobs]
        assert ranking.negative_values == values
        assert jobs.is_ranking(ranking.jobs)


def test_it_is_a_sequence_in_the_order_given() -> None:
    one, other = (
        running(number, gpus=1, submit_s=0.0, earlier_s=0.0, started_s=0.0) for number in (1, 2)
    )
    jobs = stoppable(one, other)
    assert (len(jobs), jobs[1], jobs[:1], [*jobs]) == (2, other, (one,), [one, other])
