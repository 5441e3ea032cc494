"""The demonstration as a newcomer runs it: it says what it runs on, shows all, leaves nothing."""

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.conftest import missing

from roost_slurm.testing.local_slurm import LocalSlurmUnavailable, check_available

pytestmark = pytest.mark.nvml

JOB_COUNT = 20


@pytest.fixture
def short_folder() -> Iterator[Path]:
    """A folder that slurmctld's user can reach, with room for socket names below it."""
    with tempfile.TemporaryDirectory(prefix="demo-") as name:
        folder = Path(name)
        folder.chmod(0o755)
        yield folder


def start(folder: Path, *options: str) -> subprocess.Popen[str]:
    environ = dict(os.environ) | {"TMPDIR": str(folder), "PYTHONUNBUFFERED": "1"}
    return subprocess.Popen(
        [sys.executable, "-m", "roost_demo.cli", *options],
        env=environ,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def assert_nothing_is_left(folder: Path) -> None:
    left = [path.name for path in folder.iterdir() if path.name.startswith("roost-")]
    assert left == []
    users = [
        entry.name
        for entry in Path("/proc").iterdir()
        if entry.name.isdigit() and str(folder).encode() in command_line(entry)
    ]
    assert users == []


def command_line(process: Path) -> bytes:
    try:
        return (process / "cmdline").read_bytes()
    except OSError:
        return b""  # it ended meanwhile


def test_runs_on_a_stand_in_where_there_is_no_slurm(short_folder: Path) -> None:
    demo = start(short_folder, "--embedded", "--job-s", "0.5")
    printed, complaints = demo.communicate(timeout=60.0)
    assert demo.returncode == 0, printed + complaints
    lines = printed.splitlines()
    assert "stand-in" in lines[0]
    assert f"{JOB_COUNT} of {JOB_COUNT} jobs ran on exactly the GPUs that roostd chose" in printed
    assert_nothing_is_left(short_folder)


@pytest.mark.slurm
def test_interrupted_it_cleans_up(short_folder: Path) -> None:
    try:
        check_available()
    except LocalSlurmUnavailable as error:
        missing(str(error))
    demo = start(short_folder)
    assert demo.stdout is not None
    while "STOCK SLURM" not in demo.stdout.readline():
        assert demo.poll() is None
    time.sleep(1.0)  # into the midst of it
    demo.send_signal(signal.SIGINT)
    printed, complaints = demo.communicate(timeout=30.0)
    assert demo.returncode == 130, printed + complaints
    assert_nothing_is_left(short_folder)
