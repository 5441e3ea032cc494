"""What to ask for instead of a job that is not known: an array's tasks, a part's own number."""

import re
from collections.abc import Callable
from itertools import chain

from roost_engine.domain.errors import UnknownJob
from roost_engine.domain.model import JobId
from roostd.state import DaemonState

_NAMED_COUNT = 5
_PART = re.compile(r"([0-9]{1,10})\+[0-9]{1,5}", re.ASCII)
_NUMBER = re.compile(r"[0-9]{1,10}", re.ASCII)


def unknown_job(state: DaemonState, job_id: str, is_visible: Callable[[JobId], bool]) -> UnknownJob:
    """Return the error for a job that is not known.

    Args:
        state: the daemon's.
        job_id: that a caller asked for.
        is_visible: whether the caller may see a job. An array's tasks have one owner.
    """
    if part := _PART.fullmatch(job_id):
        return UnknownJob(
            job_id,
            "Roost knows a part of a heterogeneous job by a number of its own, which"
            f" squeue -j {part[1]} -o '%i %A' prints",
        )
    tasks = _tasks(state, job_id) if _NUMBER.fullmatch(job_id) else []
    if not tasks or not is_visible(tasks[0]):
        return UnknownJob(job_id)
    named = ", ".join(tasks[:_NAMED_COUNT])
    more = f" and {len(tasks) - _NAMED_COUNT} more" if len(tasks) > _NAMED_COUNT else ""
    return UnknownJob(job_id, f"it is an array; ask for a task of it: {named}{more}")


def _tasks(state: DaemonState, array: str) -> list[JobId]:
    """Return the known tasks of an array, the lowest first."""
    head = f"{array}_"
    # A task that is left to Slurm may be known to the engine too.
    known = chain(
        (job_id for job_id, _ in state.engine.known_jobs(include_ended=True)),
        state.unmanaged,
        state.unmanaged_reasons,
        state.left_queue,
    )
    found = {job_id for job_id in known if job_id.startswith(head)}
    return sorted(found, key=lambda job_id: (len(job_id), job_id))
