"""Starts the program `roostctl`: its imports take long, and Ctrl-C ends them quietly."""

import sys
from collections.abc import Callable

from roost_slurm.program import run_program


def main() -> None:
    """Entry point of the console script."""
    sys.exit(run_program(_load))


def _load() -> Callable[[], None]:
    from roostctl.main import main as run  # here, so that `run_program` is there before it

    return run


if __name__ == "__main__":
    main()
