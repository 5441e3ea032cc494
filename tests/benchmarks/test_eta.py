"""The benchmark of forecasts, on a workload small enough for every test run."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "eta.py"
# Seed 3: jobs wait at several of the moments.
SMALL = (
    "--seed",
    "3",
    "--jobs",
    "400",
    "--cluster",
    "venus/10",
    "--load",
    "3",
    "--moments",
    "12",
    "--json",
)


def figures(*arguments: str) -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, SCRIPT, *SMALL, *arguments], capture_output=True, text=True, check=True
    )
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_compares_forecasts_with_what_came() -> None:
    found = figures("--policy", "fifo", "--learn-every-s", "3600")
    assert found["waiting_most"] > 0
    assert found["learning_forecasts"] > 12
    counted = [half for half in ("first", "second") if f"{half}_starts" in found]
    assert counted
    for half in counted:
        assert 0 <= found[f"{half}_starts_inside_frac"] <= 1
        assert found[f"{half}_median_error_factor"] >= 1


def test_times_a_longer_queue() -> None:
    found = figures("--policy", "fifo", "--waiting", "200", "--draws", "2")
    assert (found["waiting"], found["draws"]) == (200, 2)
    assert found["forecast_s"] > 0
