"""Philly's JSON as published, and a damaged one."""

import json
from pathlib import Path

import pytest

from roost_sim.errors import TraceError
from roost_sim.traces.formats import load_trace


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
    assert (loaded.trace.account.of(0), loaded.trace.wait_s[0]) == ("6214e9", 60.0)
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
