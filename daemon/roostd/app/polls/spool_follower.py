"""Follows the spool, into which job_submit.lua and the controller's hooks write: polls come soon.

A task of its own reads it; see the daemon's tasks in docs/architecture.md.
"""

from pathlib import Path

import structlog

from roost_slurm.hooks.spool import SpoolReader
from roostd.app.polls.awaited_changes import AwaitedChanges
from roostd.app.polls.reported_jobs import note_reported
from roostd.slurm.spool_watch import FolderWatch
from roostd.state import DaemonState

_log = structlog.get_logger(__name__)

SPOOL_FILE = "events"


class SpoolFollower:
    """See the module.

    Args:
        folder: of the spool.
        state: receives when jobs started and ended, as the hooks report it.
        awaited: schedules the polls.
    """

    def __init__(self, folder: Path, state: DaemonState, awaited: AwaitedChanges) -> None:
        self._folder, self._state, self._awaited = folder, state, awaited
        self._spool = SpoolReader(folder / SPOOL_FILE)

    async def run(self) -> None:
        """Read new lines until cancelled.

        Raises:
            RoostError: the kernel does not let the folder be watched.
        """
        folder = FolderWatch(self._folder)
        try:
            while True:
                await folder.changed.wait()
                folder.changed.clear()
                self._read()
        finally:
            folder.close()

    def _read(self) -> None:
        try:
            drained = self._spool.drain()
        except OSError as error:  # another owner's file, or none: the safety poll continues
            _log.warning("spool_unreadable", error=str(error))
            return
        if drained.refused_count:
            _log.warning("spool_lines_refused", count=drained.refused_count)
        self._awaited.note(drained.events)
        note_reported(self._state, drained.events)
