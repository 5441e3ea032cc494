"""What is newest in a journal: damaged, or written by a later version of Roost."""

import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from roost_engine.domain.errors import JournalError
from roost_engine.domain.events import Tick
from roost_formats.journal.codec import FORMAT, encode
from roost_formats.journal.database import NewerJournal
from roost_formats.journal.journal import FILE_NAME, Journal
from roost_formats.journal.newest import check_newest
from roost_formats.journal.records import RunHead, Step

VERSION = "0.1.0"


@pytest.fixture
def database(tmp_path: Path) -> Iterator[sqlite3.Connection]:
    journal = Journal.open(tmp_path, version=VERSION)
    head = RunHead(
        version=VERSION, policy="heuristic", epoch_of_zero_s=0.0, began_s=0.0, config=encode(1)
    )
    journal.write([head, Step(Tick(at_s=1.0), ())])
    journal.close()
    connection = sqlite3.connect(tmp_path / FILE_NAME, isolation_level=None)
    yield connection
    connection.close()


def test_an_empty_and_a_sound_journal_pass(tmp_path: Path, database: sqlite3.Connection) -> None:
    check_newest(database, VERSION, None)
    (tmp_path / "empty").mkdir()
    Journal.open(tmp_path / "empty").close()
    with sqlite3.connect(tmp_path / "empty" / FILE_NAME) as empty:
        check_newest(empty, VERSION, None)
    empty.close()


def test_a_later_format_is_newer(database: sqlite3.Connection) -> None:
    database.execute("UPDATE run SET format = ?", (FORMAT + 1,))
    with pytest.raises(NewerJournal, match=f"format {FORMAT + 1} of Roost {VERSION}"):
        check_newest(database, "another", None)


def test_an_event_that_is_cut_off_is_damage(database: sqlite3.Connection) -> None:
    database.execute("UPDATE entry SET event = substr(event, 1, 3)")
    with pytest.raises(JournalError):
        check_newest(database, VERSION, None)
