"""Slurm's reasons why a job waits, sorted by what ends the wait. Pure."""

import re
from enum import StrEnum


class ReasonClass(StrEnum):
    """What ends a wait.

    LIMIT: the end of other jobs or an administrator: a quota, licenses, the state of a partition.
    NODES: nodes that come back: down, drained, or kept by a reservation.
    RESOURCES: nothing but free resources or the job's turn: it would run.
    USER: the job's user, or time: a hold, a dependency, a begin time, a request that never fits.
    """

    LIMIT = "limit"
    NODES = "nodes"
    RESOURCES = "resources"
    USER = "user"


# In order: the first match counts. squeue and scontrol write a detail behind some reasons, after a
# comma or a blank, and scontrol writes underscores for blanks. 22.05 to 26.05.
_PATTERNS: tuple[tuple[ReasonClass, re.Pattern[str]], ...] = (
    (
        ReasonClass.NODES,
        re.compile(
            r"ReqNodeNotAvail|Nodes_required_for_job_are_DOWN|Reservation(?!Deleted)|NodeDown"
            r"|FrontEndDown|Power(?:NotAvail|Reserved)"
        ),
    ),
    (
        ReasonClass.LIMIT,
        re.compile(
            r"QOS|Assoc|Max\w+Per(?:Account|User)|Licenses|Partition|JobArrayTaskLimit|AccountNotAllowed"
            r"|InvalidAccount|InvalidQOS|AccountingPolicy|BurstBuffer|MaxMemPerLimit"
            r"|InactiveLimit|TimeLimit|MaxPoweredUpNodes"
        ),
    ),
    (
        ReasonClass.USER,
        re.compile(
            r"JobHeld|BeginTime|Dependency|BadConstraints|DeadLine|Deadline|ReservationDeleted"
            r"|[Jj]ob(?:HoldMaxRequeue|_requeued_in_held_state|HeldUser)|launch_failed"
            r"|JobLaunchFailure|Origin|RemoteClusterHasLock|SchedDefer"
        ),
    ),
)


def reason_class(reason: str) -> ReasonClass:
    """Return what ends the wait of a job with this reason, as squeue or scontrol prints it.

    Unknown reasons, and none at all, count as RESOURCES: Slurm may start the job any time.
    """
    text = reason.strip("()").replace(" ", "_")
    found = (kind for kind, pattern in _PATTERNS if pattern.match(text))
    return next(found, ReasonClass.RESOURCES)
