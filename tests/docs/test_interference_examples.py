"""The shell example of docs/interference.md reports to an agent, and continues without one."""

import os
import subprocess
import sys
from pathlib import Path

from tests.docs.fake_agent import fake_agent, script

OUTPUT = "loading\nstep 40: loss 3.1\nstep 41: loss 3.0\ndone"  # without an end of the last line


def run(folder: Path, agent: Path, exit_code: int = 0) -> subprocess.CompletedProcess[str]:
    """Run it in job 7, with a program that prints OUTPUT."""
    words = f"-m roost_probe.progress --agent-socket {agent}"
    (folder / "roost-progress").write_text(f'#!/bin/sh\nexec {sys.executable} {words} "$@"\n')
    (folder / "train").write_text(f"#!/bin/sh\nprintf '%s' '{OUTPUT}'\nexit {exit_code}\n")
    for program in folder.iterdir():
        program.chmod(0o755)
    return subprocess.run(
        ["bash", "-euc", script() + "echo goes on\n"],
        cwd=folder,
        env=os.environ | {"SLURM_JOB_ID": "7", "PATH": f"{folder}:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_a_batch_script_reports_its_steps_once_a_minute(tmp_path: Path) -> None:
    with fake_agent() as agent:
        done = run(tmp_path, agent.path)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == f"{OUTPUT}\ngoes on\n"
    assert agent.reports == [{"op": "progress", "job_id": 7, "steps": 40}]


def test_a_batch_script_continues_without_an_agent(tmp_path: Path) -> None:
    done = run(tmp_path, Path("/gone.sock"))
    assert (done.returncode, done.stdout) == (0, f"{OUTPUT}\ngoes on\n")
    assert done.stderr.startswith("roost-progress: /gone.sock: ")


def test_a_failure_of_the_program_ends_the_batch_script(tmp_path: Path) -> None:
    with fake_agent() as agent:
        done = run(tmp_path, agent.path, exit_code=3)
    assert (done.returncode, done.stdout) == (3, f"{OUTPUT}\n")
