"""The record of every event the engine was given and every action it returned, in SQLite.

A *run* is one engine from its birth on: fed the run's events in order, a fresh engine of the same
configuration and policy returns the run's actions byte for byte. A daemon start, a reload and a
gap in the record begin a new run, so a run is also what is thrown away when space is needed.

Nothing is asked of Slurm before the action that asks for it is on disk: such writes are synced
(`synchronous=FULL`). Entries without such an action are not worth a sync each: a power cut may
lose the last of them, the death of the process does not. `journal_reader` reads it back.
Page: docs/operations.md.
"""

import sqlite3
import time
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path

from roost_engine.domain.actions import Place
from roost_engine.domain.errors import JournalError
from roost_engine.domain.events import WaitSoFar
from roost_engine.domain.model import JobId
from roost_formats.journal.codec import FORMAT, decode, encode
from roost_formats.journal.database import (
    DamagedJournal,
    NewerJournal,
    connect,
    failure,
    is_damage,
    put_aside,
)
from roost_formats.journal.memos import read_memo, read_memo_entries, write_memo
from roost_formats.journal.newest import check_newest
from roost_formats.journal.past_jobs import PastJob, forget_past_jobs, read_past_job, write_past_job
from roost_formats.journal.pruning import JournalLimits, prune, size_bytes
from roost_formats.journal.records import (
    EVENT,
    Memo,
    Record,
    RunHead,
    Step,
    TableKey,
    must_be_on_disk,
)
from roost_formats.journal.shadow import ShadowChoice
from roost_formats.journal.waits import read_waits, write_waits

FILE_NAME = "journal.sqlite"

_CENTURY_S = 100 * 366 * 86_400.0  # no daemon lives so long: a time beyond it is damage

_NO_JOB = PastJob(job_id=JobId(""), user_id=0, partition="", gpu_count=0, queued_s=0.0, ended_s=0.0)


_NO_HEAD = RunHead(
    version="",
    policy="",
    epoch_of_zero_s=0.0,
    began_s=0.0,
    config=b"",
    plugins=b"none",
    policies={"none": "none"},
)


class Journal:
    """An open journal. Not safe for threads at once; any one thread at a time may use it.

    Args:
        connection: an open database with the schema in it.
        limits: how much is kept.

    Attributes:
        quarantined: where a predecessor was put that could not be used; None: there was none.
        quarantine_reason: why; empty without one.
        last_at_s: engine time of the newest entry; 0 in an empty journal.
        epoch_of_zero_s: the wall clock at engine time 0; None in an empty journal.
        run_bytes: what the current run has written so far.
    """

    def __init__(self, connection: sqlite3.Connection, limits: JournalLimits) -> None:
        self._db, self._limits = connection, limits
        self.quarantined: Path | None = None
        self.quarantine_reason = ""
        self._run: int = connection.execute("SELECT ifnull(max(run), 0) FROM run").fetchone()[0]
        self._is_full_sync = True
        self.run_bytes = 0
        self.last_at_s, self.epoch_of_zero_s = self._last_times()

    @classmethod
    def open(
        cls,
        folder: Path,
        limits: JournalLimits | None = None,
        version: str = "",
        knowledge: type[object] | None = None,
        *,
        is_alone: bool = False,
        known_damage: str = "",
    ) -> "Journal":
        """Open the journal of a folder, or start one.

        A file that is damaged, or that a later version of Roost wrote, is put aside, not deleted.

        Args:
            folder: where it is.
            limits: how much is kept.
            version: of this Roost: a record of an unknown kind that this very version wrote is
                damaged, not newer.
            knowledge: the type of what policies know; None: the memo may hold anything.
            is_alone: keep the index of the log in memory, not in a file. Then a journal can be read
                where a full disk takes no file; while it is open, nothing else can read it.
            known_damage: what was found in the file by its use; it is put aside unopened.

        Raises:
            JournalError: there can be no journal: the folder cannot be written.
        """
        path = folder / FILE_NAME
        open_file = partial(
            cls._open, path, limits or JournalLimits(), version, knowledge, is_alone
        )
        try:
            try:
                if known_damage:
                    raise DamagedJournal(known_damage)
                return open_file()
            except (DamagedJournal, NewerJournal) as error:
                why = "newer" if isinstance(error, NewerJournal) else "damaged"
                aside = put_aside(path, why)
                journal = open_file()
                journal.quarantined, journal.quarantine_reason = aside, str(error)
                return journal
        except (sqlite3.Error, OSError) as error:
            raise JournalError(f"{path}: {error}") from error

    @classmethod
    def _open(
        cls,
        path: Path,
        limits: JournalLimits,
        version: str,
        knowledge: type[object] | None,
        is_alone: bool,
    ) -> "Journal":
        """Open a file and check everything that a daemon will ask of it.

        Raises:
            DamagedJournal: the file is broken.
            NewerJournal: it was written by a later version of Roost.
            sqlite3.Error: the disk is full, or the folder cannot be written.
        """
        connection: sqlite3.Connection | None = None
        try:
            connection = connect(path, is_alone=is_alone)
            check_newest(connection, version, knowledge)
            journal = cls(connection, limits)
            journal._rehearse()
        except BaseException as error:
            if connection is not None:
                connection.close()
            if isinstance(error, NewerJournal) or not is_damage(error, path):
                raise
            raise DamagedJournal(str(error)) from error
        return journal

    def write(self, records: Sequence[Record]) -> None:
        """Append records in one transaction, synced if Slurm or an operator acts on one of them.

        Raises:
            JournalError: nothing of it was written.
        """
        is_asking = any(map(must_be_on_disk, records))
        try:
            self._sync_fully(is_asking)
            with self._db:
                self._db.execute("BEGIN IMMEDIATE")
                for record in records:
                    match record:
                        case Step():
                            self._write_step(record)
                        case RunHead():
                            self._write_head(record)
                        case Memo():
                            write_memo(self._db, record)
                        case ShadowChoice():
                            self._write_shadow(record.job_id, encode(record))
                        case PastJob():
                            write_past_job(self._db, record)
        except sqlite3.Error as error:
            raise failure(error) from error

    def places(self, job_ids: Iterable[JobId]) -> dict[JobId, Place]:
        """Return the last placement of each of these jobs that has one, of any run.

        Raises:
            JournalError: it cannot be read.
        """
        found: dict[JobId, Place] = {}
        try:
            for job_id in job_ids:
                row = self._db.execute(
                    "SELECT action FROM place WHERE job_id = ?", (job_id,)
                ).fetchone()
                if row:
                    found[job_id] = decode(row[0], Place)
        except sqlite3.Error as error:
            raise failure(error) from error
        return found

    def past_job(self, job_id: JobId) -> PastJob | None:
        """Return the last job that ended with an id; None: the journal has none.

        Raises:
            JournalError: it cannot be read.
        """
        try:
            return read_past_job(self._db, job_id)
        except sqlite3.Error as error:
            raise failure(error) from error

    def forget_past_jobs(self) -> None:
        """Delete the past jobs that are too old or too many.

        Raises:
            JournalError: the disk does not take it.
        """
        try:
            with self._db:
                forget_past_jobs(self._db, time.time())
        except sqlite3.Error as error:
            raise failure(error) from error

    def waits(self) -> Mapping[JobId, WaitSoFar]:
        """Return the waits of the jobs that had not left the queue by the newest entry.

        Raises:
            JournalError: they cannot be read.
        """
        try:
            return read_waits(self._db)
        except sqlite3.Error as error:
            raise failure(error) from error

    def memo(self) -> bytes | None:
        """Return what policies had learned when it was last written; None if it never was.

        Raises:
            JournalError: it cannot be read.
        """
        try:
            return read_memo(self._db)
        except sqlite3.Error as error:
            raise failure(error) from error

    def memo_entries(self) -> dict[TableKey, bytes]:
        """Return the entries of the tables of what policies had learned, as memos brought them.

        Raises:
            JournalError: they cannot be read.
        """
        try:
            return read_memo_entries(self._db)
        except sqlite3.Error as error:
            raise failure(error) from error

    def prune(self) -> bool:
        """Delete a few thousand rows that are too old or too many, the oldest run first.

        Returns:
            Whether there is more to delete.

        Raises:
            JournalError: the disk does not take it.
        """
        try:
            return prune(self._db, self._limits, time.time())
        except sqlite3.Error as error:
            raise failure(error) from error

    def check(self) -> None:
        """Write something of no importance.

        Raises:
            JournalError: the disk does not take it.
        """
        try:
            with self._db:
                self._db.execute("BEGIN IMMEDIATE")
                self._db.execute("CREATE TABLE IF NOT EXISTS room (filler BLOB)")
                self._db.execute("INSERT INTO room VALUES (zeroblob(65536))")
                self._db.execute("DROP TABLE room")
        except sqlite3.Error as error:
            raise failure(error) from error

    def size_bytes(self) -> int:
        """Return what the file holds, without pages that are free."""
        return size_bytes(self._db)

    def close(self) -> None:
        """Fold the log into the file and close it."""
        self._db.close()

    def _write_head(self, head: RunHead) -> None:
        cursor = self._db.execute(
            "INSERT INTO run (format, version, policy, epoch_of_zero_s, began_s, config)"
            " VALUES (?, ?, ?, ?, ?, ?)",
            (
                FORMAT,
                head.version,
                head.policy,
                head.epoch_of_zero_s,
                head.began_s,
                head.config,
            ),
        )
        self._run = cursor.lastrowid or 0
        self.run_bytes = 0
        if head.plugins:
            self._db.execute("INSERT INTO run_plugins VALUES (?, ?)", (self._run, head.plugins))
        self._db.executemany(
            "INSERT INTO run_policies VALUES (?, ?, ?)",
            [(self._run, slot, policy) for slot, policy in head.policies.items()],
        )

    def _write_shadow(self, job_id: JobId, choice: bytes) -> None:
        self._db.execute(
            "INSERT INTO shadow (run, job_id, choice) VALUES (?, ?, ?)", (self._run, job_id, choice)
        )
        self.run_bytes += len(choice)

    def _write_step(self, step: Step) -> None:
        event, actions = encode(step.event), encode(step.actions)
        cursor = self._db.execute(
            "INSERT INTO entry (run, event, actions) VALUES (?, ?, ?)", (self._run, event, actions)
        )
        self.run_bytes += len(event) + len(actions)
        for action in step.actions:
            if isinstance(action, Place):
                self._db.execute(
                    "INSERT OR REPLACE INTO place VALUES (?, ?, ?)",
                    (action.job_id, cursor.lastrowid, encode(action)),
                )
        write_waits(self._db, cursor.lastrowid or 0, step.waits)

    def _sync_fully(self, wanted: bool) -> None:
        if wanted != self._is_full_sync:
            self._db.execute(f"PRAGMA synchronous = {'FULL' if wanted else 'NORMAL'}")
            self._is_full_sync = wanted

    def _last_times(self) -> tuple[float, float | None]:
        run = self._db.execute(
            "SELECT began_s, epoch_of_zero_s FROM run ORDER BY run DESC LIMIT 1"
        ).fetchone()
        if run is None:
            return 0.0, None
        entry = self._db.execute(
            "SELECT event FROM entry ORDER BY sequence DESC LIMIT 1"
        ).fetchone()
        last_s = decode(entry[0], EVENT).at_s if entry else 0.0
        for time_s in (run[0], run[1], last_s):
            if not isinstance(time_s, int | float) or not abs(time_s) < _CENTURY_S:
                raise DamagedJournal(f"time {time_s!r} is beyond a century")
        return max(run[0], last_s), run[1]

    def _rehearse(self) -> None:
        """Write a record of each kind, read some and take all back: every table has its columns.

        Raises:
            sqlite3.Error: one does not.
        """
        before = self._run, self.run_bytes
        self._db.execute("BEGIN IMMEDIATE")
        try:
            self._write_head(_NO_HEAD)
            self._db.execute("INSERT INTO entry (run, event, actions) VALUES (0, x'', x'')")
            self._db.execute("INSERT OR REPLACE INTO place VALUES ('', 0, x'')")
            write_waits(self._db, 0, [(JobId(""), WaitSoFar(since_s=0.0))])
            self._write_shadow(JobId(""), b"")
            write_past_job(self._db, _NO_JOB)
            write_memo(self._db, Memo(b"", {("", ""): b""}))
            self._db.execute("SELECT action FROM place WHERE job_id = ''").fetchall()
            self._db.execute("SELECT part, name, record FROM memo_entry LIMIT 1").fetchall()
        finally:
            if self._db.in_transaction:  # SQLite itself takes back what met a full disk
                self._db.execute("ROLLBACK")
            self._run, self.run_bytes = before
