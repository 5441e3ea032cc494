"""Reads a journal, also while a daemon writes it: its runs, and every step of each.

The file is opened for reading only and read in short pieces, each a transaction of its own. So a
reader delays neither the daemon's writes nor the checkpoints of its write-ahead log.
"""

import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import quote

from roost_engine.domain.actions import Action
from roost_engine.domain.errors import JournalError
from roost_engine.domain.events import Event
from roost_formats.journal.codec import FORMAT, decode
from roost_formats.journal.journal import FILE_NAME
from roost_formats.journal.past_jobs import PastJob, parse_past_job, past_records
from roost_formats.journal.records import ACTIONS, EVENT, RunHead, Step
from roost_formats.journal.shadow import ShadowChoice

_T = TypeVar("_T")
_MAGIC = b"SQLite format 3\x00"
_PIECE_ROWS = 2_000
_DAMAGED = (
    "the file is damaged or cut short; copy it again, with journal.sqlite-wal where there is one"
)


@dataclass(frozen=True, slots=True)
class Run:
    """A run of a journal, up to its newest entry at the time of reading.

    Attributes:
        last_sequence: number of the newest entry; 0 without entries.
    """

    number: int
    head: RunHead
    step_count: int
    last_sequence: int


@dataclass(frozen=True, slots=True)
class Entry:
    """One step in the codec's bytes."""

    sequence: int
    event: bytes
    actions: bytes


class JournalReader:
    """Reads a journal.

    Args:
        path: the file, or the folder that has it.

    Attributes:
        path: the file.

    Raises:
        JournalError: it is not a journal, or cannot be read; the text names file and cure.
    """

    def __init__(self, path: Path) -> None:
        self.path = path / FILE_NAME if path.is_dir() else path
        _check_header(self.path)
        self._at_rest = _state_at_rest(self.path)
        try:
            self._db = _connect(self.path, is_at_rest=self._at_rest is not None)
        except sqlite3.Error as error:
            raise self._unreadable(error) from error

    def runs(self) -> list[Run]:
        """Return every run, oldest first.

        Raises:
            JournalError: a run was written by a later version of Roost, or the file is damaged.
        """
        runs = []
        plugins: dict[int, bytes] = dict(
            self._later_rows("run_plugins", "run, plugins", "the policies of its runs")
        )
        policies = dict[int, dict[str, str]]()
        what = "the names of its runs' policies"
        for run, slot, name in self._later_rows("run_policies", "run, slot, policy", what):
            policies.setdefault(run, {})[slot] = name
        for number, form, *head, count, last in self._rows(
            "SELECT run, format, version, policy, epoch_of_zero_s, began_s, config,"
            " (SELECT count(*) FROM entry WHERE entry.run = run.run),"
            " (SELECT ifnull(max(sequence), 0) FROM entry WHERE entry.run = run.run)"
            " FROM run ORDER BY run",
            (),
            "its list of runs",
        ):
            if form > FORMAT:
                raise JournalError(
                    f"{self.path}: run {number} has format {form}; this version reads {FORMAT}:"
                    " update Roost"
                )
            version, policy, epoch_of_zero_s, began_s, config = head
            run_head = RunHead(
                version=version,
                policy=policy,
                epoch_of_zero_s=epoch_of_zero_s,
                began_s=began_s,
                config=config,
                plugins=plugins.get(number, b""),
                policies=policies.get(number, {}),
            )
            runs.append(Run(number, run_head, count, last))
        return runs

    def _later_rows(self, table: str, columns: str, what: str) -> list[tuple[Any, ...]]:
        """Return the rows of a table; none where the journal is of a version before the table."""
        if not self._has_table(table, what):
            return []
        return self._rows(f"SELECT {columns} FROM {table} ORDER BY rowid", (), what)

    def _has_table(self, table: str, what: str) -> bool:
        named = "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = ?"
        return bool(self._rows(named, (table,), what))

    def entries(self, run: Run) -> Iterator[Entry]:
        """Yield the entries of a run in order, up to the newest one when `runs` read it.

        Raises:
            JournalError: the file is damaged, or the daemon pruned the run meanwhile.
        """
        sequence = count = 0
        while count < run.step_count:
            piece = self._rows(
                "SELECT sequence, event, actions FROM entry"
                " WHERE run = ? AND sequence > ? AND sequence <= ? ORDER BY sequence LIMIT ?",
                (run.number, sequence, run.last_sequence, _PIECE_ROWS),
                f"what follows entry {sequence}",
            )
            if not piece:
                raise JournalError(
                    f"{self.path}: run {run.number} has {count} entries left of {run.step_count}:"
                    " roostd deletes its oldest runs; read the journal again"
                )
            for row in piece:
                yield Entry(*row)
            sequence, count = piece[-1][0], count + len(piece)

    def steps(self, run: Run) -> Iterator[Step]:
        """Yield the steps of a run in order.

        Raises:
            JournalError: as `entries`, or a record cannot be read.
        """
        for entry in self.entries(run):
            yield Step(self.event(entry), self.actions(entry))

    def event(self, entry: Entry) -> Event:
        """Return the event of an entry.

        Raises:
            JournalError: the record cannot be read; the text names it.
        """
        return self._decode(entry, entry.event, EVENT)

    def actions(self, entry: Entry) -> tuple[Action, ...]:
        """Return the engine's actions of an entry.

        Raises:
            JournalError: the record cannot be read; the text names it.
        """
        return self._decode(entry, entry.actions, ACTIONS)

    def shadow_choices(self, run: Run) -> Iterator[ShadowChoice]:
        """Yield what the policy in shadow chose in a run, oldest first.

        Raises:
            JournalError: the file is damaged.
        """
        what = "the choices of the policy in shadow"
        if self._has_table("shadow", what):
            sql = "SELECT choice FROM shadow WHERE run = ? ORDER BY rowid"
            for (choice,) in self._rows(sql, (run.number,), what):
                yield decode(choice, ShadowChoice)

    def past_jobs(self, since_epoch_s: float, until_epoch_s: float) -> Iterator[PastJob]:
        """Yield the jobs that ended in a time, oldest first; none in an earlier version's journal.

        Raises:
            JournalError: the file is damaged.
        """
        if not self._has_table("past_job", "its tables"):
            return
        try:
            for record in past_records(self._db, since_epoch_s, until_epoch_s):
                yield parse_past_job(record)
        except sqlite3.Error as error:
            raise self._unreadable(error, "its past jobs: ") from error

    def close(self) -> None:
        """Close the file."""
        self._db.close()

    def _decode(self, entry: Entry, record: bytes, kind: type[_T]) -> _T:
        try:
            return decode(record, kind)
        except JournalError as error:
            raise JournalError(
                f"{self.path}: entry {entry.sequence}: {error}; was it written by a later version"
                " of Roost, or changed?"
            ) from error

    def _rows(
        self, query: str, arguments: tuple[int | str, ...], what: str
    ) -> list[tuple[Any, ...]]:
        """Return all rows at once: an open cursor would hold its view of the write-ahead log."""
        try:
            rows = self._db.execute(query, arguments).fetchall()
        except sqlite3.Error as error:
            if not self._has_woken():
                raise self._unreadable(error, f"{what}: ") from error
            return self._rows(query, arguments, what)
        return self._rows(query, arguments, what) if self._has_woken() else rows

    def _has_woken(self) -> bool:
        """Whether a daemon has begun to write a file that was at rest; if so, open it again."""
        if self._at_rest is None or self._at_rest == _state_at_rest(self.path):
            return False
        self._at_rest = None
        self._db.close()
        try:
            self._db = _connect(self.path, is_at_rest=False)
        except sqlite3.Error as error:
            raise self._unreadable(error) from error
        return True

    def _unreadable(self, error: sqlite3.Error, what: str = "") -> JournalError:
        if "no such table" in str(error) or "no such column" in str(error):
            return JournalError(
                f"{self.path}: an SQLite file, but no journal of roostd ({error}); want"
                f" {FILE_NAME} of roostd's paths.state_dir"
            )
        return JournalError(f"{self.path}: {what}{error}: {_cure(error)}")


def _check_header(path: Path) -> None:
    """Check that a file begins as an SQLite database does.

    Raises:
        JournalError: the file cannot be opened, is empty, or is no database.
    """
    if path.is_fifo():  # to open one waits for its other end
        raise JournalError(f"{path}: is a pipe; want {FILE_NAME} of roostd's paths.state_dir")
    try:
        with path.open("rb") as file:
            begin = file.read(len(_MAGIC))
    except OSError as error:
        raise JournalError(
            f"{path}: {error.strerror}; want {FILE_NAME} of roostd's paths.state_dir"
        ) from error
    if begin != _MAGIC:
        what = "is no journal of roostd" if begin else "the file is empty"
        raise JournalError(f"{path}: {what}; want {FILE_NAME} of roostd's paths.state_dir")


def _state_at_rest(path: Path) -> tuple[int, int] | None:
    """Return size and time of change of a file without a write-ahead log; None: it has a log."""
    if path.with_name(f"{path.name}-wal").exists():
        return None
    status = path.stat()
    return status.st_size, status.st_mtime_ns


def _connect(path: Path, *, is_at_rest: bool) -> sqlite3.Connection:
    """Open for reading only.

    Args:
        path: a database.
        is_at_rest: no process writes the database, so SQLite must not create a log beside it: the
            folder may be read-only, and roostd could not write a log of another owner.
    """
    address = f"file:{quote(str(path.absolute()))}?mode=ro{'&immutable=1' if is_at_rest else ''}"
    connection = sqlite3.connect(address, uri=True, isolation_level=None)
    try:
        connection.execute("SELECT 1 FROM run, entry LIMIT 1").fetchall()
    except BaseException:
        connection.close()
        raise
    return connection


def _is_unopened(error: sqlite3.Error) -> bool:
    code = getattr(error, "sqlite_errorcode", None) or 0
    return code & 0xFF in (sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY)


def _cure(error: sqlite3.Error) -> str:
    if _is_unopened(error):
        return "copy the journal, with its -wal file, to a folder of your own and read that"
    return _DAMAGED
