"""What a journal forgets: its oldest runs, once they are too old or the file is too large."""

import sqlite3
from dataclasses import dataclass

from roost_formats.journal.waits import forget_waits

_PRUNE_ROWS = 5_000  # a transaction, so that writes never wait long
_REMEMBERED_PLACES = 20_000  # jobs whose last placement outlives its run
_TABLES_OF_A_RUN = ("run", "run_plugins", "run_policies", "shadow")


@dataclass(frozen=True, slots=True)
class JournalLimits:
    """How much is kept."""

    max_bytes: int = 1 << 30
    max_age_s: float = 30 * 86_400.0


def prune(connection: sqlite3.Connection, limits: JournalLimits, now_epoch_s: float) -> bool:
    """Delete a few thousand rows that are too old or too many, the oldest run first.

    Returns:
        Whether there is more to delete.
    """
    run = _run_to_drop(connection, limits, now_epoch_s)
    if run is None:
        return False
    with connection:
        connection.execute("BEGIN IMMEDIATE")
        dropped = connection.execute(
            "DELETE FROM entry WHERE sequence IN "
            "(SELECT sequence FROM entry WHERE run = ? ORDER BY sequence LIMIT ?)",
            (run, _PRUNE_ROWS),
        ).rowcount
        if dropped < _PRUNE_ROWS:
            for table in _TABLES_OF_A_RUN:
                connection.execute(f"DELETE FROM {table} WHERE run = ?", (run,))
            _forget_places(connection)
            forget_waits(connection)
    connection.execute("PRAGMA incremental_vacuum").fetchall()
    return True


def size_bytes(connection: sqlite3.Connection) -> int:
    """Return what the file holds, without pages that are free."""
    page_bytes, pages, free = (
        connection.execute(f"PRAGMA {name}").fetchone()[0]
        for name in ("page_size", "page_count", "freelist_count")
    )
    return int(page_bytes * (pages - free))


def _run_to_drop(
    connection: sqlite3.Connection, limits: JournalLimits, now_epoch_s: float
) -> int | None:
    """Return the oldest run, if it ended too long ago or the file is too large."""
    row = connection.execute(
        "SELECT a.run, b.epoch_of_zero_s + b.began_s FROM run a JOIN run b ON b.run > a.run"
        " ORDER BY a.run, b.run LIMIT 1"
    ).fetchone()
    if row is None:
        return None
    is_old = row[1] < now_epoch_s - limits.max_age_s
    return int(row[0]) if is_old or size_bytes(connection) > limits.max_bytes else None


def _forget_places(connection: sqlite3.Connection) -> None:
    connection.execute(
        "DELETE FROM place WHERE sequence <= ifnull("
        "(SELECT sequence FROM place ORDER BY sequence DESC LIMIT 1 OFFSET ?), -1)",
        (_REMEMBERED_PLACES,),
    )
