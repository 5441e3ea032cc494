"""The Ray engine: the same numbers, and what is missing without Ray."""

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

from tests.conftest import missing
from tests.simulator.sweeps.program import ARGUMENTS, WINDOW, printed


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
