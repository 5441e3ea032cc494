"""Keeps what was learned of neighbours across restarts, in a file of the state folder.

The file is written every five minutes in which a job reported, and when the daemon stops. One that
is damaged is left behind: learning begins empty, the log and `roostctl interference` say so.
"""

from pathlib import Path
from threading import Thread

from roostd.ops.state_file import StateFile
from roostd.state import DaemonState
from roostd.telemetry.interference_file import (
    MOST_BYTES,
    Learned,
    read_learned,
    text_of,
)

_STORE_EVERY_S = 300.0


class InterferenceKeeper:
    """See the module.

    Args:
        state: has the clock and the progress of jobs.
        path: where what it learned is stored.
    """

    def __init__(self, state: DaemonState, path: Path) -> None:
        self._state, self._file = state, StateFile(path, "interference", MOST_BYTES)
        self._stored_s, self._writer = state.clock.now_s(), Thread()
        state.progress.restore(self._file.read(read_learned) or Learned())
        if self._file.fault:
            state.progress.fault = f"{self._file.fault}; learning began again"
        self._stored_count = state.progress.report_count

    def poll(self) -> None:
        """Store what was learned if that is due. To be called about once a second.

        A full table takes 0.1 s to write as text: a thread does that, from a copy.
        """
        if self._state.clock.now_s() - self._stored_s < _STORE_EVERY_S:
            return
        self._stored_s, tracker = self._state.clock.now_s(), self._state.progress
        if tracker.report_count != self._stored_count and not self._writer.is_alive():
            self._writer = Thread(
                target=self._write, args=(tracker.learned(), tracker.report_count)
            )
            self._writer.start()

    def store(self) -> None:
        """Store what was learned if it has changed, and return once that is done."""
        if self._writer.is_alive():
            self._writer.join()
        tracker = self._state.progress
        if tracker.report_count != self._stored_count:
            self._write(tracker.learned(), tracker.report_count)

    def _write(self, learned: Learned, report_count: int) -> None:
        """Write the file; the tracker has the reason if that fails."""
        if self._file.write(text_of(learned)):
            self._stored_count = report_count
        self._state.progress.fault = self._file.fault
