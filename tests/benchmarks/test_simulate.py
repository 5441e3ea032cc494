"""The benchmark of the simulator, on a workload small enough for every test run."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "simulate.py"


@pytest.mark.parametrize("has_trace", [False, True])
def test_reports_every_job_and_its_speed(tmp_path: Path, has_trace: bool) -> None:
    arguments = ["--jobs", "60", "--json"]
    if has_trace:
        trace = tmp_path / "jobs.csv"
        rows = "".join(f"{10 * n},{100 + n},{1 + n % 8}\n" for n in range(80))
        trace.write_text(f"submit_s,duration_s,num_gpus\n{rows}")
        arguments += ["--trace", str(trace)]
    done = subprocess.run(
        [sys.executable, SCRIPT, *arguments], capture_output=True, text=True, check=True
    )
    figures = json.loads(done.stdout)
    assert (figures["jobs"], figures["completed"]) == (60, 60)
    assert figures["jobs_per_s"] == pytest.approx(60 / figures["seconds"], rel=0.05)
    assert 10 < figures["rss_mb"] < 1000
