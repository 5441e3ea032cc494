"""The program: what its commands print, and how they fail."""

import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no device that is always full here")
def test_output_that_cannot_be_written_is_one_line(trace: Path, cluster: Path) -> None:
    argv = ["run", "--trace", str(trace), "--cluster", str(cluster), "--json"]
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "roost_sim.cli", *argv],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert done.returncode == 2
    assert done.stderr.endswith("roost-sim: No space left on device\n")
