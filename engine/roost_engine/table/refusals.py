"""Placements that come to nothing: Slurm refused them, or the job cannot start there any more."""

from collections.abc import Iterable

from roost_engine.domain.actions import Action
from roost_engine.domain.model import JobId
from roost_engine.job_record import JobRecord, JobState
from roost_engine.table.job_table import MAX_BACKOFF_S, JobTable
from roost_engine.table.wait_reports import report_wait


def refuse(table: JobTable, job_id: JobId, reason: str, at_s: float, actions: list[Action]) -> None:
    """Let a placed job wait again; after too many refusals release it to Slurm."""
    record, config = table.jobs.get(job_id), table.config
    is_standing = record is not None and record.standing is not None
    if record is None or not (record.state is JobState.PLACING or is_standing):
        return
    table.refused_count += 1
    _take_back(table, record)
    record.refusal_count += 1
    if record.refusal_count >= config.refusal_limit:
        refusals = f"Slurm refused {record.refusal_count} placements, the last: {reason}"
        table.release_to_slurm(job_id, record, refusals, at_s, actions)
        return
    pause_s = config.refusal_backoff_s * 2 ** (record.refusal_count - 1)
    record.state = JobState.WAITING
    record.not_before_s = at_s + min(pause_s, MAX_BACKOFF_S)
    table.limit_fixed(record, at_s)
    table.waiting[job_id] = None
    table.alarm(record.not_before_s, job_id)
    report_wait(record, f"pauses after a refusal: {reason}", record.not_before_s, actions)


def place_again(
    table: JobTable, job_ids: Iterable[JobId], reason: str, at_s: float, actions: list[Action]
) -> None:
    """Let placed jobs wait again that cannot start.

    They do not pause: Slurm has not refused them.
    """
    for job_id in job_ids:
        _take_back(table, record := table.jobs[job_id])
        record.state = JobState.WAITING
        table.limit_fixed(record, at_s)
        table.waiting[job_id] = None
        table.queue.add(record, at_s)
        report_wait(record, reason, None, actions)


def _take_back(table: JobTable, record: JobRecord) -> None:
    """Withdraw the placement or the pin of a job."""
    table.cluster.release(record.job_id)
    table.unqueue(record.job_id)
    record.replace_pins()
    record.guess = None
