"""Writes the journal in a thread, so that the decision loop does not wait for the disk."""

import asyncio
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import structlog

from roost_engine.domain.actions import Action, Place
from roost_engine.domain.errors import JournalError
from roost_engine.domain.events import Event
from roost_engine.domain.model import JobId
from roost_formats.journal.database import DamagedJournal
from roost_formats.journal.journal import Journal
from roost_formats.journal.past_jobs import PastJob
from roost_formats.journal.records import Memo, Record, RunHead, Step, TableKey
from roost_formats.journal.shadow import ShadowChoice
from roost_formats.journal.waits import WaitChange

_log = structlog.get_logger(__name__)
_T = TypeVar("_T")

_BACKLOG_LIMIT = 100_000  # records; a disk that hangs must not exhaust the daemon's memory
_RETRY_S = 30.0
_PRUNE_EVERY_S = 600.0
_MOST_RUN_LIMITS = 2  # two such runs are what the journal may have
_RUN_AGE_S = 86_400.0


class Recorder:
    """Queues records without waiting, and writes them in order in a thread of its own.

    A disk that fails stops neither placement nor a start: the recorder drops the records, gives
    the reason in `fault`, tries again every half minute, and asks for a new run once the disk
    works: a run with a gap could not be replayed.

    Args:
        journal: where to write; only the recorder may use it from now on. None: there is no
            journal yet.
        run_bytes_limit: once a run is larger, `wants_new_run` is true.
        retry_s: between two attempts on a disk that failed.
        fault: why the journal cannot be written at the start; empty when it can.
        reopen: opens the journal again, after a start with a fault and when the file proves to be
            damaged; its argument is that damage, "" for none. None: the journal is never reopened.

    Attributes:
        fault: why the journal is not written at present; empty when it is.
        dropped_count: records that were not written.
        tear_count: how often records were dropped since the start.
    """

    def __init__(
        self,
        journal: Journal | None,
        run_bytes_limit: int = 256 << 20,
        retry_s: float = _RETRY_S,
        *,
        fault: str = "",
        reopen: Callable[[str], Journal] | None = None,
    ) -> None:
        self._journal, self._run_bytes_limit, self._retry_s = journal, run_bytes_limit, retry_s
        self._reopen, self._must_reopen, self._damage = reopen, bool(fault), ""
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="journal")
        self._pending: list[Record] = []
        self._wake, self._progress = asyncio.Event(), asyncio.Condition()
        self._taken_count = self._written_count = self._writing_count = 0
        self._run_began_s = time.monotonic()
        self._prune_due_s = self._run_began_s + _PRUNE_EVERY_S
        self._is_torn, self._is_closing = bool(fault), False
        self._needs_probe = False
        self.fault = fault
        self.dropped_count = 0
        self.tear_count = 0

    @property
    def wants_new_run(self) -> bool:
        """Whether the current run is long enough, or has a gap from a disk that works again."""
        if self._is_torn:
            return not self.fault
        too_old = time.monotonic() - self._run_began_s > _RUN_AGE_S
        return too_old or self._open_journal().run_bytes > self._run_bytes_limit

    @property
    def must_begin_new_run(self) -> bool:
        """Whether the current run is so long that it ends now, whatever is under way.

        Only earlier runs are pruned: where a pin was under way at every moment, the journal grew to
        three times its limit.
        """
        journal = self._journal
        return journal is not None and journal.run_bytes > _MOST_RUN_LIMITS * self._run_bytes_limit

    @property
    def takes_records(self) -> bool:
        """Whether records are queued for the disk, not dropped."""
        return not self._is_torn

    def begin_run(self, head: RunHead) -> None:
        """Begin the run of a fresh engine: the steps from now on are this engine's."""
        self._run_began_s = time.monotonic()
        if self.fault:
            return
        self._is_torn = False
        self._take(head)

    def append(
        self, event: Event, actions: tuple[Action, ...], waits: tuple[WaitChange, ...] = ()
    ) -> int:
        """Record a step and the waits that it changed. Returns a ticket for `wait_durable`."""
        if self._is_torn:
            self.dropped_count += 1
            return self._written_count
        if len(self._pending) >= _BACKLOG_LIMIT:
            self._tear("the disk does not keep up")
            return self._written_count
        return self._take(Step(event, actions, waits))

    def write_memo(self, memo: Memo) -> int:
        """Record what the policies know. Returns a ticket for `wait_durable`."""
        if self._is_torn:
            return self._written_count
        return self._take(memo)

    def note_shadow(self, choices: Iterable[ShadowChoice]) -> None:
        """Record what the policy in shadow chose."""
        if not self._is_torn:
            for choice in choices:
                self._take(choice)

    def note_past(self, job: PastJob) -> None:
        """Record a job that has ended."""
        if not self._is_torn:
            self._take(job)

    async def past(self, job_id: JobId) -> tuple[PastJob, Place | None] | None:
        """Return a job that has ended, and how it was placed last; None: it is not known."""
        try:
            job = await self._call(lambda: self._open_journal().past_job(job_id))
        except JournalError as error:
            _log.warning("journal_not_read", error=str(error))
            return None
        return None if job is None else (job, (await self.places([job_id])).get(job_id))

    async def wait_durable(self, ticket: int) -> None:
        """Return when the ticket's record is on disk, or the disk has failed."""
        async with self._progress:
            await self._progress.wait_for(lambda: self._written_count >= ticket or self._is_torn)

    async def places(self, job_ids: Iterable[JobId]) -> dict[JobId, Place]:
        """Return each job's last placement, by job; empty when the journal cannot be read."""
        try:
            return await self._call(lambda: self._open_journal().places(list(job_ids)))
        except JournalError as error:
            _log.warning("journal_not_read", error=str(error))
            return {}

    async def memo(self) -> bytes | None:
        """Return the policies' knowledge as it was written last; None: none was written.

        Raises:
            JournalError: the journal cannot be read.
        """
        return await self._call(lambda: self._open_journal().memo())

    async def memo_entries(self) -> dict[TableKey, bytes]:
        """Return the entries of the tables of the policies' knowledge, as they were written last.

        Raises:
            JournalError: the journal cannot be read.
        """
        return await self._call(lambda: self._open_journal().memo_entries())

    async def run(self) -> None:
        """Write until `close`; one task runs this."""
        while not (self._is_closing and not self._pending):
            await self._woken()
            await self._write_pending()
            if self._needs_probe:
                await self._probe()
            if time.monotonic() >= self._prune_due_s and not self._is_torn:
                self._prune_due_s = time.monotonic() + _PRUNE_EVERY_S
                await self._prune()
        if self._journal is not None:
            await self._call(self._journal.close)
        self._thread.shutdown()

    def close(self) -> None:
        """Have `run` write the records that are still queued, and return."""
        self._is_closing = True
        self._wake.set()

    def _take(self, record: Record) -> int:
        self._pending.append(record)
        self._taken_count += 1
        self._wake.set()
        return self._taken_count

    async def _woken(self) -> None:
        if self._is_closing:
            return
        self._needs_probe = False
        try:
            async with asyncio.timeout(self._retry_s):
                await self._wake.wait()
        except TimeoutError:
            self._needs_probe = bool(self.fault)
        self._wake.clear()

    async def _write_pending(self) -> None:
        batch, self._pending = self._pending, []
        if not batch:
            return
        self._writing_count = len(batch)
        try:
            await self._call(lambda: self._open_journal().write(batch))
            # The run before may go now; after a start that can wait.
            if self._written_count and any(isinstance(record, RunHead) for record in batch):
                self._prune_due_s = time.monotonic()
            self._writing_count = 0
            self._written_count += len(batch)
        except JournalError as error:
            self._writing_count = 0
            self.dropped_count += len(batch)
            self._note_damage(error)
            self._tear(str(error))
        async with self._progress:
            self._progress.notify_all()

    def _tear(self, reason: str) -> None:
        self.dropped_count += len(self._pending)
        self._pending.clear()
        # What is being written at the moment counts once it is: later tickets come after it.
        self._taken_count = self._written_count + self._writing_count
        if not self.fault:
            _log.error("journal_stopped", error=reason, cure="free space or fix the disk")
        self._is_torn, self.fault = True, reason
        self.tear_count += 1

    async def _probe(self) -> None:
        """Check whether the disk takes writes again; pruning may free the space for them."""
        try:
            if self._must_reopen and self._reopen is not None:
                await self._call(self._reopen_journal)
            await self._call(lambda: self._open_journal().prune())
            await self._call(lambda: self._open_journal().check())
        except JournalError as error:
            self._note_damage(error)
            self.fault = str(error)
            return
        _log.info("journal_resumed", dropped_count=self.dropped_count)
        self.fault = ""

    async def _prune(self) -> None:
        try:
            await self._call(lambda: self._open_journal().forget_past_jobs())
            while await self._call(lambda: self._open_journal().prune()):
                await self._write_pending()
        except JournalError as error:
            self._note_damage(error)
            self._tear(str(error))

    def _open_journal(self) -> Journal:
        if self._journal is None:
            raise JournalError(self.fault)
        return self._journal

    def _reopen_journal(self) -> None:
        """Close the journal and open it again; where that fails there is no journal."""
        assert self._reopen is not None
        journal, self._journal = self._journal, None
        if journal is not None:
            journal.close()
        self._journal = self._reopen(self._damage)
        self._must_reopen, self._damage = False, ""

    def _note_damage(self, error: JournalError) -> None:
        """Have a damaged file put aside and a new one begun at the next attempt."""
        if isinstance(error, DamagedJournal):
            self._must_reopen, self._damage = True, str(error)

    async def _call(self, work: Callable[[], _T]) -> _T:
        return await asyncio.get_running_loop().run_in_executor(self._thread, work)
