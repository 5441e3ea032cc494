"""The journal's table of waits: how long each job has waited, for the next daemon's engine.

A daemon that starts reads this table instead of the last run, which may hold a day of steps.
"""

import sqlite3
from collections.abc import Iterable, Mapping
from typing import TypeAlias

from roost_engine.domain.events import WaitSoFar
from roost_engine.domain.model import JobId
from roost_formats.journal.codec import decode, encode

REMEMBERED_WAITS = 20_000  # reading so many takes less than half a second
WaitChange: TypeAlias = tuple[JobId, WaitSoFar | None]
"""A job and its wait; None: the job has left the queue."""


def write_waits(db: sqlite3.Connection, sequence: int, changes: Iterable[WaitChange]) -> None:
    """Store the waits that one entry of the journal has changed.

    Raises:
        sqlite3.Error: the disk does not take it.
    """
    for job_id, wait in changes:
        if wait is None:
            db.execute("DELETE FROM wait WHERE job_id = ?", (job_id,))
        else:
            db.execute(
                "INSERT OR REPLACE INTO wait VALUES (?, ?, ?)", (job_id, sequence, encode(wait))
            )


def read_waits(db: sqlite3.Connection) -> Mapping[JobId, WaitSoFar]:
    """Return the waits of the jobs that had not left the queue, as far as they are remembered.

    Raises:
        sqlite3.Error: the file cannot be read.
        JournalError: a record is damaged.
    """
    rows = db.execute(
        "SELECT job_id, wait FROM wait ORDER BY sequence DESC LIMIT ?", (REMEMBERED_WAITS,)
    )
    return {JobId(job_id): decode(wait, WaitSoFar) for job_id, wait in rows.fetchall()}


def forget_waits(db: sqlite3.Connection) -> None:
    """Delete the oldest waits: their jobs may have left the queue while no daemon was running.

    Raises:
        sqlite3.Error: the disk does not take it.
    """
    db.execute(
        "DELETE FROM wait WHERE sequence <= ifnull("
        "(SELECT sequence FROM wait ORDER BY sequence DESC LIMIT 1 OFFSET ?), -1)",
        (REMEMBERED_WAITS,),
    )
