"""What Slurm's limits leave for waiting jobs: limits that several jobs share.

Slurm reports what its running jobs leave of each quota. Placed jobs that Slurm has not started yet
are not in that report, so their amounts are subtracted here.
"""

from collections.abc import Mapping
from math import inf

from roost_engine.domain.model import JobId, JobSpec, QuotaUse

_ROUNDING = 1e-6  # amounts are counts, or sums of a few fractions


class Quotas:
    """The quotas of Slurm's limits, and what placed jobs take of them until Slurm starts them."""

    def __init__(self) -> None:
        self._free: Mapping[str, float] = {}
        self._held: dict[JobId, tuple[QuotaUse, ...]] = {}

    def apply(self, free: Mapping[str, float]) -> None:
        """Apply what Slurm's running jobs leave of each quota."""
        self._free = free

    def hold(self, job: JobSpec) -> None:
        """Count a job that Slurm was asked to start."""
        if job.quotas:
            self._held[job.job_id] = job.quotas

    def release(self, job_id: JobId) -> bool:
        """Stop counting a job: Slurm reports it as running, or does not start it.

        Returns:
            Whether the job was counted.
        """
        return self._held.pop(job_id, None) is not None

    def exhausted_by(self, job: JobSpec) -> str:
        """Return the first quota that has too little left for a job; "" where none has."""
        for use in job.quotas:
            free = self._free.get(use.quota, inf)
            if free < inf and use.amount > free - self._held_amount(use.quota) + _ROUNDING:
                return use.quota
        return ""

    def _held_amount(self, quota: str) -> float:
        return sum(use.amount for uses in self._held.values() for use in uses if use.quota == quota)
