"""Errors of the simulator.

    RoostError
    └── SimError           the root of these
        ├── TraceError     a trace cannot be used; carries file, line and reason
        ├── ClusterError   a cluster cannot be used; carries every problem
        ├── ProfileError   no speed profile fits
        └── PairsError     a table of measured pairs cannot be used

All of these are caused by a user's files, so each message says where, and what would be right.
"""

from collections.abc import Sequence
from pathlib import Path

from roost_engine.domain.errors import RoostError


class SimError(RoostError):
    """The root of the simulator's errors; the program prints one line for it."""


class TraceError(SimError):
    """A trace cannot be used.

    Attributes:
        source: the file.
        line: counted from 1; None: the file as a whole.
        reason: what is wrong with it.
    """

    def __init__(self, source: str, line: int | None, reason: str) -> None:
        where = source if line is None else f"{source}:{line}"
        super().__init__(f"{where}: {reason}")
        self.source, self.line, self.reason = source, line, reason


class ClusterError(SimError):
    """A cluster description cannot be used; the error has every problem."""

    def __init__(self, problems: Sequence[str]) -> None:
        super().__init__("; ".join(problems))
        self.problems = tuple(problems)


class PairsError(SimError):
    """A table of measured pairs cannot be used; names file, line and what would be right."""

    def __init__(self, path: Path, line: int | None, reason: str) -> None:
        super().__init__(f"{path}: {reason}" if line is None else f"{path}:{line}: {reason}")


class ProfileError(SimError):
    """No speed profile fits the request."""
