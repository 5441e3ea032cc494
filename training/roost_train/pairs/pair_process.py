"""A training program that is measured: its steps by the clock, stopped and continued by signals.

The program says on its output how many steps it has done. It needs no change for that, where its
lines have the word step with the number behind it: `step 400`, `Steps: 400`, `epoch 2 step=400`.
"""

import contextlib
import os
import re
import signal
import subprocess
import threading
import time
from collections import deque
from dataclasses import dataclass

from roost_train.errors import TrainError

STEP_PATTERN = r"(?i)\bsteps?\b[^\d\n]{0,3}(\d+)"
_LINE_END = re.compile(rb"[\r\n]+")
_LAST_LINES = 5
_LONGEST_LINE_BYTES = 1 << 16
_KILL_S = 10.0


@dataclass(frozen=True, slots=True)
class Mark:
    """The program had done so many steps when its line was read.

    Attributes:
        at_s: by time.monotonic.
        steps: since its start.
    """

    at_s: float
    steps: int


class ProgramEnded(TrainError):
    """A program that is measured ended by itself, or does not start to train."""

    def __init__(self, name: str, why: str, last_lines: str) -> None:
        super().__init__(f"{name}: {why}; its last lines:\n{last_lines}")
        self.name = name


class TrainingProcess:
    """One program with its children, which it may stop and continue as one.

    Args:
        name: of the model that it trains.
        command: for `/bin/sh -c`.
        pattern: a regular expression; its first group is the number of steps.
    """

    def __init__(self, name: str, command: str, pattern: str = STEP_PATTERN) -> None:
        self.name = name
        self._pattern = re.compile(pattern)
        self._marks, self._lines = list[Mark](), deque[str](maxlen=_LAST_LINES)
        self.first_line = ""
        self._process = subprocess.Popen(
            ["/bin/sh", "-c", command],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,  # a group of its own, which signals reach as a whole
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def marks(self, since_s: float) -> list[Mark]:
        """Return what was read at this time or later, oldest first."""
        marks = self._marks
        first = len(marks)
        while first and marks[first - 1].at_s >= since_s:
            first -= 1
        return marks[first:]

    def wait_until_training(self, timeout_s: float) -> None:
        """Wait for two lines with different steps: the program is warm.

        Raises:
            ProgramEnded: it ended, or there are none in time.
        """
        end_s = time.monotonic() + timeout_s
        while not self._marks or self._marks[-1].steps <= self._marks[0].steps:
            self.check()
            if time.monotonic() > end_s:
                why = f"no line with a number of steps within {timeout_s:g} s"
                raise ProgramEnded(self.name, why, "\n".join(self._lines))
            time.sleep(0.01)

    def check(self) -> None:
        """Do nothing while the program runs.

        Raises:
            ProgramEnded: it does not.
        """
        if (code := self._process.poll()) is not None:
            self._reader.join(1.0)
            raise ProgramEnded(self.name, f"ended with {code}", "\n".join(self._lines))

    def stop(self) -> None:
        """Stop it, as the shell does on Ctrl-Z: it keeps its memory and does nothing."""
        self._signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Continue it."""
        self._signal(signal.SIGCONT)

    def end(self) -> None:
        """End it and its children."""
        self._signal(signal.SIGTERM)
        self._signal(signal.SIGCONT)  # one that is stopped hears no other signal
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(_KILL_S)
        self._signal(signal.SIGKILL)
        self._process.wait()
        self._reader.join(1.0)
        if self._process.stdout is not None and not self._reader.is_alive():
            self._process.stdout.close()

    def _signal(self, number: signal.Signals) -> None:
        try:
            os.killpg(self._process.pid, number)
        except ProcessLookupError:
            return  # it has ended, which `check` says

    def _read(self) -> None:
        assert self._process.stdout is not None
        rest = b""
        while chunk := os.read(self._process.stdout.fileno(), 1 << 16):
            at_s = time.monotonic()
            *lines, rest = _LINE_END.split(rest + chunk)
            rest = rest[-_LONGEST_LINE_BYTES:]
            for line in lines:
                self._note(line.decode(errors="replace"), at_s)

    def _note(self, line: str, at_s: float) -> None:
        if line.strip():
            self.first_line = self.first_line or line
            self._lines.append(line)
        if (found := self._pattern.search(line)) is not None:
            self._marks.append(Mark(at_s, int(found.group(1))))
