"""The progress of jobs: work that remains, ends, and work done."""

from math import inf

from roost_engine.domain.model import JobId
from roost_sim.information.progress import Progress, ProgressTable


def test_work_remains_until_the_restart_is_over_and_then_falls_with_the_rate() -> None:
    job = Progress(work_s=100.0, remaining_s=60.0, rate=0.5, since_s=10.0, stands_until_s=30.0)
    # It stands until 30, then does half a second of work a second.
    assert [job.remaining_at(at_s) for at_s in (10.0, 30.0, 50.0, 1_000.0)] == [60, 60, 50, 0]
    assert job.change_rate(0.5, 10.0) == 30.0 + 60.0 / 0.5


def test_advance_keeps_the_end_of_a_running_job() -> None:
    job = Progress(work_s=100.0, remaining_s=100.0, rate=0.5)
    end_s = job.change_rate(0.5, 0.0)
    job.advance(40.0)
    assert (job.remaining_s, job.since_s) == (80.0, 40.0)
    assert job.change_rate(0.5, 40.0) == end_s == 200.0


def test_work_until_a_change_of_rate_is_done_at_the_old_rate() -> None:
    job = Progress(work_s=100.0, remaining_s=100.0, rate=0.5)
    assert job.change_rate(0.25, 40.0) == 40.0 + 80.0 / 0.25
    assert (job.remaining_s, job.since_s, job.rate) == (80.0, 40.0, 0.25)


def test_a_job_of_rate_0_never_ends() -> None:
    assert Progress(work_s=1.0, remaining_s=1.0).change_rate(0.0, 5.0) == inf


def test_work_done_is_0_before_a_job_arrives() -> None:
    job = Progress(work_s=100.0, remaining_s=100.0, rate=1.0)
    table = ProgressTable(jobs={JobId("1"): job})
    assert table.done_s(JobId("1"), 30.0) == 30.0
    assert table.done_s(JobId("2"), 30.0) == 0.0
