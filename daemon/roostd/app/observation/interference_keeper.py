"""Keeps what was learned of neighbours across restarts, in a file of the state folder.

The file is written every five minutes in which speeds were observed, and when the daemon stops. One
that is damaged is left behind: learning begins empty, the log and `roostctl interference` say so.
"""

from pathlib import Path
from threading import Thread

from roostd.ops.clock import Clock
from roostd.ops.state_file import StateFile
from roostd.telemetry.interference_file import (
    MOST_BYTES,
    Learned,
    read_learned,
    text_of,
)
from roostd.telemetry.speed_source import SpeedSource

_STORE_EVERY_S = 300.0


class InterferenceKeeper:
    """See the module.

    Args:
        clock: for the time of the next writing.
        source: what learns.
        path: where what it learned is stored.
    """

    def __init__(self, clock: Clock, source: SpeedSource, path: Path) -> None:
        self._clock, self._source = clock, source
        self._file = StateFile(path, "interference", MOST_BYTES)
        self._stored_s, self._writer = clock.now_s(), Thread()
        source.restore(self._file.read(read_learned) or Learned())
        if self._file.fault:
            source.fault = f"{self._file.fault}; learning began again"
        self._stored_count = source.report_count

    def poll(self) -> None:
        """Store what was learned if that is due. To be called about once a second.

        A full table takes 0.1 s to write as text: a thread does that, from a copy.
        """
        if self._clock.now_s() - self._stored_s < _STORE_EVERY_S:
            return
        self._stored_s, source = self._clock.now_s(), self._source
        if source.report_count != self._stored_count and not self._writer.is_alive():
            self._writer = Thread(target=self._write, args=(source.learned(), source.report_count))
            self._writer.start()

    def store(self) -> None:
        """Store what was learned if it has changed, and return once that is done."""
        if self._writer.is_alive():
            self._writer.join()
        source = self._source
        if source.report_count != self._stored_count:
            self._write(source.learned(), source.report_count)

    def _write(self, learned: Learned, report_count: int) -> None:
        """Write the file; the source has the reason if that fails."""
        if self._file.write(text_of(learned)):
            self._stored_count = report_count
        self._source.fault = self._file.fault
