"""waits: the next daemon learns from the journal how long each job has waited."""

import sqlite3
import struct
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
from tests.formats.journal.test_journal import head

from roost_engine.domain.errors import JournalError
from roost_engine.domain.events import EarlierRuns, JobQueued, JobStarted, Tick, WaitSoFar
from roost_engine.domain.model import JobId
from roost_engine.testing.builders import job
from roost_formats.journal import waits
from roost_formats.journal.codec import decode, encode
from roost_formats.journal.journal import FILE_NAME, Journal
from roost_formats.journal.pruning import JournalLimits
from roost_formats.journal.records import EVENT, Step

ONE, TWO = JobId("1"), JobId("2")
WAIT = WaitSoFar(
    since_s=5.25,
    declined_s=(6.0, None),
    refusal_count=3,
    not_before_s=80.5,
    pause_reason="pauses after a refusal: node busy",
    runs=EarlierRuns(run_s=7.5, run_s_by_tier=(7.5, 0.0, 0.0), stop_count=2, work_s=6.25),
    precedence=-1,
    overtakes=(JobId("2"), JobId("3_7")),
)


def step(at_s: float, *changes: waits.WaitChange) -> Step:
    return Step(Tick(at_s=at_s), (), changes)


def test_waits_outlive_a_run_and_the_journal_s_process(tmp_path: Path) -> None:
    with closing(Journal.open(tmp_path)) as journal:
        assert journal.waits() == {}
        journal.write([head(), step(1.0, (ONE, WaitSoFar(since_s=1.0)), (TWO, WAIT))])
        journal.write([head(2.0), step(3.0, (ONE, WAIT))])
    with closing(Journal.open(tmp_path)) as journal:
        assert journal.waits() == {ONE: WAIT, TWO: WAIT}


def test_a_job_that_left_the_queue_has_no_wait(tmp_path: Path) -> None:
    with closing(Journal.open(tmp_path)) as journal:
        journal.write([head(), step(1.0, (ONE, WAIT), (TWO, WAIT)), step(2.0, (ONE, None))])
        assert list(journal.waits()) == [TWO]


def test_the_newest_waits_are_remembered_and_the_others_are_deleted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(waits, "REMEMBERED_WAITS", 2)
    with closing(Journal.open(tmp_path, JournalLimits(max_age_s=0.0))) as journal:
        journal.write([head(epoch_s=0.0)])
        journal.write([step(float(n), (JobId(str(n)), WAIT)) for n in range(4)])
        assert sorted(journal.waits()) == ["2", "3"]
        journal.write([head(5.0, epoch_s=0.0)])
        while journal.prune():
            pass
        monkeypatch.setattr(waits, "REMEMBERED_WAITS", 10)
        assert sorted(journal.waits()) == ["2", "3"]


def test_a_damaged_wait_is_an_error_of_the_journal(tmp_path: Path) -> None:
    with closing(Journal.open(tmp_path)) as journal:
        journal.write([head(), step(1.0, (ONE, WAIT))])
    with closing(sqlite3.connect(tmp_path / FILE_NAME)) as db, db:
        db.execute("UPDATE wait SET wait = x'00'")
    with closing(Journal.open(tmp_path)) as journal, pytest.raises(JournalError):
        journal.waits()


def test_a_journal_from_before_waits_gets_the_table(tmp_path: Path) -> None:
    with closing(Journal.open(tmp_path)) as journal:
        journal.write([head(), step(1.0)])
    with closing(sqlite3.connect(tmp_path / FILE_NAME)) as db, db:
        db.execute("DROP TABLE wait")
    with closing(Journal.open(tmp_path)) as journal:
        assert journal.waits() == {}
        journal.write([step(2.0, (ONE, WAIT))])
        assert journal.waits() == {ONE: WAIT}


def test_an_event_carries_a_wait_exactly() -> None:
    event = JobQueued(at_s=90.0, job=job("1"), wait=WAIT)
    assert decode(encode(event), EVENT) == event


@pytest.mark.parametrize(
    "event",
    [
        JobQueued(at_s=90.0, job=job("1")),
        JobStarted(at_s=90.0, job_id=ONE, shares=(), job=job("1"), since_s=80.0),
    ],
    ids=lambda event: type(event).__name__,
)
def test_an_event_of_an_earlier_version_has_no_wait(event: JobQueued | JobStarted) -> None:
    earlier = without(encode(event), ',"wait":null', ',"queued_s":null', ',"runs":null')
    assert decode(earlier, EVENT) == event


def test_a_wait_of_an_earlier_version_has_no_runs() -> None:
    wait = replace(WAIT, runs=None)
    assert decode(without(encode(wait), ',"runs":null'), WaitSoFar) == wait


def without(data: bytes, *fields: str) -> bytes:
    """A record as a version wrote it that did not have these fields."""
    text = data[8:].decode()
    earlier = text
    for field in fields:
        earlier = earlier.replace(field, "")
    assert len(earlier) < len(text)
    return struct.pack("<I", len(earlier)) + earlier.encode()
