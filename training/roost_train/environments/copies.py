"""Copies of a simulation, to see what each of some decisions would have come to.

The engine is far too much state to copy piece by piece, and a copy that shares any piece with the
original would be wrong without a sign. So the process is forked: the operating system copies all
of it, the copy continues until its horizon, writes one number into a pipe and ends. The original
has not moved. Only the thread that forks continues in the copy.
"""

import os
import signal
import struct
import warnings
from dataclasses import dataclass
from typing import BinaryIO, NoReturn

import numpy as np
from numpy.typing import NDArray

from roost_train.errors import TrainError

_OUTCOME = struct.Struct("<d")
_MOST_TEXT = 2_000  # characters of a copy's error


@dataclass(slots=True)
class Copy:
    """A copy, as the original sees it."""

    pid: int
    pipe: BinaryIO
    is_over: bool = False

    def outcome(self) -> float:
        """Wait for the copy and return what it found.

        Raises:
            TrainError: it failed.
        """
        with self.pipe:
            content = self.pipe.read()
        _, status = os.waitpid(self.pid, 0)
        self.is_over = True
        if status or len(content) != _OUTCOME.size:
            reason = content.decode(errors="replace") or f"its process ended with status {status}"
            raise TrainError(f"a simulation that was run ahead failed: {reason}")
        return float(_OUTCOME.unpack(content)[0])

    def end(self) -> None:
        """Stop the copy if it still runs."""
        self.pipe.close()
        if not self.is_over:
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)


@dataclass(frozen=True, slots=True)
class Report:
    """What a copy has of its original: where to write. It must end by one of these calls."""

    pipe: int

    def outcome(self, value: float) -> NoReturn:
        """Write what was found, and end the process without the original's cleanup."""
        self._end(_OUTCOME.pack(value), 0)

    def failure(self, error: BaseException) -> NoReturn:
        """Write what went wrong, and end the process without the original's cleanup."""
        self._end(f"{type(error).__name__}: {error}".encode()[:_MOST_TEXT], 1)

    def _end(self, content: bytes, exit_code: int) -> NoReturn:
        try:
            os.write(self.pipe, content)
        finally:
            os._exit(exit_code)


def run_copies(count: int) -> tuple[int, Report] | NDArray[np.float64]:
    """Fork the process so many times, and wait for the copies.

    Returns:
        In each copy its number, from 0, and its Report. In the original what each copy has found.

    Raises:
        TrainError: a copy failed; none is left behind.
        OSError: there are too many processes.
    """
    copies = list[Copy]()
    try:
        while len(copies) < count:
            found = _split()
            if isinstance(found, Report):
                return len(copies), found
            copies.append(found)
        return np.array([one.outcome() for one in copies])
    except BaseException:
        for one in copies:
            one.end()
        raise


def _split() -> Copy | Report:
    """Fork the process: returns the Copy in the original, and a Report in the copy."""
    ours, theirs = os.pipe()
    with warnings.catch_warnings():
        # Python 3.12 warns of the idle threads of numpy's linear algebra; the copy needs none.
        warnings.simplefilter("ignore", DeprecationWarning)
        pid = os.fork()
    if not pid:
        os.close(ours)
        return Report(theirs)
    os.close(theirs)
    return Copy(pid, os.fdopen(ours, "rb"))
