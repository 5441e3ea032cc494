"""Static orders: sort keys of the request and of the work that an oracle knows.

A key never changes while a job waits. The named policies with these orders are non-preemptive.
Sources: docs/simulator/policies.md.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b

from roost_engine.domain.model import JobId, JobSpec
from roost_engine.job_record import JobRecord
from roost_engine.policies.heuristics import ranked_by_key, submission_key
from roost_engine.policies.protocols import QueueView, SortKey


@dataclass(frozen=True, slots=True)
class OrderBy:
    """Smallest value first, then in Slurm's order: priority, submission, id.

    Attributes:
        value: the value of a request.
    """

    value: Callable[[JobSpec], float | int]

    def key(self, job: JobRecord, at_s: float) -> SortKey:
        """See policies.KeyedOrder."""
        return self.value(job.spec), *submission_key(job.spec)

    def rank(self, view: QueueView) -> Sequence[JobId]:
        """See policies.OrderPolicy."""
        return ranked_by_key(self, view)


def shortest_first(work_s: Mapping[JobId, float]) -> OrderBy:
    """Order by ideal run time, known in advance: shortest first."""
    return OrderBy(lambda job: work_s[job.job_id])


def least_service_first(work_s: Mapping[JobId, float]) -> OrderBy:
    """Order by ideal GPU-seconds, known in advance: fewest first."""
    return OrderBy(lambda job: work_s[job.job_id] * job.gpu_count)


def smallest_first() -> OrderBy:
    """Order by GPUs: fewest first."""
    return OrderBy(lambda job: job.gpu_count)


def largest_first() -> OrderBy:
    """Order by GPUs: most first."""
    return OrderBy(lambda job: -job.gpu_count)


def random_order(seed: int) -> OrderBy:
    """Order by a hash of job id and seed: random, and the same for as long as a job waits."""
    salt = seed.to_bytes(8, "little", signed=True)

    def draw(job: JobSpec) -> int:
        digest = blake2b(job.job_id.encode(), digest_size=8, key=salt).digest()
        return int.from_bytes(digest, "little")

    return OrderBy(draw)
