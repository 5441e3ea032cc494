"""Writes log lines in a thread, so that no reader and no disk of the log stops the daemon."""

import os
import threading
from collections import deque
from types import TracebackType
from typing import Self, TextIO

import structlog

_log = structlog.get_logger(__name__)

MOST_QUEUED_BYTES = 4 << 20  # some 20,000 lines, as of a start with 20,000 waiting jobs
_RETRY_S = 1.0
_CLOSE_S = 2.0
_WRITE_BYTES = 1 << 16  # what a pipe takes at once


class LogLines:
    """A text stream for a logger; `write` neither waits nor raises.

    A file on a full disk, a pipe that is not read and a reader that is gone keep the lines queued;
    the thread tries again every second. Lines beyond MOST_QUEUED_BYTES are dropped, and once the
    stream takes lines again `log_lines_dropped` says how many.

    Args:
        stream: where the lines go; None: nowhere, as where a program was started without one.

    Attributes:
        dropped_count: lines that were dropped since the start.
    """

    def __init__(self, stream: TextIO | None) -> None:
        self.dropped_count = 0
        self._unreported_count = 0
        self._descriptor = None if stream is None else stream.fileno()
        self._queue: deque[bytes] = deque()
        self._queued_bytes = 0
        self._is_closing = False
        self._changed = threading.Condition()
        self._thread = threading.Thread(target=self._run, name="log", daemon=True)

    def __enter__(self) -> Self:
        if self._descriptor is not None:
            self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Wait until all is written, 2 s at most."""
        with self._changed:
            self._is_closing = True
            self._changed.notify()
        if self._descriptor is not None:
            self._thread.join(_CLOSE_S)

    def write(self, text: str) -> int:
        """Queue a text, or drop it where too much is queued. Returns its length."""
        line = text.encode("utf-8", "backslashreplace")
        with self._changed:
            if self._descriptor is None:
                return len(text)
            if self._queued_bytes + len(line) > MOST_QUEUED_BYTES:
                self.dropped_count += 1
                self._unreported_count += 1
                return len(text)
            self._queue.append(line)
            self._queued_bytes += len(line)
            self._changed.notify()
        return len(text)

    def flush(self) -> None:
        """Do nothing: the thread writes as soon as it can."""

    def _run(self) -> None:
        while batch := self._next_batch():
            rest = memoryview(batch)
            while rest:
                rest = rest[self._written(rest) :]
            self._report_dropped()

    def _next_batch(self) -> bytes:
        """Wait for lines and take them; none: the stream is closed."""
        with self._changed:
            self._changed.wait_for(lambda: self._queue or self._is_closing)
            taken = bytearray()
            while self._queue and len(taken) < _WRITE_BYTES:
                taken += self._queue.popleft()
            self._queued_bytes -= len(taken)
            return bytes(taken)

    def _written(self, rest: memoryview) -> int:
        """Write what the stream takes; return the bytes, 0 after a pause if it takes none."""
        assert self._descriptor is not None
        try:
            return os.write(self._descriptor, rest)
        except OSError:
            with self._changed:
                self._changed.wait_for(lambda: self._is_closing, _RETRY_S)
                if self._is_closing:  # nothing more can be done
                    return len(rest)
            return 0

    def _report_dropped(self) -> None:
        with self._changed:
            count, self._unreported_count = self._unreported_count, 0
        if count:
            _log.warning("log_lines_dropped", count=count)
