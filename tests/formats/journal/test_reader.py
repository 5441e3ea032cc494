"""Reading a journal: its content, what is refused, and that a reader delays no writer."""

import os
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from roost_engine.domain.errors import JournalError
from roost_engine.domain.events import Tick
from roost_engine.engine import EngineConfig
from roost_formats.journal.codec import encode
from roost_formats.journal.journal import FILE_NAME, Journal
from roost_formats.journal.pruning import JournalLimits
from roost_formats.journal.reader import JournalReader
from roost_formats.journal.records import RunHead, Step

HEAD = RunHead(
    version="0",
    policy="heuristic",
    epoch_of_zero_s=0.0,
    began_s=0.0,
    config=encode(EngineConfig()),
)
MANY = 4_500  # more than two pieces


def ticks(count: int, first: int = 0) -> list[Step]:
    return [Step(Tick(at_s=float(first + number)), ()) for number in range(count)]


@pytest.fixture
def closed(tmp_path: Path) -> Path:
    """A journal of one long run, at rest."""
    journal = Journal.open(tmp_path)
    journal.write([HEAD, *ticks(MANY)])
    journal.close()
    return tmp_path / FILE_NAME


def times(reader: JournalReader) -> list[list[float]]:
    return [[step.event.at_s for step in reader.steps(run)] for run in reader.runs()]


def test_a_folder_stands_for_the_journal_in_it(closed: Path) -> None:
    reader = JournalReader(closed.parent)
    assert reader.path == closed
    assert times(reader) == [[float(number) for number in range(MANY)]]
    reader.close()


def test_a_path_may_hold_what_means_something_in_an_address(tmp_path: Path, closed: Path) -> None:
    odd = closed.rename(tmp_path / "a?b#c%20d.sqlite")
    reader = JournalReader(odd)
    assert reader.runs()[0].step_count == MANY
    reader.close()


def test_a_reader_holds_up_neither_writes_nor_the_folding_of_the_log(tmp_path: Path) -> None:
    journal = Journal.open(tmp_path)
    journal.write([HEAD, *ticks(MANY)])
    reader = JournalReader(tmp_path)
    (run,) = reader.runs()
    entries = reader.entries(run)
    next(entries)

    journal._db.execute("PRAGMA busy_timeout = 0")
    journal.write(ticks(1, first=MANY))
    busy, _, _ = journal._db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
    assert busy == 0

    # The entry that came meanwhile is not part of what was asked for.
    assert 1 + sum(1 for _ in entries) == MANY
    reader.close()
    journal.close()


def test_a_reader_changes_nothing_of_the_file(closed: Path) -> None:
    before = closed.read_bytes(), closed.stat().st_mtime_ns
    reader = JournalReader(closed)
    times(reader)
    reader.close()
    assert (closed.read_bytes(), closed.stat().st_mtime_ns) == before
    assert [path.name for path in closed.parent.iterdir()] == [FILE_NAME]


def test_a_daemon_that_starts_meanwhile_changes_nothing_of_what_is_read(closed: Path) -> None:
    reader = JournalReader(closed)
    entries = reader.entries(reader.runs()[0])
    next(entries)

    journal = Journal.open(closed.parent)
    journal.write([HEAD, *ticks(5)])
    journal.close()

    assert 1 + sum(1 for _ in entries) == MANY
    assert [run.step_count for run in reader.runs()] == [MANY, 5]
    reader.close()


def test_a_run_that_the_daemon_deletes_meanwhile_is_named(tmp_path: Path) -> None:
    journal = Journal.open(tmp_path, JournalLimits(max_age_s=1.0))
    journal.write([HEAD, *ticks(MANY)])
    journal.write([HEAD, *ticks(1)])
    reader = JournalReader(tmp_path)
    entries = reader.entries(reader.runs()[0])
    next(entries)
    while journal.prune():
        pass

    with pytest.raises(
        JournalError, match=r"run 1 has 2000 entries left of 4500.*read the journal"
    ):
        list(entries)
    reader.close()
    journal.close()


def read_all(path: Path) -> None:
    with closing(JournalReader(path)) as reader:
        times(reader)


def refused(path: Path) -> str:
    with pytest.raises(JournalError) as caught:
        read_all(path)
    return str(caught.value)


def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    assert f"pipe: is a pipe; want {FILE_NAME}" in refused(tmp_path / "pipe")


def test_what_is_no_journal_is_named_with_the_cure(tmp_path: Path) -> None:
    missing, empty, foreign = (tmp_path / name for name in ("none", "empty", "text"))
    empty.touch()
    foreign.write_text("submit_s,duration_s,num_gpus\n" * 9)
    other = tmp_path / "other.sqlite"
    with sqlite3.connect(other) as database:
        database.execute("CREATE TABLE run (x)")
    database.close()

    want = "want journal.sqlite of roostd's paths.state_dir"
    assert refused(missing) == f"{missing}: No such file or directory; {want}"
    assert refused(empty) == f"{empty}: the file is empty; {want}"
    assert refused(foreign) == f"{foreign}: is no journal of roostd; {want}"
    assert refused(other).startswith(f"{other}: an SQLite file, but no journal of roostd (no such")
    assert refused(tmp_path).startswith(f"{tmp_path / FILE_NAME}: No such file")


@pytest.mark.parametrize("kept_frac", [0.03, 0.5, 0.95])
def test_a_journal_that_was_cut_short_is_an_error(closed: Path, kept_frac: float) -> None:
    os.truncate(closed, int(closed.stat().st_size * kept_frac))
    told = refused(closed)
    assert told.startswith(f"{closed}: ")
    assert "the file is damaged or cut short; copy it again" in told


def test_a_journal_whose_pages_are_overwritten_is_an_error(closed: Path) -> None:
    data = bytearray(closed.read_bytes())
    data[8192:] = os.urandom(len(data) - 8192)
    closed.write_bytes(data)
    assert refused(closed).startswith(f"{closed}: ")


def test_a_record_that_cannot_be_read_is_named(closed: Path) -> None:
    with sqlite3.connect(closed) as database:
        database.execute("UPDATE entry SET event = x'09' WHERE sequence = 2345")
    database.close()
    assert f"{closed}: entry 2345: record cannot be read" in refused(closed)


def test_a_journal_of_a_later_version_is_refused(closed: Path) -> None:
    with sqlite3.connect(closed) as database:
        database.execute("UPDATE run SET format = 99")
    database.close()
    assert refused(closed) == f"{closed}: run 1 has format 99; this version reads 2: update Roost"
