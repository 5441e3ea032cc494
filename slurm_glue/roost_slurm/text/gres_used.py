"""What slurmctld knows of the use of a node's GPUs, from its line of `scontrol -d show nodes`.

slurmctld 22.05 that was restarted knows counts at first, and which GPU is which once the node has
registered, about 4 s later: `GresUsed=gpu:g0:1` becomes `GresUsed=gpu:g0:1(IDX:0)`. The end of a
job that was running opens the node to other jobs before that. slurmctld gives such a job no GPU, or
others than those asked for, and counts GPUs as used after its end until it is reconfigured.
"""

from collections.abc import Mapping

from roost_slurm.text.tres import TresError, allocated_gpus

UNREGISTERED = "unregistered"  # beside the words of Slurm in a node's state


def has_registered(row: Mapping[str, str]) -> bool:
    """Whether slurmctld knows which GPU of a node is which.

    Args:
        row: the values of the node's line.
    """
    used = row.get("GresUsed", "")
    return row.get("SlurmdStartTime") != "None" or "gpu:" not in used or "(IDX:" in used


def is_registering(row: Mapping[str, str]) -> bool:
    """Whether a node is expected to register with a slurmctld that has just started.

    Until then slurmctld, of any release, knows each GPU type of the node and not their sum, and
    refuses jobs that ask for two untyped GPUs of it.

    Args:
        row: the values of the node's line.
    """
    state = row.get("State", "").upper()
    is_awaited = state.startswith(("UNKNOWN", "IDLE", "MIXED", "ALLOC")) and "*" not in state
    return row.get("SlurmdStartTime") == "None" and is_awaited and "POWER" not in state


def used_gpus(row: Mapping[str, str]) -> tuple[int, ...]:
    """Return which GPUs of a node slurmctld counts as used.

    Args:
        row: the values of the node's line.

    Returns:
        Their indices; empty where they cannot be read: that is no reason to do without the node.
    """
    try:
        return allocated_gpus(row.get("GresUsed", ""))
    except TresError:
        return ()
