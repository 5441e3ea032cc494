"""What the commands of the pages are run on: a throw-away cluster with jobs, and small files.

The commands are typed as they stand, with four changes: folders of a production machine become
folders of this one, job ids become those of jobs that are here, `roostctl report` is told where
the journal is, and the simulator gets fewer jobs. `sacct` prints a recording: the cluster has no
accounting.
"""

import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tests.docs.commands import ROOT

from roost_demo.stack import NodeKind, Stack

NODES = (NodeKind(name="n1", topology="bridges8"), NodeKind(name="n2", topology="cube8"))
SETTINGS = {
    "gate": {"kind": "delay"},
    "eta": {"interval_s": 1.0},
    "slurm": {"shadow_questions": False},
}
LIMIT_S = 240.0
FORECAST_LIMIT_S = 60.0
PROGRAMS = Path(sys.executable).parent  # roostctl and the others, as pip installs them
_FEWER = (
    (r"--jobs \d{3,}", "--jobs 60"),
    (r"--(window|sample)-jobs \d{3,}", r"--\1-jobs 40"),
    (r"--seeds 0-\d", "--seeds 0-1"),
)
_JOB_ID = re.compile(r"(roostctl (?:explain|job|eta)) \d+")
_NEEDS_CLUSTER = re.compile(
    r"\b(?:roostctl|roost-probe|sbatch|SBATCH|squeue|scontrol|sinfo)\b|/var/lib/roost"
)
_SACCT = """\
JobID|User|Account|Partition|QOS|Submit|Start|ElapsedRaw|Timelimit|NNodes|AllocTRES|State|JobName
"""


@dataclass(frozen=True, slots=True)
class Cluster:
    """A running Roost with a job that runs and one that waits."""

    stack: Stack
    runs: str
    waits: str


def start(stack: Stack) -> Cluster:
    """Submit a job of each kind and wait until one runs and the other has a forecast."""
    runs = stack.slurm.submit("--gres=gpu:2", "--time=60")
    stack.slurm.wait_for_state(runs, "RUNNING", timeout_s=60.0)
    ended = stack.slurm.submit("--gres=gpu:1", script="true")
    stack.slurm.wait_for_state(ended, "COMPLETED", "", timeout_s=60.0)
    waits = stack.slurm.submit("--nodes=2", "--gres=gpu:8", "--time=60")
    _wait_for_forecast(stack, waits)
    return Cluster(stack, runs, waits)


def _wait_for_forecast(stack: Stack, job_id: str) -> None:
    command = [str(PROGRAMS / "roostctl"), "--daemon", stack.operator_address, "eta", job_id]
    deadline_s = time.monotonic() + FORECAST_LIMIT_S
    while (answer := subprocess.run(command, capture_output=True, text=True)).returncode:
        assert time.monotonic() < deadline_s, answer.stderr
        time.sleep(0.5)


def needs_cluster(script: str) -> bool:
    """Return whether a script asks Slurm or roostd, or reads roostd's journal."""
    return _NEEDS_CLUSTER.search(script) is not None


def sacct_text(count: int = 24) -> str:
    """Return what sacct prints of some jobs."""
    rows = (
        f"{100 + n}|user{n % 3}|lab|main|normal|2026-10-01T10:{n:02}:00|2026-10-01T10:{n:02}:30|"
        f"{600 + 60 * n}|02:00:00|1|cpu=8,gres/gpu={1 + n % 4},node=1|COMPLETED|train{n % 5}"
        for n in range(count)
    )
    return _SACCT + "\n".join(rows) + "\n"


class Bed:
    """Runs scripts in a folder of its own.

    Args:
        folder: is filled with the files that pages speak of.
        jobs: a small trace.
        cluster: None where the script asks no cluster.
    """

    def __init__(self, folder: Path, jobs: Path, cluster: Cluster | None) -> None:
        self._folder, self._jobs, self._cluster = folder, jobs, cluster
        shutil.copy(jobs, folder / "jobs.csv")
        (folder / "october.txt").write_text(sacct_text())
        for name in ("site.yaml", "mine.yaml"):
            shutil.copy(ROOT / "benchmarks" / "networks" / "new-10.yaml", folder / name)
        for name in ("train.py", "train.sh"):
            (folder / name).write_text("#!/bin/sh\n")
        for name in ("topology", "bin", "etc"):
            (folder / name).mkdir()
        (folder / "etc" / "roostd.yaml").write_text("mode: shadow\n")
        sacct = folder / "bin" / "sacct"
        sacct.write_text(f"#!/bin/sh\ncat {folder}/october.recorded\n")
        sacct.chmod(0o755)
        (folder / "october.recorded").write_text(sacct_text())

    def run(self, script: str) -> subprocess.CompletedProcess[str]:
        """Run a script to its end; the first command that fails ends it.

        Slurm is asked whether it would take a job script.
        """
        if "\n#SBATCH " in script:
            (self._folder / "job.sh").write_text(script)
            script = "sbatch --test-only job.sh"
        return subprocess.run(
            ["bash", "-eu", "-o", "pipefail", "-c", self.changed(script)],
            cwd=self._folder,
            env=self._environment(),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
        )

    def changed(self, script: str) -> str:
        """Return a script with what this machine has in place of a production one."""
        folders = {"/etc/roost": self._folder / "etc"}
        if self._cluster is not None:
            state = self._cluster.stack.folder / "state"
            folders["/var/lib/roost"] = state
            script = script.replace("roostctl report", f"roostctl report --journal {state}")
            script = _JOB_ID.sub(rf"\1 {self._cluster.runs}", script)
            script = script.replace(f"eta {self._cluster.runs}", f"eta {self._cluster.waits}")
        for production, here in folders.items():
            script = script.replace(production, str(here))
        for pattern, fewer in _FEWER:
            script = re.sub(pattern, fewer, script)
        return script

    def _environment(self) -> Mapping[str, str]:
        environment = dict(os.environ) | {"HOME": str(self._folder)}
        if self._cluster is not None:
            stack = self._cluster.stack
            environment |= stack.slurm.env | stack.drivers["n1"].environment(stack.library_folder)
            environment |= {
                "ROOST_DAEMON": stack.operator_address,
                "ROOST_ADMIN": f"unix:{stack.folder}/admin.sock",
            }
        environment["PATH"] = f"{self._folder}/bin:{PROGRAMS}:{environment['PATH']}"
        return environment
