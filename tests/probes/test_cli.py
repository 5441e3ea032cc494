"""The command line: options, exit codes, what it prints."""

import asyncio
import json
import os
import signal
import sys
from pathlib import Path

import pytest
from tests.probes.conftest import FakeNodeFactory

from roost_probe.cli import main
from roost_probe.testing.server import FakeDaemon


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ([], "--daemon HOST:PORT is missing"),
        (["--daemon", "host:http"], "--daemon host:http: want HOST:PORT"),
        (["--daemon", "h:1", "--tls-ca", "x"], "--tls-ca, --tls-cert and --tls-key go together"),
    ],
)
def test_wrong_options_exit_with_2(
    arguments: list[str], error: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == 2
    assert error in capsys.readouterr().err


def test_an_agent_socket_that_cannot_be_made_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").touch()
    path = tmp_path / "file" / "agent.sock"

    assert main(["--daemon", "127.0.0.1:1", "--agent-socket", str(path)]) == 2
    assert f"--agent-socket {path}: " in capsys.readouterr().err


def test_without_a_driver_printing_exits_with_1(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("LD_LIBRARY_PATH", raising=False)

    assert main(["--print-topology"]) == 1
    assert "libnvidia-ml.so.1 was not found" in capsys.readouterr().err


@pytest.mark.nvml
def test_topology_as_json(fake_node: FakeNodeFactory, capsys: pytest.CaptureFixture[str]) -> None:
    node = fake_node("{topology: nvswitch8, minor_numbers: [7, 6, 5, 4, 3, 2, 1, 0]}")

    assert main(["--print-topology", "--json", "--sysfs-root", str(node.sysfs)]) == 0

    topology = json.loads(capsys.readouterr().out)
    assert topology["schema"] == 1
    assert [gpu["minor_number"] for gpu in topology["gpus"]] == [7, 6, 5, 4, 3, 2, 1, 0]
    assert topology["links"][0] == {
        "a": 0,
        "b": 1,
        "level": "numa_node",
        "nvlink_count": 18,
        "nvswitch": True,
        "symbol": "NV18",
    }
    assert topology["nics"][7]["gpu_levels"][7] == "single_switch"
    assert topology["matrix"][0][:2] == ["X", "NV18"]


def child_processes(pid: int) -> list[str]:
    return Path(f"/proc/{pid}/task/{pid}/children").read_text().split()


def is_process(pid: str) -> bool:
    return Path(f"/proc/{pid}").exists()


@pytest.mark.nvml
async def test_the_command_streams_and_stops_cleanly(
    fake_node: FakeNodeFactory, fake_daemon: FakeDaemon, tmp_path: Path
) -> None:
    node = fake_node("bridges8")
    probe = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "roost_probe.cli", "--daemon", fake_daemon.target, "--node", "n1"),
        *("--interval-s", "0.05", "--sysfs-root", str(node.sysfs)),
        *("--agent-socket", str(tmp_path / "agent.sock")),
        env={**os.environ, **node.environment},
    )
    await fake_daemon.received(hello_count=1, sample_count=2)
    children = child_processes(probe.pid)
    probe.send_signal(signal.SIGHUP)
    await fake_daemon.received(hello_count=2)
    probe.terminate()

    assert await probe.wait() == 0
    assert children
    assert not any(is_process(pid) for pid in children)
    assert len(fake_daemon.hellos[0].gpus) == 8
