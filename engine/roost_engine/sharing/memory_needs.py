"""What jobs that share GPUs need of each GPU's memory: what they state, or more if it was seen.

A job that was seen to use more than it counted with has outgrown it. From then on the job counts
with what it used, and so does every later job of its kind, the same user and name (numbers and
hashes left out): no further pair of that kind is made that does not fit. The two jobs that share a
GPU already may not fit on it any more: then an allocation of either one may fail.
"""

from typing import NamedTuple

from roost_engine.domain.events import Event, JobEnded, JobsStopped, MemorySeen
from roost_engine.domain.model import JobId, JobSpec
from roost_engine.prediction.run_time.history_kinds import normalised
from roost_engine.table.job_table import JobTable

_MOST_KINDS = 2_000  # those that outgrew what they counted with last
_GIB = 1 << 30


class Overfull(NamedTuple):
    """Two jobs that share a GPU on which they do not fit together any more.

    Attributes:
        job: the job that outgrew what it counted with.
        beside: the other one; it may have outgrown that too.
        job_bytes, beside_bytes: what each needs of the GPU.
        gpu_memory_bytes: what the GPU has.
    """

    job: JobId
    beside: JobId
    job_bytes: int
    beside_bytes: int
    gpu_memory_bytes: int

    @property
    def in_words(self) -> str:
        """What does not fit, for a human."""
        return (
            f"job {self.job} was seen to use {self.job_bytes / _GIB:.4g} GiB of a GPU, more than it"
            f" counted with, and job {self.beside} needs {self.beside_bytes / _GIB:.4g} of"
            f" {self.gpu_memory_bytes / _GIB:.4g}"
        )


class MemoryNeeds:
    """See the module.

    Args:
        table: the jobs, and the seats that they hold.
    """

    def __init__(self, table: JobTable) -> None:
        self._table = table
        self._used_bytes: dict[JobId, int] = {}  # of jobs that outgrew what they counted with
        self._outgrown_bytes: dict[str, int] = {}  # by kind

    def note(self, event: Event) -> None:
        """Note what an event says of memory in use."""
        match event:
            case MemorySeen():
                self._note_use(event)
            case JobEnded():
                self._used_bytes.pop(event.job_id, None)
            case JobsStopped():
                for job_id in event.job_ids:
                    self._used_bytes.pop(job_id, None)
            case _:
                pass

    def needed_bytes(self, job: JobSpec) -> int:
        """Return what a running job needs of each GPU: stated, or more if it was seen to use it."""
        return max(job.gpu_memory_bytes, self._used_bytes.get(job.job_id, 0))

    def expected_bytes(self, job: JobSpec) -> int:
        """Return what a job may come to need of each GPU, by others of its kind too."""
        return max(self.needed_bytes(job), self._outgrown_bytes.get(_kind(job), 0))

    def overfull(self, job_id: JobId) -> Overfull | None:
        """Return why a job and its partner do not fit together; None: they do, or share nothing.

        Where the partner alone outgrew what it counted with, it is the job that is named first.
        """
        seats, jobs = self._table.cluster.seats, self._table.jobs
        if seats is None or job_id not in jobs:
            return None
        for partner in seats.partners(job_id):
            job, beside = (job_id, partner) if job_id in self._used_bytes else (partner, job_id)
            if job not in self._used_bytes or partner not in jobs:
                continue
            job_bytes = self.needed_bytes(jobs[job].spec)
            beside_bytes = self.needed_bytes(jobs[beside].spec)
            has_bytes = seats.gpu_memory_bytes.get(seats.gpu_seats(job_id)[0].node, 0)
            if job_bytes + beside_bytes > has_bytes > 0:
                return Overfull(job, beside, job_bytes, beside_bytes, has_bytes)
        return None

    def _note_use(self, event: MemorySeen) -> None:
        known_bytes = self._used_bytes.get(event.job_id, 0)
        self._used_bytes[event.job_id] = max(known_bytes, event.used_bytes)
        record = self._table.jobs.get(event.job_id)
        if record is None or not record.spec.name:
            return
        kind = _kind(record.spec)
        kind_bytes = max(event.used_bytes, self._outgrown_bytes.pop(kind, 0))
        self._outgrown_bytes[kind] = kind_bytes
        if len(self._outgrown_bytes) > _MOST_KINDS:
            del self._outgrown_bytes[next(iter(self._outgrown_bytes))]


def _kind(job: JobSpec) -> str:
    return f"{job.user_id} {normalised(job.name)}"
