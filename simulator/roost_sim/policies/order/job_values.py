"""Values of jobs that only simulations rank by; see roost_engine.queue.orders.Value."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from roost_engine.domain.model import JobId
from roost_engine.job_record import JobRecord
from roost_engine.policies.protocols import SortKey
from roost_sim.information.progress import ProgressTable


@dataclass(frozen=True, slots=True)
class Remaining:
    """Remaining work of jobs: known or predicted work minus the work done.

    Attributes:
        work_s: work of every job: its true run time or an estimate of it.
        progress: the work that jobs have done.
        beyond: (job, work done) to remaining work, for a job that has done more than `work_s`;
            None: 0.
    """

    work_s: Mapping[JobId, float]
    progress: ProgressTable
    beyond: Callable[[JobId, float], float] | None = None

    def seconds(self, job_id: JobId, at_s: float) -> float:
        """Return the remaining seconds of work at ideal speed."""
        work_s = self.work_s[job_id]
        job = self.progress.jobs.get(job_id)
        if job is None:
            return work_s
        # Called for every running job at every event, so Progress.remaining_at is written out.
        begin_s = job.since_s if job.since_s > job.stands_until_s else job.stands_until_s
        ran_s = at_s - begin_s if at_s > begin_s else 0.0
        left_s = work_s - job.work_s + job.remaining_s - job.rate * ran_s
        if left_s > 0.0:
            return left_s
        return 0.0 if self.beyond is None else self.beyond(job_id, work_s - left_s)

    def time(self, job: JobRecord, at_s: float) -> SortKey:
        """See Value: remaining seconds."""
        return (self.seconds(job.job_id, at_s),)

    def service(self, job: JobRecord, at_s: float) -> SortKey:
        """See Value: remaining GPU-seconds."""
        return (self.seconds(job.job_id, at_s) * job.spec.gpu_count,)


def attained_time(job: JobRecord, at_s: float) -> SortKey:
    """See Value: seconds for which a job has held GPUs, however many."""
    return (job.run_s(at_s),)


def longest_waiting(job: JobRecord, at_s: float) -> SortKey:
    """See Value: begin of the present wait, so a preempted job goes to the end of the queue."""
    return (job.queued_s,)


def latest_start(job: JobRecord, at_s: float) -> SortKey:
    """See Value: the job that was preempted last comes first, jobs that never ran come last.

    Source: Gandiva as Dally's simulator codes it (Sharma et al., arXiv 2401.16492).
    """
    return (0, -job.queued_s) if job.run_s(at_s) > 0 else (1, job.queued_s)
