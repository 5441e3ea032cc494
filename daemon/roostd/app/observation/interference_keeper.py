"""Keeps what was learned of neighbours across restarts, in a file of the state folder.

The file is written every five minutes in which a job reported, and when the daemon stops. One that
is damaged is left behind: learning begins empty, the log and `roostctl interference` say so.
"""

from pathlib import Path
from threading import Thread

import structlog

from roostd.ops.files import FileTooLarge, read_bounded
from roostd.state import DaemonState
from roostd.telemetry.interference_file import (
    MOST_BYTES,
    InterferenceFileError,
    Learned,
    read_learned,
    text_of,
)

_log = structlog.get_logger(__name__)

_STORE_EVERY_S = 300.0


class InterferenceKeeper:
    """See the module.

    Args:
        state: has the clock and the progress of jobs.
        path: where what it learned is stored.
    """

    def __init__(self, state: DaemonState, path: Path) -> None:
        self._state, self._path = state, path
        self._stored_s, self._writer = state.clock.now_s(), Thread()
        state.progress.restore(self._read())
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
        tracker, new = self._state.progress, self._path.with_suffix(".new")
        try:
            new.write_text(text_of(learned), encoding="utf-8")
            new.replace(self._path)
        except OSError as error:
            tracker.fault = f"{self._path}: {error.strerror}"
            _log.error("interference_not_stored", path=str(self._path), error=str(error))
        else:
            self._stored_count, tracker.fault = report_count, ""

    def _read(self) -> Learned:
        try:
            return read_learned(read_bounded(self._path, MOST_BYTES))
        except FileNotFoundError:
            return Learned()
        except (OSError, UnicodeDecodeError, FileTooLarge, InterferenceFileError) as error:
            self._state.progress.fault = f"{self._path}: {error}; learning began again"
            _log.error("interference_not_read", path=str(self._path), error=str(error))
            return Learned()
