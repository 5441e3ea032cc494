"""Orders that need nothing but the job, and what an oracle knows of it. All are non-preemptive."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b

from roost_engine.domain.model import JobId, JobSpec
from roost_engine.job_record import JobRecord
from roost_engine.policies import QueueView, SortKey, ranked_by_key, submission_key


@dataclass(frozen=True, slots=True)
class OrderBy:
    """Smallest value first, then as Slurm would: priority, submission, id.

    Attributes:
        value: of a job; the same at any time.
    """

    value: Callable[[JobSpec], float | int]

    def key(self, job: JobRecord, at_s: float) -> SortKey:
        """See policies.KeyedOrder."""
        return self.value(job.spec), *submission_key(job.spec)

    def rank(self, view: QueueView) -> Sequence[JobId]:
        """See policies.OrderPolicy."""
        return ranked_by_key(self, view)


def shortest_first(work_s: Mapping[JobId, float]) -> OrderBy:
    """Shortest ideal run time first, known in advance."""
    return OrderBy(lambda job: work_s[job.job_id])


def least_service_first(work_s: Mapping[JobId, float]) -> OrderBy:
    """Fewest GPU-seconds first, known in advance."""
    return OrderBy(lambda job: work_s[job.job_id] * job.gpu_count)


def smallest_first() -> OrderBy:
    """Fewest GPUs first."""
    return OrderBy(lambda job: job.gpu_count)


def largest_first() -> OrderBy:
    """Most GPUs first."""
    return OrderBy(lambda job: -job.gpu_count)


def random_order(seed: int) -> OrderBy:
    """A place at random for each job, from its id and the seed: it keeps it while it waits."""
    salt = seed.to_bytes(8, "little", signed=True)

    def draw(job: JobSpec) -> int:
        digest = blake2b(job.job_id.encode(), digest_size=8, key=salt).digest()
        return int.from_bytes(digest, "little")

    return OrderBy(draw)
