"""The demonstration as a newcomer runs it: it says what it runs on, shows all, leaves nothing."""

import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.conftest import missing

from roost_demo import privilege
from roost_demo.cli import default_limit_s
from roost_demo.privilege import root_argv
from roost_slurm.testing.availability import LocalSlurmUnavailable, check_available

pytestmark = pytest.mark.nvml

JOB_COUNT = 20
SUMMARY_KEYS = [
    *("backend", "slurm_version", "jobs", "completed", "as_chosen", "link_score"),
    *("best_link_score", "stock_link_score"),
]


@pytest.fixture
def short_folder() -> Iterator[Path]:
    """A folder that slurmctld's user can reach, with a path short enough for sockets below it."""
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
    printed, complaints = demo.communicate(timeout=110.0)
    assert demo.returncode == 0, printed + complaints
    lines = printed.splitlines()
    assert "stand-in" in lines[0]
    assert f"{JOB_COUNT} of {JOB_COUNT} jobs ran on exactly the GPUs that roostd chose" in printed
    assert "or in a browser on this machine: http://127.0.0.1:" in printed
    found = json.loads(lines[-1])
    assert list(found) == SUMMARY_KEYS
    assert (found["backend"], found["jobs"], found["completed"]) == ("embedded", 20, 20)
    assert found["as_chosen"] == JOB_COUNT
    assert found["stock_link_score"] <= found["link_score"] <= found["best_link_score"]
    assert_nothing_is_left(short_folder)


def test_a_time_limit_that_is_hit_is_told_with_a_longer_one(short_folder: Path) -> None:
    demo = start(short_folder, "--embedded", "--job-s", "60", "--limit-s", "3")
    printed, complaints = demo.communicate(timeout=110.0)
    assert demo.returncode == 1, printed + complaints
    assert re.search(r"gave up after 3 s: \d+ of 20 jobs had not started", printed)
    assert "--limit-s 6 waits longer" in printed
    found = json.loads(printed.splitlines()[-1])
    assert found["completed"] == 0
    assert_nothing_is_left(short_folder)


def test_longer_jobs_get_a_longer_limit() -> None:
    assert default_limit_s(4.0) > default_limit_s(1.0)
    assert default_limit_s(600.0) > 600.0 * 69 / 32  # all jobs, one after the other, fit


def test_it_starts_again_under_sudo_with_what_it_needs_of_the_environment() -> None:
    environ = {"PATH": "/bin", "PYTHONPATH": "/x", "HOME": "/home/ann", "AWS_SECRET": "x"}
    argv = root_argv("/usr/bin/sudo", "/venv/bin/python", ["--job-s", "1"], environ)
    assert argv == [
        *("/usr/bin/sudo", "-n", "env", "PATH=/bin", "PYTHONPATH=/x", "PYTHONDONTWRITEBYTECODE=1"),
        *("/venv/bin/python", "-m", "roost_demo.start", "--no-sudo", "--job-s", "1"),
    ]


def fake_sudo(folder: Path, answer: str) -> Path:
    tool = folder / "sudo"
    tool.write_text(f'#!/bin/sh\n{answer}\nprintf "%s\\n" "$*" >> {folder}/asked\n')
    tool.chmod(0o755)
    return tool


@pytest.mark.parametrize("answer", ["exit 1", "sleep 60", None])
def test_a_sudo_that_would_ask_is_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, answer: str | None
) -> None:
    if answer is not None:
        fake_sudo(tmp_path, answer)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin" if answer else str(tmp_path))
    monkeypatch.setattr(privilege, "_SUDO_PATIENCE_S", 0.2)
    announced = list[str]()
    privilege.run_as_root(lambda: announced.append("now"))
    assert announced == []


def test_a_sudo_that_allows_it_runs_the_demonstration_again(tmp_path: Path) -> None:
    fake_sudo(tmp_path, "")
    code = "from roost_demo import privilege; privilege.run_as_root(lambda: print('as root'))"
    environ = os.environ | {"PATH": f"{tmp_path}:{os.environ['PATH']}"}
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, env=environ, capture_output=True, text=True, check=True)
    assert done.stdout == "as root\n"
    first, second = (tmp_path / "asked").read_text().splitlines()
    assert first == "-n true"
    assert second.startswith("-n env PATH=")
    assert "-m roost_demo.start --no-sudo" in second


@pytest.mark.slurm
def test_interrupted_it_cleans_up(short_folder: Path) -> None:
    try:
        check_available()
    except LocalSlurmUnavailable as error:
        missing(str(error))
    demo = start(short_folder)
    assert demo.stdout is not None
    while "STOCK SLURM" not in demo.stdout.readline():
        assert demo.poll() is None, "".join(demo.communicate())
    time.sleep(1.0)  # into the midst of it
    demo.send_signal(signal.SIGINT)
    printed, complaints = demo.communicate(timeout=60.0)
    assert demo.returncode == 130, printed + complaints
    assert_nothing_is_left(short_folder)
