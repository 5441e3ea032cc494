"""Reports of waits: why a job waits and until when, for its record and for operators."""

from functools import partial
from math import inf

from roost_engine.domain.actions import Action, Exclusions, Wait
from roost_engine.domain.lazy import Lazy
from roost_engine.job_record import JobRecord, capacity_wanted
from roost_engine.placement.candidates import Candidates
from roost_engine.queue.group import Group


def report_wait(
    record: JobRecord, reason: str, until_s: float | None, actions: list[Action]
) -> None:
    """Report why a job waits and until when, unless that was reported already.

    Args:
        record: of the job.
        reason: in words.
        until_s: engine time; None: it is unknown.
        actions: receives the report.
    """
    if (record.reason, record.until_s) != (reason, until_s):
        record.reason, record.until_s = reason, until_s
        excluded = Lazy(partial(_exclusions, record.last_try))
        job_id = record.job_id
        actions.append(Wait(job_id=job_id, reason=reason, until_s=until_s, exclusions=excluded))


def report_capacity(record: JobRecord, failure: Candidates, actions: list[Action]) -> None:
    """Report that a job waits for capacity, and note what its last try found."""
    record.last_try = failure
    if record.standing is not None:
        return
    wanted, until_s = capacity_wanted(record.spec.shapes[0]), record.hand_over_at_s
    if record.spec.fixed_indices:
        wanted = f"waits for GPUs {record.indices_in_words}".rstrip(",")
    elif record.promise is not None:
        wanted, until_s = record.promise.added_to(wanted), record.promise.until_s
    report_wait(record, wanted, until_s, actions)


def report_group(
    record: JobRecord, group: Group, hand_over_s: float, actions: list[Action]
) -> None:
    """Report for one of its jobs why a group waits: for capacity, or for one of Slurm's limits.

    Args:
        record: of the job.
        group: of the job.
        hand_over_s: a job that a limit holds back for so long is released to Slurm.
        actions: receives the report.
    """
    if group.limit:
        until_s = None
        if record.limited_since_s is not None and hand_over_s < inf:
            until_s = record.limited_since_s + hand_over_s
        report_wait(record, f"waits for Slurm's limit {group.limit}", until_s, actions)
    elif group.node_limit:
        record.last_try = group.last_failure
        report_wait(record, f"waits for Slurm's limit {group.node_limit}", None, actions)
    elif group.last_failure is not None:
        report_capacity(record, group.last_failure, actions)


def _exclusions(last_try: Candidates | None) -> Exclusions:
    return () if last_try is None else last_try.exclusions
