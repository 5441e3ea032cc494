"""The jobs that have waited for as long as an order without ageing lets any job wait."""

from math import inf

from roost_engine.domain.model import JobId
from roost_engine.job_record import JobRecord
from roost_engine.queue.overdue_jobs import OverdueJobs
from roost_engine.testing.builders import job, waiting

LONGEST_S = 1_000.0


def a_wait(name: str, queued_s: float) -> JobRecord:
    return waiting(job(name), queued_s)


def queued(*records: JobRecord, longest_wait_s: float = LONGEST_S) -> OverdueJobs:
    found = OverdueJobs(longest_wait_s)
    for record in records:
        found.note_queued(record)
    return found


def test_a_job_is_overdue_once_it_has_waited_for_so_long_and_is_told_once() -> None:
    old, young = a_wait("1", 0.0), a_wait("2", 500.0)
    overdue = queued(old, young)
    assert overdue.advance([old, young], 999.0) == []
    assert overdue.advance([old, young], 1_000.0) == [old]
    assert list(overdue) == ["1"]
    assert overdue.advance([old, young], 1_400.0) == []
    assert overdue.advance([old, young], 1_500.0) == [young]


def test_a_job_that_left_is_overdue_no_more() -> None:
    record = a_wait("1", 0.0)
    overdue = queued(record)
    overdue.advance([record], 1_000.0)
    overdue.forget(JobId("1"))
    assert not overdue
    assert overdue.advance([], 2_000.0) == []


def test_without_a_bound_no_job_is_overdue() -> None:
    record = a_wait("1", 0.0)
    overdue = queued(record, longest_wait_s=inf)
    assert overdue.advance([record], 1e12) == []
    assert not overdue.would_have(record, 1e12)
