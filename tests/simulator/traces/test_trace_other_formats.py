import json
import sqlite3
from pathlib import Path

import pytest

from roost_engine.domain.events import Event, JobEnded, JobQueued, JobStarted, Tick
from roost_engine.domain.model import JobId, JobSpec, NodeName, NodeShare, Shape
from roost_formats.journal.journal import Journal, Record, RunHead, Step
from roost_sim.errors import TraceError
from roost_sim.traces.formats import Format, detect_format, load_trace
from roost_sim.traces.sacct_file import gpus_of
from roost_sim.traces.trace import UNKNOWN, Status

SACCT = """\
JobID|User|Submit|Elapsed|NNodes|AllocTRES|ReqTRES|State
101|ada|2026-03-01T10:00:00|1-02:03:04|2|cpu=16,gres/gpu:a100=8,gres/gpu=8,node=2||COMPLETED
101.batch||2026-03-01T10:00:00|1-02:03:04|1|cpu=8||COMPLETED
102_3|bob|2026-03-01T10:00:30|02:00|1|gres/gpu:g2=1,gres/gpu:g3=1||CANCELLED by 1000
103|bob|2026-03-01T10:01:00|00:00:00|0||cpu=1,gres/gpu=4|CANCELLED by 1000
104|bob|2026-03-01T10:02:00|00:10:00|1|cpu=4||COMPLETED
105|eve|2026-03-01T10:03:00|00:10:00|1|gres/gpu=1||RUNNING
106|eve|2026-03-01T10:04:00|00:00:10|1|gres/gpu=1||OUT_OF_MEMORY
"""


def test_sacct_text(tmp_path: Path) -> None:
    path = tmp_path / "sacct.txt"
    path.write_text(SACCT)
    loaded = load_trace(path)
    trace = loaded.trace
    assert trace.submit_s.tolist() == [0.0, 30.0, 240.0]
    assert trace.duration_s.tolist() == [93_784.0, 120.0, 10.0]
    assert trace.gpu_count.tolist() == [8, 2, 1]
    assert trace.node_count.tolist() == [2, 1, 1]
    assert trace.status.tolist() == [Status.COMPLETED, Status.CANCELLED, Status.FAILED]
    assert trace.user_names == ("ada", "bob", "eve")
    assert loaded.report.skipped == {
        "is a job step": 1,
        "ran for no time": 1,
        "asks for no GPU": 1,
        "has not ended": 1,
    }
    assert loaded.report.bad_count == 0


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        ("1|2026-03-01T10:00:00|soon|gres/gpu=1", "Elapsed is not [days-][hours:]"),
        ("1|Unknown|00:10|gres/gpu=1", "not a date and time such as"),
        ("1|a|b|2026-03-01T10:00:00|00:10|gres/gpu=1", "wrong number of fields, got '6 of 4'"),
    ],
)
def test_bad_sacct_row(tmp_path: Path, row: str, reason: str) -> None:
    path = tmp_path / "sacct.txt"
    good = "2|2026-03-01T10:00:00|00:10|gres/gpu=1"
    path.write_text(f"JobID|Submit|Elapsed|AllocTRES\n{row}\n{good}\n")
    loaded = load_trace(path)
    assert len(loaded.trace) == 1
    assert str(loaded.report.examples[0]).startswith(f"{path}:2: {reason}")
    with pytest.raises(TraceError, match=r"sacct\.txt:2: "):
        load_trace(path, strict=True)


def test_missing_sacct_field_says_how_to_write_the_file(tmp_path: Path) -> None:
    path = tmp_path / "sacct.txt"
    path.write_text("JobID|Submit|AllocTRES\n")
    with pytest.raises(TraceError, match=r"txt:1: no field ElapsedRaw or Elapsed; .* sacct -a -P"):
        load_trace(path)


@pytest.mark.parametrize(
    ("tres", "count"),
    [
        ("", 0),
        ("billing=8,cpu=8,mem=4G", 0),
        ("gres/gpu=3", 3),
        ("gres/gpu:a100=4,gres/gpu=4", 4),
        ("gres/gpu:g0=1,gres/gpu:g5=1", 2),
        ("gres/gpumem=40G,gres/gpu=2", 2),
    ],
)
def test_gpus_of_a_tres_list(tres: str, count: int) -> None:
    assert gpus_of(tres) == count


def attempt(start: str | None, end: str | None, *gpus_per_machine: int) -> dict[str, object]:
    detail = [
        {"ip": f"m{i}", "gpus": [f"gpu{g}" for g in range(count)]}
        for i, count in enumerate(gpus_per_machine)
    ]
    return {"start_time": start, "end_time": end, "detail": detail}


def test_philly_as_published(tmp_path: Path) -> None:
    jobs = [
        {
            "status": "Pass",
            "vc": "6214e9",
            "jobid": "application_1",
            "attempts": [
                attempt("2017-10-09 10:00:00", "2017-10-09 11:00:00", 8, 8),
                attempt("2017-10-09 12:00:00", "2017-10-09 12:00:30", 8, 8),
            ],
            "submitted_time": "2017-10-09 09:59:00",
            "user": "2a9b",
        },
        {
            "status": "Killed",
            "jobid": "application_2",
            "attempts": [],
            "submitted_time": "2017-10-09 10:59:00",
            "user": "2a9b",
        },
        {
            "status": "Pass",
            "attempts": [
                attempt("2017-10-09 10:00:00", "2017-10-09 10:00:05", 1),
                attempt("2017-10-09 10:01:00", None, 1),
            ],
            "submitted_time": "2017-10-09 09:00:00",
            "user": "x",
        },
        {
            "status": "Failed",
            "attempts": [attempt("2017-10-09 10:00:00", "2017-10-09 10:00:05", 1)],
            "submitted_time": "None",
            "user": "x",
        },
    ]
    path = tmp_path / "cluster_job_log"
    path.write_text(json.dumps(jobs, indent=1))
    loaded = load_trace(path)
    assert loaded.trace.duration_s.tolist() == [3_630.0]
    assert (loaded.trace.gpu_count[0], loaded.trace.node_count[0]) == (16, 2)
    assert loaded.trace.user_name(0) == "2a9b"
    assert loaded.trace.epoch_of_zero_s == 1_507_543_140.0
    assert loaded.report.skipped == {"was never started": 1, "has not ended": 1}
    (bad,) = loaded.report.examples
    lines = path.read_text().splitlines()
    assert lines[bad.line - 1].strip() == "{"
    assert '"Failed"' in lines[bad.line]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[{]", ":1: not JSON"),
        ("[1 2]", ":1: not JSON: want , or ]"),
        ("[" * 100_000, ":1: no jobs: nested too deeply"),
        ("[\n{},\n3]", "no usable job; the first bad row: .*:2: attempts is no list"),
    ],
)
def test_damaged_philly_file(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "log.json"
    path.write_text(text)
    with pytest.raises(TraceError, match=message):
        load_trace(path)


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


def test_node_count_of_a_trace_without_it_is_unknown(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("submit_s,duration_s,num_gpus\n0,1,1\n")
    assert load_trace(path).trace.node_count.tolist() == [UNKNOWN]
