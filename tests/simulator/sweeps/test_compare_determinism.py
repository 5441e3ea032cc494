"""The same numbers whatever the hash seed, the number of processes, and with Ray or without."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
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


@pytest.mark.parametrize(("hash_seed", "processes"), [("4242", "1"), ("7", "2")])
def test_processes_and_hash_seeds_change_nothing(
    trace: Path, expected: str, hash_seed: str, processes: str
) -> None:
    assert printed(trace, hash_seed, "--processes", processes) == expected
