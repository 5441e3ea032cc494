"""The progress of jobs: work that remains, ends, and work done."""

from math import inf

from roost_engine.domain.model import JobId
from roost_sim.information.progress import Progress, ProgressTable


def test_work_remains_until_the_restart_is_over_and_then_falls_with_the_rate() -> None:
    job = Progress(work_s=100.0, remaining_s=60.0, rate=0.5, since_s=10.0, stands_until_s=30.0)
    # It stands until 30, then does half a second of work a second.
    assert [job.remaining_at(at_s) for at_s in (10.0, 30.0, 50.0, 1_000.0)] == [60, 60, 50, 0]
    assert job.ends_at(10.0) == 30.0 + 60.0 / 0.5


def test_advance_keeps_the_end_of_a_running_job() -> None:
    job = Progress(work_s=100.0, remaining_s=100.0, rate=0.5)
    end_s = job.ends_at(0.0)
    job.advance(40.0)
    assert (job.remaining_s, job.since_s) == (80.0, 40.0)
    assert job.ends_at(40.0) == end_s == 200.0


def test_a_job_of_rate_0_never_ends() -> None:
    assert Progress(work_s=1.0, remaining_s=1.0).ends_at(5.0) == inf


def test_work_done_is_0_before_a_job_arrives() -> None:
    job = Progress(work_s=100.0, remaining_s=100.0, rate=1.0)
    table = ProgressTable(jobs={JobId("1"): job})
    assert table.done_s(JobId("1"), 30.0) == 30.0
    assert table.done_s(JobId("2"), 30.0) == 0.0
