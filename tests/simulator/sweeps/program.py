"""Runs `roost-sim compare` on a small trace in another process."""

import json
import os
import subprocess
import sys
from pathlib import Path

ARGUMENTS = ("--policies", "fifo,sjf,random-order", "--seeds", "0,1", "--load", "1.1")
WINDOW = ("--window-jobs", "30", "--cluster", "small", "--json")


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
    """Leave out the figures that are wall times."""
    if isinstance(value, dict):
        return {
            name: without_times(inner)
            for name, inner in value.items()
            if name != "wall_s" and not name.startswith("decision_")
        }
    return [without_times(inner) for inner in value] if isinstance(value, list) else value
