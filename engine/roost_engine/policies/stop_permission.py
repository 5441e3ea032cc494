"""Which running jobs may be stopped, and for which waiting jobs."""

from dataclasses import dataclass

from roost_engine.job_record import JobRecord


@dataclass(frozen=True, slots=True)
class StopPermission:
    """Permission by partition and by job: partitions allow preemption, jobs name a checkpoint.

    Attributes:
        partitions: the partitions whose jobs may be stopped, and may have others stopped for them.
    """

    partitions: tuple[str, ...]

    def may_stop(self, job: JobRecord) -> bool:
        """Return whether a running job may be stopped: it must be able to continue."""
        return job.spec.checkpoint_s is not None and self.covers(job)

    def covers(self, job: JobRecord) -> bool:
        """Return whether the job's partition allows preemption."""
        return job.spec.partition in self.partitions
