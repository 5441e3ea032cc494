"""The benchmark of the placement rules, on a cluster small enough for every test run."""

import json
import subprocess
import sys
from pathlib import Path

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "placements.py"


def test_times_what_fits() -> None:
    arguments = ["--nodes", "4", "--busy-frac", "0.1", "--count", "2", "--json", "knn", "strict"]
    done = subprocess.run(
        [sys.executable, SCRIPT, *arguments], capture_output=True, text=True, check=True
    )
    figures = json.loads(done.stdout)
    timed = {name for name in figures if name.endswith("_ms")}
    # 32 GPUs: 64 do not fit.
    assert {"knn.gpus_1_ms", "knn.gpus_8_ms", "strict.gpus_1_ms"} <= timed
    assert not any("gpus_64" in name for name in timed)
    assert all(0 < figures[name] < 1000 for name in timed)
