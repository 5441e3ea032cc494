"""The journal's SQLite file: its tables, opening it, classifying its errors, putting it aside."""

import os
import sqlite3
import time
from contextlib import closing
from functools import cache
from pathlib import Path

from roost_engine.domain.errors import JournalError
from roost_formats.journal.past_jobs import SCHEMA as PAST_JOBS

_INCREMENTAL = 2  # SQLite's number of that mode of auto_vacuum

_SCHEMA = """
CREATE TABLE IF NOT EXISTS run (
    run INTEGER PRIMARY KEY,
    format INTEGER NOT NULL,
    version TEXT NOT NULL,
    policy TEXT NOT NULL,
    epoch_of_zero_s REAL NOT NULL,
    began_s REAL NOT NULL,
    config BLOB NOT NULL
);
CREATE TABLE IF NOT EXISTS entry (
    sequence INTEGER PRIMARY KEY,
    run INTEGER NOT NULL,
    event BLOB NOT NULL,
    actions BLOB NOT NULL
);
CREATE INDEX IF NOT EXISTS entry_run ON entry (run);
CREATE TABLE IF NOT EXISTS place (
    job_id TEXT PRIMARY KEY,
    sequence INTEGER NOT NULL,
    action BLOB NOT NULL
);
CREATE TABLE IF NOT EXISTS wait (
    job_id TEXT PRIMARY KEY,
    sequence INTEGER NOT NULL,
    wait BLOB NOT NULL
);
CREATE TABLE IF NOT EXISTS run_plugins (
    run INTEGER PRIMARY KEY,
    plugins BLOB NOT NULL
);
CREATE TABLE IF NOT EXISTS run_policies (
    run INTEGER NOT NULL,
    slot TEXT NOT NULL,
    policy TEXT NOT NULL,
    PRIMARY KEY (run, slot)
);
CREATE TABLE IF NOT EXISTS shadow (
    number INTEGER PRIMARY KEY,
    run INTEGER NOT NULL,
    job_id TEXT NOT NULL,
    choice BLOB NOT NULL
);
CREATE INDEX IF NOT EXISTS shadow_run ON shadow (run);
CREATE TABLE IF NOT EXISTS memo (
    only INTEGER PRIMARY KEY CHECK (only = 1),
    knowledge BLOB NOT NULL
);
CREATE TABLE IF NOT EXISTS memo_entry (
    part TEXT NOT NULL,
    name TEXT NOT NULL,
    record BLOB NOT NULL,
    PRIMARY KEY (part, name)
) WITHOUT ROWID;
"""


class DamagedJournal(JournalError):
    """The file is damaged; the disk may be sound."""


class NewerJournal(JournalError):
    """The file was written by a later version of Roost."""


def connect(path: Path, *, is_alone: bool = False) -> sqlite3.Connection:
    """Open a file, check it and create the tables that it lacks.

    Raises:
        DamagedJournal: the file is not a sound database.
        sqlite3.Error: the same, or the disk fails.
    """
    connection = sqlite3.connect(path, timeout=5.0, isolation_level=None, check_same_thread=False)
    try:
        if is_alone:
            connection.execute("PRAGMA locking_mode = EXCLUSIVE")
        verdict = connection.execute("PRAGMA quick_check(1)").fetchone()[0]
        if verdict != "ok":
            raise DamagedJournal(f"quick_check: {verdict}")
        if connection.execute("PRAGMA auto_vacuum").fetchone()[0] != _INCREMENTAL:
            # Must come before the first table. It writes, so a file that has the mode already is
            # spared: on a full disk the write would fail.
            connection.execute(f"PRAGMA auto_vacuum = {_INCREMENTAL}")
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute(f"PRAGMA journal_size_limit = {16 << 20}")
        connection.executescript(_SCHEMA + PAST_JOBS)
        if missing := _columns_made() - _columns(connection):
            raise DamagedJournal(f"column {min(missing)} of a table is not as it was made")
    except BaseException:
        connection.close()
        raise
    return connection


@cache
def _columns_made() -> frozenset[str]:
    """Return the columns of a new file."""
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.executescript(_SCHEMA + PAST_JOBS)
        return _columns(connection)


def _columns(connection: sqlite3.Connection) -> frozenset[str]:
    """Return every column of every table, with its type, and its place in the primary key.

    quick_check does not notice a flipped bit of `PRIMARY KEY`: a row that should replace another
    one is then stored beside it, and the old one is read.
    """
    rows = connection.execute(
        "SELECT of.name || '.' || column.name, column.type, column.'notnull', column.pk"
        " FROM sqlite_master of JOIN pragma_table_info(of.name) column WHERE of.type = 'table'"
    )
    return frozenset(" ".join(map(str, row)) for row in rows)


# Faults of the disk or the folder, not of the file.
_DISK_FAULTS = frozenset(
    {
        sqlite3.SQLITE_AUTH,
        sqlite3.SQLITE_BUSY,
        sqlite3.SQLITE_CANTOPEN,
        sqlite3.SQLITE_FULL,
        sqlite3.SQLITE_IOERR,
        sqlite3.SQLITE_LOCKED,
        sqlite3.SQLITE_NOMEM,
        sqlite3.SQLITE_PERM,
        sqlite3.SQLITE_PROTOCOL,
    }
)
# These kinds of SQLITE_IOERR say that the file's own bytes cannot be read.
_UNREADABLE = frozenset(
    {
        sqlite3.SQLITE_IOERR_CORRUPTFS,
        sqlite3.SQLITE_IOERR_DATA,
        sqlite3.SQLITE_IOERR_READ,
        sqlite3.SQLITE_IOERR_SHORT_READ,
    }
)


def is_damage(error: BaseException, path: Path) -> bool:
    """Return whether the file is damaged, rather than the disk full or the folder unwritable."""
    if not isinstance(error, sqlite3.Error):
        return isinstance(error, JournalError | ValueError | TypeError | ArithmeticError)
    code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_CORRUPT)
    if code & 0xFF == sqlite3.SQLITE_READONLY:
        # A damaged bit of the header makes SQLite report this too.
        return os.access(path, os.W_OK) and os.access(path.parent, os.W_OK)
    return code in _UNREADABLE or code & 0xFF not in _DISK_FAULTS


def failure(error: sqlite3.Error) -> JournalError:
    """Return the error to raise when an open journal fails."""
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    is_damage = code in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
    return DamagedJournal(str(error)) if is_damage else JournalError(str(error))


def put_aside(path: Path, why: str) -> Path | None:
    """Rename a file, and the logs beside it, to a new name that says why and when.

    Returns:
        The new name; None where there is no such file, because it was deleted in use.
    """
    stem = f"{path.name}.{why}-{int(time.time())}"
    names = (stem, *(f"{stem}-{number}" for number in range(1, 1_000)))
    aside = next(one for one in map(path.with_name, names) if not one.exists())
    for suffix in ("-wal", "-shm", "-journal"):
        log = Path(f"{path}{suffix}")
        if log.exists():
            log.rename(f"{aside}{suffix}")
    return path.rename(aside) if path.exists() else None
