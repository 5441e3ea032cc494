"""The memo of a journal is written whole, or entry by entry."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing

import pytest

from roost_formats.journal.database import connect
from roost_formats.journal.memos import read_memo, read_memo_entries, write_memo
from roost_formats.journal.records import Memo


@pytest.fixture
def database(tmp_path_factory: pytest.TempPathFactory) -> Iterator[sqlite3.Connection]:
    path = tmp_path_factory.mktemp("journal") / "journal.sqlite"
    with closing(connect(path)) as connection:
        yield connection


def test_nothing_is_known_before_the_first_memo(database: sqlite3.Connection) -> None:
    assert read_memo(database) is None
    assert read_memo_entries(database) == {}


def test_entries_are_changed_and_deleted_one_by_one(database: sqlite3.Connection) -> None:
    write_memo(database, Memo(b"one", {("t", "a"): b"1", ("t", "b"): b"2"}))
    write_memo(database, Memo(b"two", {("t", "a"): b"3", ("t", "b"): None}))
    assert read_memo(database) == b"two"
    assert read_memo_entries(database) == {("t", "a"): b"3"}


def test_a_whole_memo_replaces_every_entry(database: sqlite3.Connection) -> None:
    write_memo(database, Memo(b"one", {("t", "a"): b"1"}))
    write_memo(database, Memo(b"two", {("u", "c"): b"4"}, is_whole=True))
    assert read_memo_entries(database) == {("u", "c"): b"4"}
