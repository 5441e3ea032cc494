"""Every program says its version."""

import subprocess
import sys
from importlib.metadata import version

import pytest

PROGRAMS = {
    "roostd": "roostd.cli",
    "roost-probe": "roost_probe.cli",
    "roost-progress": "roost_probe.progress",
    "roost-slurm": "roost_slurm.cli",
    "roostctl": "roostctl.main",
    "roost-sim": "roost_sim.cli",
    "roost-train": "roost_train.cli",
}


@pytest.mark.parametrize("program", PROGRAMS)
def test_version_names_the_program_and_the_release(program: str) -> None:
    script = f"import sys; from {PROGRAMS[program]} import main; sys.exit(main())"
    argv = [sys.executable, "-c", script, "--version"]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == f"{program}, version {version('roost')}\n"
