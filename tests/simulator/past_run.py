"""Jobs that have ended, for tests of policies that learn from them."""

from dataclasses import dataclass

from roost_engine.domain.model import JobId


@dataclass(frozen=True, slots=True)
class PastRun:
    """An EndedJob with nothing else."""

    job_id: JobId
    gpu_count: int
    ran_s: float
