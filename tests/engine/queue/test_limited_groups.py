"""limited_groups: since when a quota holds jobs back, and which are due for plain Slurm."""

from dataclasses import replace
from math import inf

from roost_engine.domain.model import JobId, QuotaUse
from roost_engine.job_record import JobRecord
from roost_engine.queue.group import Group, demand_of
from roost_engine.queue.limited_groups import LimitedGroups
from roost_engine.queue.quotas import Quotas
from roost_engine.testing.builders import job, waiting

LIMIT = "QOSMaxTRESPerUser normal uid=1001 gres/gpu"


class Line:
    """One group of jobs for two GPUs each, and what holds groups back."""

    def __init__(self, **queued_s: float) -> None:
        self.jobs: dict[JobId, JobRecord] = {}
        self.limited = LimitedGroups(self.jobs)
        spec = replace(job("0", gpus=2), quotas=(QuotaUse(LIMIT, 2),))
        self.group = Group(1, demand_of(spec), spec)
        for name, since_s in queued_s.items():
            self.join(name, since_s)

    def join(self, name: str, queued_s: float) -> JobRecord:
        job_id = JobId(name)
        record = self.jobs[job_id] = waiting(job(name, gpus=2), queued_s)
        self.group.since_s[job_id] = queued_s
        return record

    def leave(self, name: str) -> None:
        del self.jobs[JobId(name)], self.group.since_s[JobId(name)]

    def since_s(self) -> dict[str, float | None]:
        return {str(job_id): record.limited_since_s for job_id, record in self.jobs.items()}


def left(amount: float) -> Quotas:
    quotas = Quotas()
    quotas.apply({LIMIT: amount})
    return quotas


def test_nothing_is_due_while_no_group_is_held_back() -> None:
    line = Line(a=0.0)
    assert line.limited.next_hand_over_s(30.0) == inf
    assert list(line.limited.take_overdue(1e9)) == []
    assert not line.limited.lift(left(8.0))


def test_a_job_is_held_back_from_when_it_is_noted_or_comes() -> None:
    line = Line(a=0.0, b=25.0)  # b may start from 25 on
    line.limited.add(line.group, LIMIT, 20.0)
    line.limited.note(line.group, line.join("c", 40.0), 40.0)
    assert line.group.limit == LIMIT
    assert line.since_s() == {"a": 20.0, "b": 25.0, "c": 40.0}
    assert line.limited.next_hand_over_s(30.0) == 50.0


def test_a_wait_that_is_older_than_the_queue_counts_from_its_beginning() -> None:
    line = Line(a=20.0)
    line.jobs[JobId("a")].limited_since_s = 5.0
    line.limited.add(line.group, LIMIT, 20.0)
    assert line.limited.next_hand_over_s(30.0) == 35.0


def test_the_overdue_are_taken_and_the_next_one_sets_the_time() -> None:
    line = Line(a=0.0, b=10.0)
    line.limited.add(line.group, LIMIT, 0.0)
    assert list(line.limited.take_overdue(-1.0)) == []
    assert list(line.limited.take_overdue(0.0)) == [("a", LIMIT)]
    line.leave("a")
    assert line.limited.next_hand_over_s(30.0) == 40.0
    assert list(line.limited.take_overdue(10.0)) == [("b", LIMIT)]
    assert line.limited.next_hand_over_s(30.0) == inf


def test_a_lifted_limit_leaves_no_trace() -> None:
    line = Line(a=0.0)
    line.limited.add(line.group, LIMIT, 0.0)
    assert not line.limited.lift(left(1.0))
    assert line.limited.by_number == {1: line.group}
    assert line.limited.lift(left(2.0))
    assert line.limited.by_number == {}
    assert (line.group.limit, line.group.limit_since_s, line.since_s()) == ("", inf, {"a": None})


def test_a_group_without_jobs_is_forgotten() -> None:
    line = Line()
    line.limited.add(line.group, LIMIT, 0.0)
    line.limited.forget(line.group)
    line.limited.forget(line.group)
    assert line.limited.by_number == {}
