"""The benchmark of a whole month, on a few jobs."""

import json
import subprocess
import sys
from pathlib import Path

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "month.py"


def test_reports_each_policy_and_its_time() -> None:
    done = subprocess.run(
        [sys.executable, SCRIPT, "--jobs", "40", "--json"],
        capture_output=True,
        text=True,
        check=True,
    )
    figures = json.loads(done.stdout)
    assert (figures["jobs"], figures["gpus"], figures["load"]) == (40, 1064, 1.1)
    assert list(figures["runs"]) == ["roost-no-preemption", "roost"]
    for run in figures["runs"].values():
        assert run["completed"] == 40
        assert 0 < run["seconds"] < 60
