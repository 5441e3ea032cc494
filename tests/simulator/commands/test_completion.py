"""`roost-sim completion`: scripts that the shells accept."""

import shutil
import subprocess

import pytest
from click.testing import CliRunner

from roost_sim.cli import cli


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_completion_script_is_one_that_the_shell_takes(shell: str) -> None:
    script = CliRunner().invoke(cli, ["completion", shell]).stdout
    assert "_ROOST_SIM_COMPLETE" in script
    if shutil.which(shell):
        subprocess.run([shell, "-n"], input=script, text=True, check=True)
