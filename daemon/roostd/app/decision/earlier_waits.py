"""Waits that outlive an engine: a fresh engine continues each of them where it stood.

The runs from which a job came back into the queue go with its wait.

A reload and a new run of the journal take them from the engine before, a start of the daemon from
the journal. There, a job of which the journal has nothing counts from its submission.
"""

from collections.abc import Sequence
from dataclasses import replace

import structlog

from roost_engine.domain.actions import Action, ReleaseToSlurm, Wait
from roost_engine.domain.errors import JournalError
from roost_engine.domain.events import (
    Event,
    JobChanged,
    JobEnded,
    JobQueued,
    JobStarted,
    JobWithdrawn,
    WaitSoFar,
)
from roost_engine.domain.model import JobId
from roost_engine.engine import Engine
from roost_engine.job_record import JobState
from roost_formats.journal.journal import Journal
from roost_formats.journal.waits import WaitChange
from roostd.state import DaemonState

_log = structlog.get_logger(__name__)

_ROUNDING_S = 1.0  # Slurm gives submission times in whole seconds


def read_waits(journal: Journal | None) -> dict[JobId, WaitSoFar]:
    """Return the waits that the journal has; none where it cannot be read."""
    try:
        return {} if journal is None else dict(journal.waits())
    except JournalError as error:
        _log.warning("waits_lost", error=str(error))
        return {}


def keep_waits(state: DaemonState) -> None:
    """Keep the record of each job that waits, starts or runs, for the engine that comes next.

    To make the waits of 20,000 jobs at once, and to free their records at once, holds the event
    loop for 40 ms. So each wait is made, and its record freed, with the event that tells the new
    engine of the job.
    """
    # Those of the engine before the one that is replaced now, which had no event of these jobs.
    for job_id, record in state.earlier_records.items():
        state.earlier_waits[job_id] = record.wait
    state.earlier_records = {
        job_id: record
        for job_id, record in state.engine.records()
        if record.state is not JobState.RELEASED
    }


def _take_wait(state: DaemonState, job_id: JobId) -> WaitSoFar | None:
    """Return a job's wait that began before the present engine, and forget it; None: no such."""
    wait, record = state.earlier_waits.pop(job_id, None), state.earlier_records.pop(job_id, None)
    return wait if record is None else record.wait


def changed_waits(
    event: Event, actions: Sequence[Action], engine: Engine
) -> tuple[WaitChange, ...]:
    """Return the waits that a step has changed: what the journal must have for the next daemon."""
    waiting = [action.job_id for action in actions if isinstance(action, Wait)]
    left = [action.job_id for action in actions if isinstance(action, ReleaseToSlurm)]
    if isinstance(event, JobQueued | JobChanged):
        waiting.append(event.job.job_id)
    elif isinstance(event, JobEnded | JobWithdrawn):
        left.append(event.job_id)
    changes: dict[JobId, WaitSoFar | None] = {
        job_id: engine.record(job_id).wait for job_id in waiting
    }
    return tuple((changes | dict.fromkeys(left)).items())


def since_submission(event: Event) -> Event:
    """Let a job that a daemon finds waiting at its start count from its submission."""
    if isinstance(event, JobQueued):
        return replace(event, wait=WaitSoFar(since_s=event.job.submit_s))
    return event


def continued(event: Event, state: DaemonState) -> Event:
    """Return an event with the wait of its job, if the wait began before the present engine.

    Each wait is continued once: what follows is the present engine's knowledge.
    """
    match event:
        case JobQueued():
            return _continued(event, _take_wait(state, event.job.job_id), state)
        case JobStarted():
            wait = _take_wait(state, event.job_id)
            if wait is not None and event.job is not None and event.since_s is not None:
                queued_s = min(wait.since_s, event.since_s)
                return replace(event, queued_s=queued_s, runs=wait.runs)
        case JobEnded() | JobWithdrawn():
            _take_wait(state, event.job_id)
    return event


def _continued(event: JobQueued, known: WaitSoFar | None, state: DaemonState) -> JobQueued:
    job = event.job
    if known is not None and known.since_s + _ROUNDING_S < job.submit_s <= event.at_s:
        known = None  # Slurm has requeued the job since, or given its number to another job
    wait = known or event.wait
    if wait is None:
        return event
    is_pause = state.settle_until_s.get(job.job_id) == job.eligible_s
    if job.eligible_s and job.eligible_s > wait.since_s and not is_pause:
        wait = replace(wait, since_s=job.eligible_s)  # its user wants it to begin later
    return replace(event, wait=wait)
