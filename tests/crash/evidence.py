"""What a crash test keeps of a problem: the logs of all parts, and what Slurm knows of its GPUs."""

import shutil
import tempfile
from collections.abc import Iterable
from pathlib import Path

_SHOWN = ("NodeName=", "State=", "Gres=", "GresUsed=")


def keep_logs(folders: Iterable[Path]) -> Path:
    """Copy the logs in some folders into a new one, which outlives the run, and return that."""
    kept = Path(tempfile.mkdtemp(prefix="roost-crash-"))
    for folder in folders:
        for log in folder.glob("*.log"):
            shutil.copy(log, kept)
    return kept


def gpus_of_nodes(shown: str) -> list[str]:
    """Return the state and the GPUs of each node.

    GresUsed tells which GPUs slurmctld takes for used; see roost_slurm.text.gres_used.

    Args:
        shown: what `scontrol -d -o show nodes` printed.
    """
    return [
        " ".join(word for word in line.split() if word.startswith(_SHOWN))
        for line in shown.splitlines()
        if line.strip()
    ]
