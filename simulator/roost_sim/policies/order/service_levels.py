"""Tiresias' queues: jobs by the service that they have received, in a few levels.

Source: Gu et al., Tiresias, NSDI 2019, discretised two-dimensional least attained service; limits
of its released simulator. Differences: docs/simulator/policies.md.
"""

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from math import inf

from roost_engine.job_record import JobRecord
from roost_engine.policies.protocols import SortKey

TIRESIAS_LIMITS_GPU_S = (3250.0, 7200.0, 18000.0)
LUCID_LIMITS_GPU_S = (18000.0,)


@dataclass(frozen=True, slots=True)
class ServiceLevels:
    """The queue of a job by its GPU-seconds; within a queue, the earliest submission comes first.

    Attributes:
        limits_gpu_s: ascending; a job that has reached one is in the next queue.
    """

    limits_gpu_s: tuple[float, ...]

    def value(self, job: JobRecord, at_s: float) -> SortKey:
        """See roost_engine.queue.orders.Value."""
        return bisect_right(self.limits_gpu_s, job.attained_gpu_s(at_s)), job.spec.submit_s

    def next_change(self, running: Sequence[JobRecord], at_s: float) -> float:
        """Return when the first of the running jobs enters the next queue."""
        return min((self._level_end_s(job, at_s) for job in running), default=inf)

    def _level_end_s(self, job: JobRecord, at_s: float) -> float:
        attained_gpu_s = job.attained_gpu_s(at_s)
        level = bisect_right(self.limits_gpu_s, attained_gpu_s)
        if level == len(self.limits_gpu_s):
            return inf
        return at_s + (self.limits_gpu_s[level] - attained_gpu_s) / job.spec.gpu_count
