"""The shell example of docs/interference.md reports to an agent, and continues without one."""

import os
import subprocess
from pathlib import Path

from tests.docs.fake_agent import fake_agent, script


def run(text: str) -> subprocess.CompletedProcess[str]:
    """Run it in job 7."""
    return subprocess.run(
        ["bash", "-euc", text],
        env=os.environ | {"SLURM_JOB_ID": "7"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_a_batch_script_reports_its_steps() -> None:
    with fake_agent() as agent:
        done = run(script(agent.path))
    assert (done.returncode, done.stderr) == (0, "")
    assert agent.reports == [{"op": "progress", "job_id": 7, "steps": 4000}]


def test_a_batch_script_continues_without_an_agent(tmp_path: Path) -> None:
    done = run(script(tmp_path / "gone.sock") + "echo goes on\n")
    assert (done.returncode, done.stdout) == (0, "goes on\n")
