"""What to ask for instead of a job that is not known: an array's tasks, a part's own number."""

import re
from collections.abc import Callable
from heapq import nsmallest
from itertools import chain

from roost_engine.domain.errors import UnknownJob
from roost_engine.domain.model import JobId
from roostd.state import DaemonState, ReportedRun

_NAMED_COUNT = 5
_PART = re.compile(r"([0-9]{1,10})\+[0-9]{1,5}", re.ASCII)
_NUMBER = re.compile(r"[0-9]{1,10}", re.ASCII)


def unknown_job(
    state: DaemonState,
    job_id: str,
    is_visible: Callable[[JobId], bool],
    *,
    sees_all: bool = True,
) -> UnknownJob:
    """Return the error for a job that is not known.

    Args:
        state: the daemon's.
        job_id: that a caller asked for.
        is_visible: whether the caller may see a job. An array's tasks have one owner.
        sees_all: whether the caller may see every job: of some the owner is not known.
    """
    if part := _PART.fullmatch(job_id):
        return UnknownJob(
            job_id,
            "Roost knows a part of a heterogeneous job by a number of its own, which"
            f" squeue -j {part[1]} -o '%i %A' prints",
        )
    tasks = _tasks(state, job_id) if _NUMBER.fullmatch(job_id) else set[JobId]()
    reported = state.reported_runs.get(JobId(job_id)) if sees_all and not tasks else None
    if reported is not None:
        return UnknownJob(job_id, _hooks_only(job_id, reported, state.clock.now_s()))
    # Not sorted: that takes 20 ms for 15,000 tasks.
    lowest = nsmallest(_NAMED_COUNT, tasks, key=lambda task: (len(task), task))
    if not lowest or not is_visible(lowest[0]):
        return UnknownJob(job_id)
    named = ", ".join(lowest)
    more = f" and {len(tasks) - len(lowest)} more" if len(tasks) > len(lowest) else ""
    return UnknownJob(job_id, f"it is an array; ask for a task of it: {named}{more}")


def _hooks_only(job_id: str, reported: ReportedRun, now_s: float) -> str:
    """Return what is known of a job that came and went between two looks at Slurm's queue."""
    times = (("started", reported.started_s), ("ended", reported.ended_s))
    facts = [f"{what} {now_s - at_s:.0f} s ago" for what, at_s in times if at_s is not None]
    return (
        f"Slurm's hooks report that it {' and '.join(facts)}, and roostd knows no more: it asked"
        " for no GPUs, or Slurm started it by itself before roostd looked at the queue;"
        f" sacct -j {job_id} has the rest"
    )


def _tasks(state: DaemonState, array: str) -> set[JobId]:
    """Return the known tasks of an array."""
    head = f"{array}_"
    # A task that is left to Slurm may be known to the engine too.
    known = chain(
        (job_id for job_id, _ in state.engine.known_jobs(include_ended=True)),
        state.unmanaged,
        state.unmanaged_reasons,
        state.left_queue,
    )
    return {job_id for job_id in known if job_id.startswith(head)}
