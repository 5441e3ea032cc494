"""Warm starts: pairs are choices of the incumbent, and none where jobs merely fitted."""

from collections.abc import Sequence

import pytest

from roost_engine.domain.model import JobId
from roost_engine.job_record import JobRecord
from roost_engine.policies.heuristics import PriorityOrder
from roost_engine.prediction.predictors import Predictors
from roost_engine.queue.model_order import JOB_COLUMNS
from roost_engine.testing.builders import job, waiting
from roost_sim.traces.arrival import Arrival
from roost_train.warmstart.decisions import Lessons, RankingTeacher, preferences

GPUS = JOB_COLUMNS.index("gpu_log")
WAITED = JOB_COLUMNS.index("waited_log")


def arrival(job_id: str, submit_s: float, gpus: int = 1, work_s: float = 10.0) -> Arrival:
    spec = job(job_id, gpus=gpus, submit_s=submit_s)
    return Arrival(spec=spec, work_s=work_s, gpu_count=gpus, reported_s=submit_s)


def starts(**at_s: float) -> dict[JobId, float]:
    return {JobId(name): start_s for name, start_s in at_s.items()}


def test_a_job_that_was_passed_over_makes_a_pair() -> None:
    found = preferences([arrival("a", 0.0), arrival("b", 5.0)], starts(a=20.0, b=10.0), 100)
    assert len(found) == 1
    assert found.started[0, WAITED] < found.passed_over[0, WAITED]


def test_a_larger_job_was_not_passed_over() -> None:
    jobs = [arrival("large", 0.0, gpus=8), arrival("small", 5.0)]
    assert len(preferences(jobs, starts(large=20.0, small=10.0), 100)) == 0
    assert len(preferences(jobs, starts(large=10.0, small=20.0), 100)) == 1


def test_jobs_that_came_later_or_never_started_make_none() -> None:
    jobs = [arrival("a", 0.0), arrival("b", 50.0), arrival("never", 0.0)]
    assert len(preferences(jobs, starts(a=10.0, b=60.0), 100)) == 0


def test_what_is_known_of_a_job_is_what_had_ended_by_then() -> None:
    known = JOB_COLUMNS.index("known_frac")
    jobs = [arrival("first", 0.0), arrival("a", 100.0), arrival("b", 100.0)]
    found = preferences(jobs, starts(first=0.0, a=200.0, b=300.0), 100)
    assert found.started[0, known] > 0.0
    jobs[0] = arrival("first", 0.0, work_s=1e6)
    assert preferences(jobs, starts(first=0.0, a=200.0, b=300.0), 100).started[0, known] == 0.0


def test_a_teacher_without_keys_is_shown_the_jobs_when_they_are_queued() -> None:
    class Noting(PriorityOrder):
        noted: Sequence[tuple[JobId, float]] = ()

        def note(self, job: JobRecord, at_s: float) -> None:
            self.noted = [*self.noted, (job.job_id, at_s)]

    teacher = Noting()
    observed = RankingTeacher(teacher, Lessons(Predictors(), 0))
    observed.note(waiting(job("1")), 5.0)
    assert teacher.noted == [("1", 5.0)]


@pytest.mark.parametrize("most", [1, 5])
def test_of_more_pairs_a_sample_is_taken(most: int) -> None:
    jobs = [arrival(str(number), 0.0, gpus=2) for number in range(10)]
    times = {one.spec.job_id: 10.0 + number for number, one in enumerate(jobs)}
    assert len(preferences(jobs, times, 1_000)) > 5
    sample = preferences(jobs, times, most)
    assert len(sample) == most
    assert sample.started[0, GPUS] == 1.0
