"""The lives of jobs, one after the other: what Slurm calls by one number. Pure: no clock, no I/O.

Slurm may give the number of a job that it has forgotten to another job, and may requeue a job.
"""

from collections.abc import Mapping
from typing import TypeAlias

from roost_engine.domain.model import JobId
from roost_slurm.text.squeue import QueuedJob, SlurmJobState

Life: TypeAlias = tuple[int, float, int]  # record number, submission, restarts


class Lives:
    """The life of each job in a view of the queue.

    Args:
        before: those of the view before.

    Attributes:
        now: those of this view.
    """

    def __init__(self, before: Mapping[JobId, Life]) -> None:
        self._before = before
        self.now: dict[JobId, Life] = {}

    def note(self, job_id: JobId, life: Life) -> None:
        """Store a job's life: where it is the same, the object of the view before.

        The garbage collector need not scan that again: see `_Reading._read_from`.
        """
        before = self._before.get(job_id)
        self.now[job_id] = before if before == life else life

    def is_same(self, job_id: JobId) -> bool:
        """Return whether the view before shows a job in the life that is noted now."""
        return self._before.get(job_id) == self.now[job_id]


def life_of(job: QueuedJob) -> Life:
    """Return the life of a record."""
    # A task that leaves its array's record gets a number of its own and stays the same task.
    number = job.submission_number
    return number, job.submit_epoch_s, job.restart_count


def life_of_holder(job: QueuedJob, known: Life | None) -> Life:
    """Return the life of a job that holds an allocation.

    A requeued job that still completes is in its former life, though Slurm counts the restart as
    soon as the requeue is requested.

    Args:
        job: its record.
        known: its life in the view before; None: it was not there.
    """
    life = life_of(job)
    is_leaving = job.state is SlurmJobState.COMPLETING and is_next_life(known, life)
    return known if is_leaving and known is not None else life


def is_next_life(before: Life | None, after: Life) -> bool:
    """Return whether a job has been requeued between two lives."""
    # Slurm writes a new submission time when it requeues. A reused number starts at 0 restarts.
    return before is not None and before[0] == after[0] and before[2] < after[2]
