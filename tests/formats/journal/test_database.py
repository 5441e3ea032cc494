"""The journal's SQLite file: how it is opened, what its errors mean, and how it is put aside."""

import sqlite3
from pathlib import Path

import pytest

from roost_engine.domain.errors import JournalError
from roost_formats.journal.database import DamagedJournal, connect, failure, is_damage, put_aside


def error_of(code: int) -> sqlite3.Error:
    error = sqlite3.DatabaseError("what SQLite said")
    error.sqlite_errorcode = code
    return error


def test_a_new_file_has_the_tables_and_syncs_every_write(tmp_path: Path) -> None:
    database = connect(tmp_path / "j")

    tables = {
        name for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type='table'")
    }
    settings = {
        name: database.execute(f"PRAGMA {name}").fetchone()[0]
        for name in ("journal_mode", "synchronous", "auto_vacuum")
    }
    database.close()

    assert tables == {
        "run",
        "entry",
        "place",
        "run_plugins",
        "run_policies",
        "memo",
        "memo_entry",
        "wait",
        "shadow",
        "past_job",
    }
    assert settings == {"journal_mode": "wal", "synchronous": 2, "auto_vacuum": 2}


def test_a_file_that_is_opened_again_keeps_what_was_written(tmp_path: Path) -> None:
    database = connect(tmp_path / "j")
    database.execute("INSERT INTO memo VALUES (1, x'0102')")
    database.close()

    database = connect(tmp_path / "j")
    assert database.execute("SELECT knowledge FROM memo").fetchone() == (b"\1\2",)
    database.close()


def test_a_process_that_opens_it_alone_shuts_others_out(tmp_path: Path) -> None:
    alone = connect(tmp_path / "j", is_alone=True)
    alone.execute("INSERT INTO memo VALUES (1, x'00')")
    other = sqlite3.connect(tmp_path / "j", timeout=0.0)

    with pytest.raises(sqlite3.OperationalError, match="locked"):
        other.execute("SELECT * FROM memo").fetchall()

    other.close()
    alone.close()


def test_bytes_that_are_no_database_are_damage(tmp_path: Path) -> None:
    file = tmp_path / "j"
    file.write_bytes(b"no database at all, however long " * 100)

    with pytest.raises(sqlite3.DatabaseError) as caught:
        connect(file)

    assert is_damage(caught.value, file)
    assert isinstance(failure(caught.value), DamagedJournal)


@pytest.mark.parametrize(
    ("code", "damaged"),
    [
        (sqlite3.SQLITE_CORRUPT, True),
        (sqlite3.SQLITE_NOTADB, True),
        (sqlite3.SQLITE_CORRUPT_INDEX, True),
        (sqlite3.SQLITE_IOERR_SHORT_READ, True),
        (sqlite3.SQLITE_FULL, False),
        (sqlite3.SQLITE_BUSY, False),
        (sqlite3.SQLITE_CANTOPEN, False),
        (sqlite3.SQLITE_IOERR_WRITE, False),
    ],
)
def test_a_broken_file_is_told_from_a_disk_that_fails(
    tmp_path: Path, code: int, damaged: bool
) -> None:
    assert is_damage(error_of(code), tmp_path / "j") is damaged


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (sqlite3.SQLITE_CORRUPT_INDEX, DamagedJournal),
        (sqlite3.SQLITE_NOTADB, DamagedJournal),
        (sqlite3.SQLITE_FULL, JournalError),
        (sqlite3.SQLITE_IOERR_WRITE, JournalError),
    ],
)
def test_an_open_journal_that_fails_says_whether_its_file_is_broken(
    code: int, kind: type[JournalError]
) -> None:
    error = failure(error_of(code))
    assert type(error) is kind
    assert str(error) == "what SQLite said"


def test_a_file_is_put_aside_together_with_its_logs(tmp_path: Path) -> None:
    for name in ("j", "j-wal", "j-shm"):
        (tmp_path / name).write_text(name)

    aside = put_aside(tmp_path / "j", "damaged")

    assert aside is not None
    assert aside.name.startswith("j.damaged-")
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {
        aside.name: "j",
        f"{aside.name}-wal": "j-wal",
        f"{aside.name}-shm": "j-shm",
    }


def test_of_a_file_that_is_gone_only_the_logs_are_put_aside(tmp_path: Path) -> None:
    (tmp_path / "j-wal").write_text("log")

    assert put_aside(tmp_path / "j", "newer") is None

    (log,) = tmp_path.iterdir()
    assert log.name.startswith("j.newer-")
    assert log.name.endswith("-wal")
