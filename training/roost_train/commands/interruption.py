"""How a training that can be continued ends at Ctrl-C: one line, and the exit code of shells."""

import sys
from pathlib import Path

from roost_slurm.program import EXIT_INTERRUPTED


def stopped(folder: Path) -> int:
    """Say how to continue. Returns the exit code.

    Args:
        folder: has what is done so far.
    """
    print(f"roost-train: stopped; the same command continues in {folder}", file=sys.stderr)
    return EXIT_INTERRUPTED
