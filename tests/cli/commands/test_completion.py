"""`roostctl completion SHELL`."""

import shutil
import subprocess

import pytest
from click.testing import CliRunner

from roostctl.main import cli


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_prints_a_script_that_the_shell_can_read(shell: str) -> None:
    result = CliRunner().invoke(cli, ["completion", shell])
    assert result.exit_code == 0
    assert "_ROOSTCTL_COMPLETE" in result.stdout
    program = shutil.which(shell)
    if program is None:
        pytest.skip(f"{shell} is not installed: its script was printed, but not read")
    done = subprocess.run([program, "-n"], input=result.stdout, text=True, timeout=60)
    assert done.returncode == 0


def test_refuses_a_shell_that_click_does_not_know() -> None:
    result = CliRunner().invoke(cli, ["completion", "tcsh"])
    assert result.exit_code == 2
    assert "'bash', 'zsh', 'fish'" in result.stderr
