"""What slurmctld knows of the use of a node's GPUs, from its line of `scontrol -d show nodes`.

slurmctld 22.05 that was restarted knows counts at first, and which GPU is which once the node has
registered, about 4 s later: `GresUsed=gpu:g0:1` becomes `GresUsed=gpu:g0:1(IDX:0)`. The end of a
job that was running opens the node to other jobs before that. slurmctld gives such a job no GPU, or
others than those asked for, and counts GPUs as used after its end until it is reconfigured.
"""

import re
from collections.abc import Collection, Mapping

from roost_slurm.text.tres import TresError, allocated_gpus

UNREGISTERED = "unregistered"  # beside the words of Slurm in a node's state
_SOME = re.compile(r"\(IDX:\d")


def has_registered(row: Mapping[str, str]) -> bool:
    """Whether slurmctld knows which GPU of a node is which.

    Args:
        row: the values of the node's line.
    """
    used = row.get("GresUsed", "")
    return row.get("SlurmdStartTime") != "None" or "gpu:" not in used or "(IDX:" in used


def stranded_gpu_count(row: Mapping[str, str], flags: Collection[str]) -> int:
    """Return how many GPUs slurmctld counts as used on a node where no job has a CPU.

    A suspended job keeps its GPUs, and has no CPU: the caller knows whether there is one.

    Args:
        row: the values of the node's line.
        flags: of its state: {"IDLE", "DRAIN"}.

    Returns:
        The number; 0 where the indices cannot be read: that is no reason to do without the node.
    """
    used = row.get("GresUsed", "")
    is_idle = row.get("CPUAlloc") == "0" and "IDLE" in flags and "COMPLETING" not in flags
    try:
        return len(allocated_gpus(used)) if is_idle and _SOME.search(used) else 0
    except TresError:
        return 0
