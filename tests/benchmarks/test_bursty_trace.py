"""The traces of bursts: what a world says is what its jobs are."""

import csv
import subprocess
import sys
from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "bursty_trace.py"


def _jobs(world: str, seed: int, out: Path) -> list[Mapping[str, str]]:
    command = [sys.executable, str(SCRIPT), world, str(seed), "-o", str(out)]
    subprocess.run(command, check=True, timeout=60)
    with out.open(newline="") as file:
        return list(csv.DictReader(file))


def test_limits_are_above_run_times_and_jobs_repeat(tmp_path: Path) -> None:
    jobs = _jobs("pods", 3, tmp_path / "jobs.csv")
    assert len(jobs) == 800
    for job in jobs:
        assert 15.0 <= float(job["duration_s"]) <= 345_600.0
        assert int(job["time_limit_s"]) >= 1.2 * float(job["duration_s"])
    kinds = [(job["user"], job["job_name"], job["num_gpus"]) for job in jobs]
    repeated = sum(kind == before for before, kind in pairwise(kinds))
    assert 0.25 < repeated / len(jobs) < 0.45
    assert {int(job["num_gpus"]) for job in jobs} == {1, 2, 4, 8, 16, 32}


def test_a_seed_is_one_trace(tmp_path: Path) -> None:
    first = _jobs("odd3", 1, tmp_path / "first.csv")
    assert _jobs("odd3", 1, tmp_path / "again.csv") == first
    assert _jobs("odd3", 2, tmp_path / "other.csv") != first


@pytest.mark.parametrize("column", ["user", "time_limit_s"])
def test_mixed_tells_neither_users_nor_limits(column: str, tmp_path: Path) -> None:
    assert {job[column] for job in _jobs("mixed", 1, tmp_path / "jobs.csv")} == {""}
