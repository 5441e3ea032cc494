"""roost-probe while it imports: Ctrl-C, SIGTERM and SIGHUP; and what it does not import."""

import asyncio
import os
import re
import signal
import sys
from pathlib import Path

import pytest
from tests.early_signals import assert_ends_quietly, program_with_signal
from tests.probes.conftest import FakeNodeFactory

from roost_probe.testing.server import FakeDaemon


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_during_the_imports_is_no_traceback(number: signal.Signals) -> None:
    assert_ends_quietly("roost_probe.start", "roost_probe.driver.nvml_process", number)


@pytest.mark.nvml
async def test_a_hangup_during_the_imports_does_not_end_it(
    fake_node: FakeNodeFactory, fake_daemon: FakeDaemon
) -> None:
    node = fake_node("bridges4")
    options = ["--daemon", fake_daemon.target, "--node", "n1", "--interval-s", "0.05"]
    program = program_with_signal("roost_probe.start", "asyncio", signal.SIGHUP, *options)
    probe = await asyncio.create_subprocess_exec(*program, env={**os.environ, **node.environment})
    await fake_daemon.received(hello_count=1, sample_count=2)
    probe.terminate()

    assert await probe.wait() == 0


# Each of them takes from half a MB to 30 MB of every node: packages that gRPC, protobuf or a
# change here could begin to import, and the ssl that asyncio would.
HEAVY = {
    "_ssl",
    "concurrent.futures.process",
    "email",
    "google.protobuf.json_format",
    "http",
    "logging.handlers",
    "multiprocessing",
    "numpy",
    "roost_engine",
    "sqlite3",
    "unittest",
    "xml",
    "yaml",
}


@pytest.mark.nvml
async def test_a_probe_at_work_has_imported_nothing_heavy(
    fake_node: FakeNodeFactory, fake_daemon: FakeDaemon, tmp_path: Path
) -> None:
    node, log = fake_node("bridges4"), tmp_path / "log"
    program = [sys.executable, "-m", "roost_probe.start"]
    options = ["--daemon", fake_daemon.target, "--node", "n1", "--interval-s", "0.05"]
    options += ["--agent-socket", str(tmp_path / "agent.sock")]
    listed = {**os.environ, **node.environment, "PYTHONPROFILEIMPORTTIME": "1"}
    with log.open("wb") as stderr:
        probe = await asyncio.create_subprocess_exec(*program, *options, env=listed, stderr=stderr)
        await fake_daemon.received(hello_count=1, sample_count=3)
        probe.terminate()
        await probe.wait()

    imported = set(re.findall(r"^import time:.*\| +(\S+)$", log.read_text(), re.MULTILINE))
    # Of the probe and of the driver's process.
    assert {"asyncio", "grpc", "roost_probe.agent.agent", "pynvml"} <= imported
    assert imported & HEAVY == set()
