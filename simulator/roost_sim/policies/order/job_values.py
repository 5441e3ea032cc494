"""What orders and preemption rules go by: a value of each job, the lowest is served first."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from roost_engine.domain.model import JobId
from roost_engine.job_record import JobRecord
from roost_engine.policies import QueueView, SortKey, ranked_by_key, submission_key
from roost_sim.information.progress import ProgressBook

Value: TypeAlias = Callable[[JobRecord, float], SortKey]  # of a job, at an engine time


@dataclass(frozen=True, slots=True)
class OrderByValue:
    """Lowest value first, then as Slurm would: priority, submission, id.

    Attributes:
        value: of a waiting job the same at any time.
    """

    value: Value

    def key(self, job: JobRecord, at_s: float) -> SortKey:
        """See policies.KeyedOrder."""
        return *self.value(job, at_s), *submission_key(job.spec)

    def rank(self, view: QueueView) -> Sequence[JobId]:
        """See policies.OrderPolicy."""
        return ranked_by_key(self, view)


@dataclass(frozen=True, slots=True)
class Remaining:
    """Seconds of work that are left, by what is told of the whole and seen of what is done.

    Attributes:
        work_s: of every job: its true run time, or what somebody thinks it is.
        book: how far view.jobs have come.
        beyond: of a job and the work it has done: what is left, where that is more than was told.
            None: nothing.
    """

    work_s: Mapping[JobId, float]
    book: ProgressBook
    beyond: Callable[[JobId, float], float] | None = None

    def seconds(self, job_id: JobId, at_s: float) -> float:
        """At ideal speed."""
        told_s = self.work_s[job_id]
        job = self.book.jobs.get(job_id)
        if job is None:
            return told_s
        # Asked of every running job at every event: no further calls than this one.
        begin_s = job.since_s if job.since_s > job.stands_until_s else job.stands_until_s
        ran_s = at_s - begin_s if at_s > begin_s else 0.0
        left_s = told_s - job.work_s + job.remaining_s - job.rate * ran_s
        if left_s > 0.0:
            return left_s
        return 0.0 if self.beyond is None else self.beyond(job_id, told_s - left_s)

    def time(self, job: JobRecord, at_s: float) -> SortKey:
        """A Value: the seconds alone."""
        return (self.seconds(job.job_id, at_s),)

    def service(self, job: JobRecord, at_s: float) -> SortKey:
        """A Value: the seconds times the GPUs."""
        return (self.seconds(job.job_id, at_s) * job.spec.gpu_count,)


def attained_service(job: JobRecord, at_s: float) -> SortKey:
    """GPU-seconds that a job has had."""
    return (job.attained_gpu_s(at_s),)


def attained_time(job: JobRecord, at_s: float) -> SortKey:
    """Seconds for which a job has had GPUs, however many."""
    return (job.run_s(at_s),)


def ideal_speed_achieved(job: JobRecord, at_s: float) -> SortKey:
    """Dally's S: ideal time of the work done over the time it took, 0 before a job has run."""
    return (job.efficiency(at_s),)


def longest_waiting(job: JobRecord, at_s: float) -> SortKey:
    """Since when a job waits, in this spell: whoever was stopped goes to the end of the line."""
    return (job.queued_s,)


def latest_start(job: JobRecord, at_s: float) -> SortKey:
    """Whoever was served last comes first, whoever never was last: Gandiva as Dally codes it."""
    return (0, -job.queued_s) if job.run_s(at_s) > 0 else (1, job.queued_s)
