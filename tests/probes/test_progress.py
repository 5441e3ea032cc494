"""`roost-progress`: what the node's agent gets, and what a batch script sees."""

import asyncio
import os
import socket
import subprocess
import sys
import threading
import tomllib
from pathlib import Path

import pytest
from tests.probes.agent.test_agent_socket import listening
from tests.probes.test_packaging import ROOT

from roost_probe.progress import main
from roost_probe.testing.server import FakeDaemon


async def call(*words: str, **environ: str) -> tuple[int | None, str]:
    """Run the program as a batch script does; return its exit code and what it printed."""
    done = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "roost_probe.progress", *words),
        env={name: text for name, text in os.environ.items() if name != "SLURM_JOB_ID"} | environ,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    printed, _ = await done.communicate()
    return done.returncode, printed.decode()


async def test_the_agent_passes_the_steps_of_the_calling_job_on(
    fake_daemon: FakeDaemon, tmp_path: Path
) -> None:
    path = tmp_path / "agent.sock"
    async with listening(path, fake_daemon):
        within = await call("--agent-socket", str(path), "4000", SLURM_JOB_ID="7")
        other = await call("--agent-socket", str(path), "--job", "8", "50", SLURM_JOB_ID="7")
    assert within == other == (0, "")
    got = [(one.slurm_job_id, one.step_count, one.uid) for one in fake_daemon.progress]
    assert got == [(7, 4000, os.getuid()), (8, 50, os.getuid())]


async def test_why_a_report_is_not_taken_is_said_and_ends_no_script(
    fake_daemon: FakeDaemon, tmp_path: Path
) -> None:
    path = tmp_path / "agent.sock"
    async with listening(path, fake_daemon):
        outside = await call("--agent-socket", str(path), "4000")
        zero = await call("--agent-socket", str(path), "--job", "0", "4000")
        await fake_daemon.stop()
        without_daemon = await call("--agent-socket", str(path), "4000", SLURM_JOB_ID="7")
    without_agent = await call("--agent-socket", str(path), "4000", SLURM_JOB_ID="7")
    assert outside == (
        0,
        "roost-progress: the job is ''; call it from a job of Slurm, or give its number with"
        " --job\n",
    )
    assert zero == (0, "roost-progress: job_id is 0; want Slurm's numeric job id\n")
    assert without_daemon[0] == 0
    assert without_daemon[1].startswith("roost-progress: roostd did not answer: ")
    assert without_agent == (
        0,
        f"roost-progress: {path}: No such file or directory; does roost-probe run on this node?\n",
    )


@pytest.mark.parametrize("answer", [b"", b"hello\n", b"[1]\n", b"\xff\n"])
def test_the_answer_of_another_program_is_named(
    answer: bytes, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "other.sock"
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(path))
        server.listen()

        def serve() -> None:
            connection, _ = server.accept()
            with connection:
                connection.recv(4096)
                connection.sendall(answer)

        thread = threading.Thread(target=serve)
        thread.start()
        code = main(["--job", "7", "--agent-socket", str(path), "4000"])
        thread.join()
    assert code == 0
    expected = f"roost-progress: {path}: the answer is none of a roost-probe\n"
    assert capfd.readouterr().err == expected


def test_a_full_disk_below_its_messages_ends_no_script() -> None:
    with Path("/dev/full").open("wb") as full:
        argv = [sys.executable, "-m", "roost_probe.progress", "--job", "none", "4000"]
        done = subprocess.run(argv, stdout=full, stderr=full, check=False)
    assert done.returncode == 0


@pytest.mark.parametrize("job", ["7_1", "٣", "9" * 5_000])
def test_a_job_is_named_by_slurms_number(job: str, capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["--job", job, "4000"]) == 0
    assert "give its number with --job" in capfd.readouterr().err


@pytest.mark.parametrize("steps", ["", "many", "-4", "1e3", "1_000", str(1 << 63), "9" * 5_000])
def test_what_is_no_number_of_steps_is_wrong_usage(
    steps: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["--job", "7", steps])
    assert ended.value.code == 2
    printed = capsys.readouterr().err
    assert "usage: roost-progress" in printed
    assert steps == "-4" or "want a number of steps, 0 or more" in printed


def test_it_is_installed_beside_the_probe() -> None:
    scripts = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["scripts"]
    assert scripts["roost-progress"] == f"{main.__module__}:{main.__name__}"
