"""What the controller's hooks report of jobs, also of jobs that no poll of the queue shows."""

from collections.abc import Iterable

from roost_engine.domain.model import JobId
from roost_slurm.hooks.spool import Ended, SpoolEvent, Started
from roostd.state import DaemonState, ReportedRun


def note_reported(state: DaemonState, events: Iterable[SpoolEvent]) -> None:
    """Store when jobs started and ended, of as many as the engine remembers ended jobs."""
    now_s, kept = state.clock.now_s(), state.reported_runs
    for event in events:
        match event:
            case Started(job_id):
                kept.pop(JobId(job_id), None)
                kept[JobId(job_id)] = ReportedRun(started_s=now_s)
            case Ended(job_id):
                before = kept.pop(JobId(job_id), None)
                started_s = None if before is None else before.started_s
                kept[JobId(job_id)] = ReportedRun(started_s=started_s, ended_s=now_s)
            case _:
                pass
    while len(kept) > state.engine.config.ended_job_count:
        del kept[next(iter(kept))]
