"""The progress of jobs: work done and remaining, written by the driver, read by policies.

Oracles read the work done and remaining. Predictors read the ended jobs only, which a site's
accounting would have too.
"""

from dataclasses import dataclass, field
from math import inf
from typing import Protocol

from roost_engine.domain.model import JobId


@dataclass(slots=True, kw_only=True)
class Progress:
    """The progress of one job.

    Attributes:
        work_s: work of the whole job, in seconds at rate 1.
        remaining_s: work that remained at `since_s`.
        rate: the job's rate since `since_s`.
        since_s: when the progress was last brought up to date.
        stands_until_s: end of its restart; the job makes no progress until then.
        user_id, gpu_count: of the job.
        is_running: whether it holds its GPUs.
    """

    work_s: float
    remaining_s: float
    rate: float = 0.0
    since_s: float = 0.0
    stands_until_s: float = 0.0
    user_id: int = -1
    gpu_count: int = 0
    is_running: bool = False

    def remaining_at(self, at_s: float) -> float:
        """Return the work that remains at a time, if the rate does not change."""
        ran_s = max(0.0, at_s - max(self.since_s, self.stands_until_s))
        return max(0.0, self.remaining_s - self.rate * ran_s)

    def advance(self, at_s: float) -> None:
        """Bring the remaining work up to date."""
        if self.rate:
            self.remaining_s = self.remaining_at(at_s)
        self.since_s = at_s

    def change_rate(self, rate: float, at_s: float) -> float:
        """Change the rate, and return when the job ends if it does not change again; inf: never."""
        if self.rate:
            self.remaining_s = self.remaining_at(at_s)
        self.since_s, self.rate = at_s, rate
        if rate <= 0:
            return inf
        stands_until_s = self.stands_until_s
        begins_s = at_s if at_s >= stands_until_s else stands_until_s
        return begins_s + self.remaining_s / rate


class EndedJob(Protocol):
    """A job that has ended, with what a site's accounting knows about it."""

    @property
    def job_id(self) -> JobId:
        """Id of the job."""

    @property
    def gpu_count(self) -> int:
        """GPUs that it requested."""

    @property
    def ran_s(self) -> float:
        """Seconds for which it held GPUs, all its runs together."""


@dataclass(frozen=True, slots=True)
class ProgressTable:
    """The progress of all jobs in the system, and the jobs that have ended.

    Attributes:
        jobs: jobs that have arrived and not ended; only the driver writes.
        past: ended jobs, in the order in which they ended.
    """

    jobs: dict[JobId, Progress] = field(default_factory=dict)
    past: list[EndedJob] = field(default_factory=list)

    def done_s(self, job_id: JobId, at_s: float) -> float:
        """Return the work that a job has done, in seconds at rate 1; 0 before it arrives."""
        job = self.jobs.get(job_id)
        return 0.0 if job is None else job.work_s - job.remaining_at(at_s)
