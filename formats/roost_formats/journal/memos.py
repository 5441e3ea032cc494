"""The memo of a journal: what policies had learned when it was last written.

Large tables are written entry by entry, as they change; the rest is one record.
"""

import sqlite3

from roost_formats.journal.records import Memo, TableKey


def write_memo(connection: sqlite3.Connection, memo: Memo) -> None:
    """Write a memo in place of the last one."""
    connection.execute("INSERT OR REPLACE INTO memo VALUES (1, ?)", (memo.knowledge,))
    if memo.is_whole:
        connection.execute("DELETE FROM memo_entry")
    gone = [key for key, record in memo.entries.items() if record is None]
    connection.executemany("DELETE FROM memo_entry WHERE part = ? AND name = ?", gone)
    connection.executemany(
        "INSERT OR REPLACE INTO memo_entry VALUES (?, ?, ?)",
        ((*key, record) for key, record in memo.entries.items() if record is not None),
    )


def read_memo(connection: sqlite3.Connection) -> bytes | None:
    """Return what policies had learned, without the entries of tables; None: nothing yet."""
    row = connection.execute("SELECT knowledge FROM memo").fetchone()
    return row[0] if row else None


def read_memo_entries(connection: sqlite3.Connection) -> dict[TableKey, bytes]:
    """Return the entries of the tables of what policies had learned."""
    rows = connection.execute("SELECT part, name, record FROM memo_entry")
    return {(table, name): record for table, name, record in rows}
