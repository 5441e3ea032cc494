"""Past jobs: what is written is read, by id and by time, and the oldest are forgotten."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from roost_engine.domain.model import JobId, NodeName, NodeShare
from roost_formats.journal import past_jobs
from roost_formats.journal.codec import encode
from roost_formats.journal.journal import Journal
from roost_formats.journal.past_jobs import KEPT_S, PastJob
from roost_formats.journal.reader import JournalReader

N1 = NodeName("n1")


def job(number: int, ended_s: float = 100.0, gpus: tuple[int, ...] = (0, 1)) -> PastJob:
    return PastJob(
        job_id=JobId(str(number)),
        user_id=7,
        partition="main",
        gpu_count=2,
        is_binding=False,
        queued_s=10.0,
        decided_s=20.0,
        started_s=40.0,
        ended_s=ended_s,
        planned=(NodeShare(N1, (0, 1)),),
        allocated=(NodeShare(N1, gpus),),
        link_score=20,
        speeds_frac=(1.0, 0.8, 0.5),
    )


@pytest.fixture
def journal(tmp_path: Path) -> Iterator[Journal]:
    with closing(Journal.open(tmp_path)) as journal:
        yield journal


def kept(folder: Path) -> list[str]:
    """The jobs that a reader of the journal finds."""
    with closing(JournalReader(folder)) as reader:
        return [one.job_id for one in reader.past_jobs(0.0, 1e9)]


def test_the_last_job_of_an_id_is_found(journal: Journal) -> None:
    journal.write([job(1, 100.0), job(2, 110.0), job(1, 120.0)])
    assert journal.past_job(JobId("1")) == job(1, 120.0)
    assert journal.past_job(JobId("3")) is None


def test_the_jobs_of_a_time_come_in_order(
    journal: Journal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(past_jobs, "_PIECE_ROWS", 2)
    ends_s = [130.0, 100.0, 110.0, 110.0, 110.0, 120.0, 140.0]
    journal.write([job(number, ended_s) for number, ended_s in enumerate(ends_s)])
    with closing(JournalReader(tmp_path)) as reader:
        found = [(one.job_id, one.ended_s) for one in reader.past_jobs(105.0, 140.0)]
    assert found == [("2", 110.0), ("3", 110.0), ("4", 110.0), ("5", 120.0), ("0", 130.0)]


def test_old_jobs_and_those_beyond_the_limit_are_forgotten(
    journal: Journal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(past_jobs, "KEPT_COUNT", 3)
    monkeypatch.setattr("time.time", lambda: KEPT_S + 102.5)
    journal.write([job(number, 100.0 + number) for number in range(8)])
    journal.forget_past_jobs()
    assert kept(tmp_path) == ["5", "6", "7"]
    monkeypatch.setattr("time.time", lambda: KEPT_S + 106.5)
    journal.forget_past_jobs()
    assert kept(tmp_path) == ["7"]


def test_a_journal_of_an_earlier_version_has_none(journal: Journal, tmp_path: Path) -> None:
    journal.close()
    with closing(sqlite3.connect(tmp_path / "journal.sqlite")) as db, db:
        db.execute("DROP TABLE past_job")
    assert kept(tmp_path) == []


def test_a_job_is_as_planned_where_it_has_just_the_chosen_gpus() -> None:
    assert job(1).is_as_planned
    assert not job(1, gpus=(0, 2)).is_as_planned
    assert job(1).run_gpu_s == 120.0


def test_a_job_takes_less_than_a_kilobyte() -> None:
    assert len(encode(job(4711))) < 1000
