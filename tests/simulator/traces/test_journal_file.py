"""Journals as traces: restarts, requeues, damage, newer formats."""

import math
import sqlite3
from dataclasses import replace
from pathlib import Path

import pytest

from roost_engine.domain.events import Event, JobEnded, JobQueued, JobStarted, Tick
from roost_engine.domain.model import JobId, JobSpec, NodeName, NodeShare, Shape
from roost_formats.journal.journal import Journal
from roost_formats.journal.records import Record, RunHead, Step
from roost_sim.errors import TraceError
from roost_sim.traces.formats import Format, detect_format, load_trace


def queued(at_s: float, job_id: str, node_count: int, gpus_per_node: int) -> Event:
    shape = Shape(node_count=node_count, gpus_per_node=gpus_per_node)
    job = JobSpec(
        job_id=JobId(job_id), user_id=1000, partition="main", shapes=(shape,), submit_s=at_s - 1
    )
    return JobQueued(at_s=at_s, job=job)


def started(at_s: float, job_id: str, *nodes: str) -> Event:
    shares = tuple(NodeShare(NodeName(node), (0, 1)) for node in nodes)
    return JobStarted(at_s=at_s, job_id=JobId(job_id), shares=shares)


def write_journal(folder: Path, *runs: list[Event]) -> None:
    journal = Journal.open(folder)
    for events in runs:
        head = RunHead(
            version="1", policy="heuristic", epoch_of_zero_s=5_000.0, began_s=0.0, config=b""
        )
        steps: list[Record] = [Step(event, ()) for event in events]
        journal.write([head, *steps])
    journal.close()


def test_jobs_of_a_journal_across_a_restart_and_a_requeue(tmp_path: Path) -> None:
    write_journal(
        tmp_path,
        [
            queued(11.0, "1", 2, 2),
            queued(12.0, "2", 1, 2),
            started(20.0, "1", "a", "b"),
            started(30.0, "2", "c"),
            queued(40.0, "2", 1, 2),
        ],
        [
            started(50.0, "1", "a", "b"),
            started(50.0, "9", "d"),
            started(60.0, "2", "c"),
            JobEnded(at_s=70.0, job_id=JobId("1")),
            JobEnded(at_s=75.0, job_id=JobId("2")),
            Tick(at_s=80.0),
        ],
    )
    assert detect_format(tmp_path) == Format.JOURNAL
    loaded = load_trace(tmp_path)
    assert loaded.trace.submit_s.tolist() == [0.0, 1.0]
    assert loaded.trace.duration_s.tolist() == [50.0, 25.0]
    assert loaded.trace.gpu_count.tolist() == [4, 2]
    assert loaded.trace.node_count.tolist() == [2, 1]
    assert loaded.trace.user_name(0) == "1000"
    assert loaded.trace.epoch_of_zero_s == 5_010.0
    assert loaded.report.skipped == {"has not ended": 1}


def test_request_of_a_job_for_predictions(tmp_path: Path) -> None:
    job = JobSpec(
        job_id=JobId("7_2"),
        user_id=1000,
        partition="gpu",
        shapes=(Shape(node_count=1, gpus_per_node=2),),
        submit_s=5.0,
        time_limit_s=3_600.0,
        name="train",
        account="vision",
        qos="high",
    )
    running = replace(job, job_id=JobId("8"), time_limit_s=None, name="")
    share = NodeShare(NodeName("a"), (0, 1))
    write_journal(
        tmp_path,
        [
            JobQueued(at_s=6.0, job=job),
            JobStarted(at_s=9.0, job_id=JobId("8"), shares=(share,), job=running),
            started(25.0, "7_2", "a"),
            JobEnded(at_s=70.0, job_id=JobId("7_2")),
            JobEnded(at_s=70.0, job_id=JobId("8")),
        ],
    )
    trace = load_trace(tmp_path).trace
    assert [trace.job_name.of(0), trace.job_name.of(1)] == ["train", ""]
    assert {trace.account.of(0), trace.account.of(1)} == {"vision"}
    assert {trace.partition.of(0), trace.partition.of(1)} == {"gpu"}
    assert {trace.qos.of(0), trace.qos.of(1)} == {"high"}
    assert trace.time_limit_s[0] == 3_600.0
    assert math.isnan(trace.time_limit_s[1])
    assert trace.wait_s[0] == 20.0
    assert trace.is_array.tolist() == [True, False]


def test_damaged_record_and_newer_format(tmp_path: Path) -> None:
    write_journal(tmp_path, [started(1.0, "1", "a"), JobEnded(at_s=9.0, job_id=JobId("1"))])
    with sqlite3.connect(tmp_path / "journal.sqlite") as connection:
        connection.execute("INSERT INTO entry (run, event, actions) VALUES (1, x'01', x'')")
    connection.close()
    loaded = load_trace(tmp_path)
    assert (len(loaded.trace), loaded.report.bad_count) == (1, 1)
    with sqlite3.connect(tmp_path / "journal.sqlite") as connection:
        connection.execute("UPDATE run SET format = 99")
    connection.close()
    with pytest.raises(TraceError, match="journal format 99 is newer"):
        load_trace(tmp_path)
