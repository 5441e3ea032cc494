"""moments: the order of what happens at one instant, and what voids a moment."""

from heapq import heappop

import pytest
from tests.simulator.simulated import arrival, cluster, simulate

from roost_engine.domain.events import Tick
from roost_engine.domain.model import JobId
from roost_sim.figures.outcome import JobResult
from roost_sim.runs.moments import Kind, Moments
from roost_sim.runs.simulated_job import SimulatedJob


def waiting(job_id: str) -> SimulatedJob:
    result = JobResult(job_id=JobId(job_id), submit_s=0.0, work_s=1.0, gpu_count=1)
    return SimulatedJob(work_s=1.0, remaining_s=1.0, result=result)


def test_at_one_instant_ends_come_first_and_arrivals_last() -> None:
    moments, ending, starting = Moments(), waiting("1"), waiting("2")
    moments.begin([arrival("3", 5, 1), arrival("4", 5, 1)], [Tick(at_s=5.0)], 0.0)
    moments.schedule_start(starting, 5.0)
    moments.schedule_end(ending, 5.0)
    kinds = [heappop(moments.heap)[1] for _ in range(4)]
    assert kinds == [Kind.END, Kind.START, Kind.OUTSIDE, Kind.ARRIVAL]
    assert not moments.heap, "the second arrival waits until the first has come"
    moments.schedule_arrival(5.0)
    assert [kind for _, kind, _, _ in moments.heap] == [Kind.ARRIVAL]


def test_within_a_kind_what_was_scheduled_first_comes_first() -> None:
    moments, jobs = Moments(), [waiting("1"), waiting("2"), waiting("3")]
    for job in jobs:
        moments.schedule_end(job, 7.0)
    assert [heappop(moments.heap)[3] for _ in jobs] == jobs


def test_only_the_newest_moment_of_a_job_counts() -> None:
    moments, job = Moments(), waiting("1")
    moments.schedule_end(job, 7.0)
    moments.schedule_end(job, 9.0)
    assert [number == job.due for _, _, number, _ in sorted(moments.heap[:])] == [False, True]
    moments.cancel(job)
    assert job.due not in {number for _, _, number, _ in moments.heap}


def test_refuses_arrivals_out_of_order() -> None:
    with pytest.raises(ValueError, match="job 2 comes at 5 s, after 10 s"):
        simulate(cluster(1), arrival("1", 10, 1), arrival("2", 5, 1))
