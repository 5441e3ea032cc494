"""How far each job has come: what the driver keeps, and all that a policy may know of it.

Oracles look at work that is done or left. Predictors look at jobs that have ended, as a site's
accounting would show them, and at nothing else.
"""

from dataclasses import dataclass, field
from math import inf
from typing import Protocol

from roost_engine.domain.model import JobId


@dataclass(slots=True, kw_only=True)
class Progress:
    """One job's way to its end.

    Attributes:
        work_s: of the whole job, in seconds at rate 1.
        remaining_s: of that, left at `since_s`.
        rate: since then.
        stands_until_s: it loads its checkpoint until then.
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
        """What is left of the work by then, if nothing changes."""
        ran_s = max(0.0, at_s - max(self.since_s, self.stands_until_s))
        return max(0.0, self.remaining_s - self.rate * ran_s)

    def advance(self, at_s: float) -> None:
        """Bring what is left up to date."""
        self.remaining_s = self.remaining_at(at_s)
        self.since_s = at_s

    def ends_at(self, at_s: float) -> float:
        """When it will end, if nothing changes; `advance` to now first. inf: it stands."""
        if self.rate <= 0:
            return inf
        return max(at_s, self.stands_until_s) + self.remaining_s / self.rate


class EndedJob(Protocol):
    """A job that has ended, as accounting knows it."""

    @property
    def job_id(self) -> JobId:
        """Which."""

    @property
    def gpu_count(self) -> int:
        """What it asked for."""

    @property
    def ran_s(self) -> float:
        """How long it held GPUs, all its runs together."""


@dataclass(frozen=True, slots=True)
class PastRun:
    """The least that is an EndedJob."""

    job_id: JobId
    gpu_count: int
    ran_s: float


@dataclass(frozen=True, slots=True)
class ProgressBook:
    """Every job that has arrived and not ended, and those that have.

    Attributes:
        jobs: to be read only, by everybody but the driver.
        past: in the order in which they ended.
    """

    jobs: dict[JobId, Progress] = field(default_factory=dict)
    past: list[EndedJob] = field(default_factory=list)

    def done_s(self, job_id: JobId, at_s: float) -> float:
        """Work that a job has done by then, in seconds at rate 1; 0 before it arrives."""
        job = self.jobs.get(job_id)
        return 0.0 if job is None else job.work_s - job.remaining_at(at_s)
