"""The journal at the start: sound, damaged, of a later version, or not to be had at all."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
import structlog
from tests.daemon.app.parts import HEAD

from roost_engine.domain.errors import JournalError
from roost_engine.domain.events import Tick
from roost_formats.journal.codec import seal
from roost_formats.journal.journal import FILE_NAME, Journal
from roost_formats.journal.pruning import JournalLimits
from roost_formats.journal.records import Step
from roostd.app.decision.journal_opening import JournalOpener, OpenedJournal


def opener(folder: Path) -> JournalOpener:
    return JournalOpener(folder, JournalLimits(), "9.9")


def write(folder: Path, at_s: float) -> None:
    journal = Journal.open(folder)
    journal.write([HEAD, Step(Tick(at_s=at_s), ())])
    journal.close()


def test_without_a_journal_engine_time_begins_at_zero() -> None:
    nothing = OpenedJournal(None, "no disk")
    assert (nothing.last_at_s, nothing.epoch_of_zero_s) == (0.0, None)


def test_engine_time_continues_from_the_newest_entry(tmp_path: Path) -> None:
    write(tmp_path, 77.0)

    opened = opener(tmp_path).at_start()

    assert opened.fault == ""
    assert (opened.last_at_s, opened.epoch_of_zero_s) == (77.0, HEAD.epoch_of_zero_s)
    assert opened.journal is not None
    opened.journal.close()


def test_a_damaged_journal_is_put_aside_and_a_new_one_begun(tmp_path: Path) -> None:
    (tmp_path / FILE_NAME).write_bytes(b"no database " * 500)

    with structlog.testing.capture_logs() as logs:
        opened = opener(tmp_path).at_start()

    assert opened.journal is not None
    assert (opened.fault, opened.last_at_s) == ("", 0.0)
    opened.journal.close()
    (entry,) = logs
    assert entry["event"] == "journal_damaged"
    assert Path(entry["put_aside"]).read_bytes() == b"no database " * 500


def test_a_journal_of_a_later_version_is_logged_as_such(tmp_path: Path) -> None:
    write(tmp_path, 77.0)
    with closing(sqlite3.connect(tmp_path / FILE_NAME)) as database, database:
        (event,) = database.execute("SELECT event FROM entry").fetchone()
        later = seal(event[8:].replace(b'"Tick"', b'"Tock"'))
        database.execute("UPDATE entry SET event = ?", (later,))

    with structlog.testing.capture_logs() as logs:
        opener(tmp_path).open().close()

    (entry,) = logs
    assert entry["event"] == "journal_newer"
    assert entry["error"] == "record cannot be read: unknown record 'Tock'; written by Roost 0"


def test_damage_that_was_found_in_use_is_given_as_the_reason(tmp_path: Path) -> None:
    write(tmp_path, 77.0)

    with structlog.testing.capture_logs() as logs:
        journal = opener(tmp_path).open("row 3 missing")

    assert journal.last_at_s == 0.0
    journal.close()
    assert [entry["error"] for entry in logs] == ["row 3 missing"]


def test_a_journal_that_cannot_be_opened_is_a_fault_with_a_cure_and_no_failed_start(
    tmp_path: Path,
) -> None:
    (tmp_path / FILE_NAME).mkdir()

    with structlog.testing.capture_logs() as logs:
        opened = opener(tmp_path).at_start()

    assert opened.journal is None
    assert str(tmp_path / FILE_NAME) in opened.fault
    (entry,) = logs
    assert entry["event"] == "journal_unusable"
    assert "placement continues" in entry["cure"]
    with pytest.raises(JournalError):
        opener(tmp_path).open()


def test_a_journal_that_takes_no_write_is_still_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path, 77.0)

    def fail(journal: Journal) -> None:
        raise JournalError("database or disk is full")

    monkeypatch.setattr(Journal, "check", fail)
    opened = opener(tmp_path).at_start()

    assert opened.fault == "database or disk is full"
    assert opened.last_at_s == 77.0
    assert opened.journal is not None
    opened.journal.close()
