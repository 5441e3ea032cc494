"""Faults of a Slurm in memory: what goes wrong with its next calls."""

from collections import deque
from enum import Enum

from roost_engine.domain.errors import SlurmRefused, SlurmTimeout
from roost_slurm.text.commands import Argv


class Fault(Enum):
    """The fault of one call."""

    REFUSED = "Slurm refuses, and nothing happens"
    LOST_BEFORE = "no answer, and nothing happened"
    LOST_AFTER = "no answer, but it happened"


class Faults:
    """The faults of the next calls, in turn."""

    def __init__(self) -> None:
        self._next: deque[tuple[str, Fault]] = deque()

    def add(self, operation: str, *faults: Fault) -> None:
        """Make the next calls of an operation fail, in turn."""
        self._next.extend((operation, fault) for fault in faults)

    def meet(self, operation: str, argv: Argv) -> bool:
        """Return whether the answer to a call gets lost, if its fault is not to raise.

        Raises:
            SlurmRefused, SlurmTimeout: the call's fault; nothing happens.
        """
        if not self._next or self._next[0][0] != operation:
            return False
        fault = self._next.popleft()[1]
        if fault is Fault.REFUSED:
            raise SlurmRefused(argv, 1, "injected refusal")
        if fault is Fault.LOST_BEFORE:
            raise SlurmTimeout(argv, 0.0)
        return True
