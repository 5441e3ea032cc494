"""Follows the spool, into which job_submit.lua and the controller's hooks write: polls come soon.

A task of its own reads it; see the daemon's tasks in docs/architecture.md.
"""

import asyncio
import time
from collections.abc import Iterable
from pathlib import Path

import structlog

from roost_engine.domain.errors import RoostError
from roost_engine.domain.model import JobId
from roost_slurm.hooks.spool import Ended, SpoolEvent, SpoolReader, Started
from roostd.app.polls.awaited_changes import AwaitedChanges
from roostd.slurm.spool_watch import FolderWatch
from roostd.state import DaemonState, ReportedRun

_log = structlog.get_logger(__name__)

SPOOL_FILE = "events"
READ_EVERY_S, WATCH_AGAIN_S = 1.0, 60.0
_WATCH_CURE = "raise fs.inotify.max_user_instances; until then the spool is read every second"


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
        """Read new lines until cancelled, by the clock where the kernel watches no more folders."""
        is_watched = True
        while True:
            try:
                folder = FolderWatch(self._folder)
            except RoostError as error:
                if is_watched:
                    _log.error("spool_not_watched", error=str(error), cure=_WATCH_CURE)
                is_watched = False
                await self._read_by_clock()
            else:
                await self._follow(folder)

    async def _follow(self, folder: FolderWatch) -> None:
        try:
            while True:
                await folder.changed.wait()
                folder.changed.clear()
                self._read()
        finally:
            folder.close()

    async def _read_by_clock(self) -> None:
        """Read every READ_EVERY_S, until it is time to try to watch the folder again."""
        again_s = time.monotonic() + WATCH_AGAIN_S
        while time.monotonic() < again_s:
            await asyncio.sleep(READ_EVERY_S)
            self._read()

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


def note_reported(state: DaemonState, events: Iterable[SpoolEvent]) -> None:
    """Store when jobs started and ended, of as many as the engine remembers ended jobs."""
    now_s, kept = state.clock.now_s(), state.reported_runs
    for event in events:
        match event:
            case Started(job_id):
                kept.pop(JobId(job_id), None)
                kept[JobId(job_id)] = ReportedRun(started_s=now_s)
            case Ended(job_id):
                before = kept.pop(JobId(job_id), None)
                started_s = None if before is None else before.started_s
                kept[JobId(job_id)] = ReportedRun(started_s=started_s, ended_s=now_s)
            case _:
                pass
    while len(kept) > state.engine.config.ended_job_count:
        del kept[next(iter(kept))]
