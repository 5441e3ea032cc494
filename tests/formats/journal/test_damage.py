"""A journal damaged anywhere, or of a later version: it is put aside, and there is a new one."""

import json
import shutil
import sqlite3
from dataclasses import dataclass
from math import isfinite
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.formats.journal.test_journal import head, lived

from roost_engine.domain.errors import JournalError
from roost_engine.domain.events import Event, LoadsSeen, Tick
from roost_engine.domain.model import JobId
from roost_formats.journal.codec import UnknownRecord, decode, encode, seal
from roost_formats.journal.database import DamagedJournal
from roost_formats.journal.journal import FILE_NAME, Journal
from roost_formats.journal.records import ACTIONS, EVENT, Memo, Step

STEPS, _ = lived()
WAL = f"{FILE_NAME}-wal"


def write_all(journal: Journal) -> None:
    journal.write([head()])
    for step in STEPS:
        journal.write([step])
    journal.write([Memo(encode(STEPS[-1].event))])


@pytest.fixture(scope="module")
def closed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the journal of a daemon that stopped."""
    folder = tmp_path_factory.mktemp("closed")
    journal = Journal.open(folder)
    write_all(journal)
    journal.close()
    return folder


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the journal of a daemon that was killed: the log beside it has all there is."""
    folder, left = tmp_path_factory.mktemp("running"), tmp_path_factory.mktemp("killed")
    journal = Journal.open(folder)
    write_all(journal)
    for name in (FILE_NAME, WAL, f"{FILE_NAME}-shm"):
        shutil.copy(folder / name, left / name)
    journal.close()
    assert (left / WAL).stat().st_size > 10_000
    return left


@dataclass(frozen=True)
class Harm:
    """What happened to a file: bits flipped, each at a share of its length, then the end cut."""

    flips: tuple[tuple[float, int], ...]
    kept_frac: float

    def do(self, file: Path) -> None:
        data = bytearray(file.read_bytes())
        for where_frac, bit in self.flips:
            data[int(where_frac * (len(data) - 1))] ^= 1 << bit
        file.write_bytes(data[: int(self.kept_frac * len(data))])


FRACS = st.floats(0, 1)
HARMS = st.builds(
    Harm,
    st.lists(st.tuples(FRACS | st.floats(0, 0.02), st.integers(0, 7)), min_size=1, max_size=4).map(
        tuple
    ),
    st.just(1.0) | FRACS,
)


def check_usable(folder: Path) -> Journal:
    """Open a journal as the daemon does at its start, and use it as the daemon does."""
    journal = Journal.open(folder, version=head().version)
    assert isfinite(journal.last_at_s)
    assert journal.epoch_of_zero_s is None or isfinite(journal.epoch_of_zero_s)
    journal.check()
    journal.write([head(journal.last_at_s), *STEPS, Memo(b"memo")])
    assert journal.memo() == b"memo"
    try:
        assert len(journal.places([JobId("3")])) == 1
    finally:
        journal.close()
    return journal


@settings(max_examples=150, deadline=None)
@given(HARMS, st.sampled_from([FILE_NAME, WAL, f"{FILE_NAME}-shm"]))
def test_after_any_damage_to_any_file_there_is_a_journal(
    killed: Path, harm: Harm, name: str
) -> None:
    with TemporaryDirectory() as folder:
        copy = Path(folder) / "state"
        shutil.copytree(killed, copy)
        harm.do(copy / name)

        journal = check_usable(copy)

        assert_nothing_is_lost(copy, journal)


@settings(max_examples=150, deadline=None)
@given(HARMS)
def test_after_any_damage_to_a_file_at_rest_there_is_a_journal(closed: Path, harm: Harm) -> None:
    with TemporaryDirectory() as folder:
        copy = Path(folder) / "state"
        shutil.copytree(closed, copy)
        harm.do(copy / FILE_NAME)

        journal = check_usable(copy)

        assert_nothing_is_lost(copy, journal)


def test_a_table_whose_primary_key_is_lost_is_damage(closed: Path, tmp_path: Path) -> None:
    """A memo would then come beside the one before, which would be read for good."""
    copy = tmp_path / "state"
    shutil.copytree(closed, copy)
    made = (copy / FILE_NAME).read_bytes()
    harmed = made.replace(b"only INTEGER PRIMARY KEY", b"only INTEGER PSIMARY KEY")
    assert harmed != made
    (copy / FILE_NAME).write_bytes(harmed)

    journal = check_usable(copy)

    assert "memo.only" in journal.quarantine_reason
    assert_nothing_is_lost(copy, journal)


def assert_nothing_is_lost(folder: Path, journal: Journal) -> None:
    """What was put aside is there, with a reason; the harm may be to the version's name."""
    aside = [p for p in folder.iterdir() if ".damaged-" in p.name or ".newer-" in p.name]
    if journal.quarantined is None:
        assert aside == []
    else:
        assert journal.quarantined in aside
        assert journal.quarantine_reason


RECORDS = [
    ("event", "entry", "sequence"),
    ("actions", "entry", "sequence"),
    ("config", "run", "run"),
    ("knowledge", "memo", "only"),
]


@pytest.mark.parametrize(("column", "table", "key"), RECORDS)
@pytest.mark.parametrize("cut", [0, 3, 5, -1])
def test_a_newest_record_that_is_cut_puts_the_journal_aside(
    closed: Path, tmp_path: Path, column: str, table: str, key: str, cut: int
) -> None:
    shutil.copy(closed / FILE_NAME, tmp_path / FILE_NAME)
    change_newest(tmp_path, column, table, key, lambda record: record[:cut])

    journal = check_usable(tmp_path)

    assert journal.quarantined is not None
    assert ".damaged-" in journal.quarantined.name
    assert "record cannot be read" in journal.quarantine_reason


@settings(max_examples=300, deadline=None)
@given(st.sampled_from(STEPS), st.integers(0, 10_000), st.integers(0, 7), st.none() | FRACS)
def test_a_damaged_record_is_read_or_refused(
    step: Step, position: int, bit: int, kept_frac: float | None
) -> None:
    for value, kind in ((step.event, EVENT), (step.actions, ACTIONS)):
        data = bytearray(encode(value))
        data[position % len(data)] ^= 1 << bit
        kept = data[: int(kept_frac * len(data))] if kept_frac is not None else data
        try:
            decode(bytes(kept), kind)
        except JournalError:
            continue


@pytest.mark.parametrize(
    ("column", "table", "number"),
    [("began_s", "run", "9e99"), ("epoch_of_zero_s", "run", "1e300"), ("began_s", "run", "9e999")],
)
def test_a_time_that_cannot_be_puts_the_journal_aside(
    closed: Path, tmp_path: Path, column: str, table: str, number: str
) -> None:
    """Engine time continues from it: from an absurd time on, no timer would ever fire."""
    shutil.copy(closed / FILE_NAME, tmp_path / FILE_NAME)
    execute(tmp_path, f"UPDATE {table} SET {column} = {number}")

    journal = check_usable(tmp_path)

    assert journal.quarantined is not None
    assert "beyond a century" in journal.quarantine_reason


def change_newest(folder: Path, column: str, table: str, key: str, change: object) -> None:
    database = sqlite3.connect(folder / FILE_NAME)
    query = f"SELECT {key}, {column} FROM {table} ORDER BY {key} DESC LIMIT 1"
    number, record = database.execute(query).fetchone()
    changed = change(record)  # type: ignore[operator]
    with database:
        database.execute(f"UPDATE {table} SET {column} = ? WHERE {key} = ?", (changed, number))
    database.close()


def execute(folder: Path, statement: str) -> None:
    database = sqlite3.connect(folder / FILE_NAME)
    with database:
        database.execute(statement)
    database.close()


def rename_tick(record: bytes) -> bytes:
    """An event of a kind that this version does not know, as if a later one had written it."""
    return seal(record[8:].replace(b'"Tick"', b'"Tock"'))


@pytest.mark.parametrize("writer", ["later", "same"])
@pytest.mark.parametrize("form", [1, 2])
def test_an_unknown_kind_of_event_is_damage_only_in_a_format_without_checksums(
    closed: Path, tmp_path: Path, writer: str, form: int
) -> None:
    """Checkouts share a version; an older one took the journal of a later one for damaged."""
    shutil.copy(closed / FILE_NAME, tmp_path / FILE_NAME)
    change_newest(tmp_path, "event", "entry", "sequence", rename_tick)
    execute(tmp_path, f"UPDATE run SET version = '{writer}', format = {form}")

    journal = Journal.open(tmp_path, version="same")
    journal.close()

    assert journal.quarantined is not None
    name = journal.quarantined.name
    if writer == "later" or form == 2:
        assert ".newer-" in name
        assert journal.quarantine_reason == (
            f"record cannot be read: unknown record 'Tock'; written by Roost {writer}"
        )
    else:
        assert ".damaged-" in name
    assert b"Tock" in journal.quarantined.read_bytes()


def test_a_journal_of_a_later_format_is_put_aside_as_such(closed: Path, tmp_path: Path) -> None:
    shutil.copy(closed / FILE_NAME, tmp_path / FILE_NAME)
    execute(tmp_path, "UPDATE run SET format = 3, version = '9.1'")

    journal = Journal.open(tmp_path, version="0.1.0")
    journal.close()

    assert journal.quarantined is not None
    assert ".newer-" in journal.quarantined.name
    assert journal.quarantine_reason == "format 3 of Roost 9.1; this one reads 2"


@pytest.mark.parametrize("dtype", ["|O8", "<f4,<f4", "1+", "(2", "", "<V4"])
def test_an_array_of_anything_but_numbers_is_damage(dtype: str) -> None:
    load = next(step.event for step in STEPS if isinstance(step.event, LoadsSeen))
    text = b'"dtype":"<f4"'
    data = encode(load)
    assert text in data
    length = int.from_bytes(data[:4], "little") & ~(1 << 31)
    forged = data[8 : 8 + length].replace(text, b'"dtype":' + json.dumps(dtype).encode())

    with pytest.raises(JournalError, match="is no type of numbers"):
        decode(seal(forged, [data[8 + length :]]), EVENT)


def test_a_field_that_a_later_version_added_is_told_from_damage() -> None:
    tick: Event = Tick(at_s=1.0)
    later = seal(encode(tick)[8:].replace(b'"at_s":1.0', b'"at_q":1.0'))
    with pytest.raises(UnknownRecord, match="Tick has no field 'at_q'"):
        decode(later, EVENT)


def test_what_is_put_aside_never_replaces_what_was_put_aside_before(tmp_path: Path) -> None:
    for number in range(3):
        (tmp_path / FILE_NAME).write_bytes(b"garbage %d" % number)
        Journal.open(tmp_path).close()

    kept = sorted(path.read_bytes() for path in tmp_path.iterdir() if ".damaged-" in path.name)
    assert kept == [b"garbage 0", b"garbage 1", b"garbage 2"]


def test_damage_that_shows_only_in_use_is_told_from_a_full_disk(tmp_path: Path) -> None:
    journal = Journal.open(tmp_path)
    journal.write([head(), *STEPS])
    journal._db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    file = tmp_path / FILE_NAME
    file.write_bytes(file.read_bytes()[:4096] + b"\xff" * (file.stat().st_size - 4096))

    journal._db.execute("PRAGMA shrink_memory")  # forget the sound pages

    with pytest.raises(DamagedJournal):
        journal.write(STEPS)
    journal.close()

    again = Journal.open(tmp_path, known_damage="seen in use")
    again.close()
    assert again.quarantine_reason == "seen in use"


def test_a_damaged_file_that_was_deleted_in_use_is_made_again(tmp_path: Path) -> None:
    Journal.open(tmp_path, known_damage="seen in use").close()

    assert (tmp_path / FILE_NAME).exists()
