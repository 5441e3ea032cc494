"""The Ray engine: the same numbers, and what is missing without Ray."""

import json
import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
from tests.conftest import missing
from tests.simulator.sweeps.cases import csv_of, jobs

ARGUMENTS = ("--policies", "fifo,sjf,random-order", "--seeds", "0,1", "--load", "1.1")


WINDOW = ("--window-jobs", "30", "--cluster", "small", "--json")


@pytest.fixture(scope="module")
def trace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("trace") / "jobs.csv"
    path.write_text(csv_of(jobs(60)))
    return path


@pytest.fixture(scope="module")
def expected(trace: Path) -> str:
    """From one process."""
    return printed(trace, "0", "--processes", "1")


def printed(trace: Path, hash_seed: str, *options: str) -> str:
    """What the program prints, less the wall times."""
    argv = ["compare", "--trace", str(trace), *ARGUMENTS, *WINDOW, *options]
    done = subprocess.run(
        [sys.executable, "-m", "roost_sim.cli", *argv],
        env={**os.environ, "PYTHONHASHSEED": hash_seed},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return json.dumps(without_times(json.loads(done.stdout)))


def without_times(value: object) -> object:
    if isinstance(value, dict):
        return {
            name: without_times(inner)
            for name, inner in value.items()
            if name != "wall_s" and not name.startswith("decision_")
        }
    return [without_times(inner) for inner in value] if isinstance(value, list) else value


def test_ray_changes_nothing(trace: Path, expected: str) -> None:
    if find_spec("ray") is None:
        missing("Ray is not installed: pip install 'roost[ray]'")
    assert printed(trace, "11", "--engine", "ray", "--processes", "2") == expected


def test_without_ray_the_extra_is_named(trace: Path, tmp_path: Path) -> None:
    (tmp_path / "ray.py").write_text("raise ImportError('hidden by a test')")
    argv = ["compare", "--trace", str(trace), "--engine", "ray", *ARGUMENTS, *WINDOW]
    done = subprocess.run(
        [sys.executable, "-m", "roost_sim.cli", *argv],
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 2
    assert done.stderr == "roost-sim: --engine ray needs Ray: pip install 'roost[ray]'\n"
