"""The check of what is newest in a journal, before a daemon builds on it."""

import sqlite3

from roost_engine.domain.errors import JournalError
from roost_formats.journal.codec import FORMAT, UnknownRecord, check_form, decode
from roost_formats.journal.database import (
    NewerJournal,
)
from roost_formats.journal.records import (
    ACTIONS,
    EVENT,
)

_CHECKSUMS_SINCE = 2  # the format of a run


def check_newest(
    connection: sqlite3.Connection, version: str, knowledge: type[object] | None
) -> None:
    """Read what is newest: the run's head, the last entry, what policies know.

    Raises:
        NewerJournal: a later version of Roost wrote it.
        JournalError: it is damaged.
    """
    head = connection.execute(
        "SELECT run, format, version, config FROM run ORDER BY run DESC LIMIT 1"
    ).fetchone()
    if head is None:
        return
    run, form, writer, config = head
    newer = JournalError if writer == version else NewerJournal
    if form > FORMAT:
        raise newer(f"format {form} of Roost {writer}; this one reads {FORMAT}")
    check_form(config)
    plugins = connection.execute("SELECT plugins FROM run_plugins WHERE run = ?", (run,))
    for (record,) in plugins.fetchall():
        check_form(record)
    memos = connection.execute("SELECT knowledge FROM memo").fetchall()
    entries = connection.execute(
        "SELECT event, actions FROM entry ORDER BY sequence DESC LIMIT 1"
    ).fetchall()
    try:
        for (memo,) in memos:
            check_form(memo) if knowledge is None else decode(memo, knowledge)
        for event, actions in entries:
            decode(event, EVENT)
            decode(actions, ACTIONS)
    except UnknownRecord as error:
        # A record whose checksum is right is as it was written: by a later checkout, where the
        # version is the same.
        if form >= _CHECKSUMS_SINCE:
            newer = NewerJournal
        raise newer(f"{error}; written by Roost {writer}") from error
