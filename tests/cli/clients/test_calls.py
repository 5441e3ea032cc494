"""Calls to the daemon: deadlines, large answers, and the message for each failure."""

import os
import subprocess
import sys
from pathlib import Path

import grpc
import pytest
from click.testing import CliRunner
from tests.cli.conftest import Run

from roostctl.clients.calls import CallFailed
from roostctl.clients.operator import OperatorClient
from roostctl.main import cli
from roostctl.testing import FakeOperator


def test_socket_without_a_listener_exits_3(operator: FakeOperator, socket_path: Path) -> None:
    socket_path.touch()
    result = CliRunner().invoke(cli, ["--daemon", f"unix:{socket_path}", "status"])
    assert result.exit_code == 3
    assert f"no daemon listens on {socket_path}" in result.stderr


def test_a_daemon_that_answers_is_not_said_to_be_away(operator: FakeOperator, run: Run) -> None:
    operator.failure = (grpc.StatusCode.UNAVAILABLE, "scontrol gave no answer in 10 s")
    result = run("jobs")
    assert result.exit_code == 3
    assert result.stderr.endswith(": scontrol gave no answer in 10 s\n")
    assert "start it" not in result.stderr


def test_refused_tcp_port_exits_3() -> None:
    # Port 1 of the loopback: nothing may listen there without being root and asking for it.
    result = CliRunner().invoke(cli, ["--daemon", "127.0.0.1:1", "status"])
    assert result.exit_code == 3
    assert "cannot reach roostd" in result.stderr


def test_silent_daemon_exits_5_after_the_given_time(operator: FakeOperator, run: Run) -> None:
    operator.may_answer.clear()
    result = run("--timeout-s", "0.05", "status")
    assert result.exit_code == 5
    assert "gave no answer in 0.05 s" in result.stderr


def test_permission_denied_by_the_daemon_exits_4(operator: FakeOperator, run: Run) -> None:
    operator.failure = (grpc.StatusCode.PERMISSION_DENIED, "uid 1000 is no viewer")
    result = run("jobs")
    assert (result.exit_code, result.stderr) == (4, "roostctl: uid 1000 is no viewer\n")


# Root may open everything, so it becomes the user `nobody` once Python has found its modules: that
# user may be unable to read the checkout. gRPC imports the last one when the first channel opens.
AS_NOBODY = "import grpc._channel, os; os.setgroups([]); os.setgid(65534); os.setuid(65534); "


@pytest.mark.parametrize("closed", ["socket", "folder"])
def test_socket_closed_to_this_user_exits_4(closed: str, address: str, socket_path: Path) -> None:
    socket_path.parent.chmod(0o755 if closed == "socket" else 0o000)
    if closed == "socket":
        socket_path.chmod(0o000)
    program = f"from roostctl.main import main; {AS_NOBODY if os.getuid() == 0 else ''}main()"
    done = subprocess.run(
        [sys.executable, "-c", program, "--daemon", address, "status"],
        capture_output=True,
        text=True,
        timeout=60,
    )
    socket_path.parent.chmod(0o700)
    assert (done.returncode, done.stdout) == (4, ""), done.stderr
    assert f"this user may not open {socket_path}" in done.stderr


def test_answers_larger_than_grpcs_own_limit_arrive(operator: FakeOperator, run: Run) -> None:
    operator.status.policy_fault = "x" * (5 << 20)
    assert len(run("status", "--json").stdout) > 5 << 20


def test_a_refused_call_carries_the_daemons_code_and_message(
    operator: FakeOperator, address: str
) -> None:
    operator.failure = (grpc.StatusCode.RESOURCE_EXHAUSTED, "too many calls")
    with (
        OperatorClient(address) as client,
        pytest.raises(CallFailed, match="too many calls") as failed,
    ):
        client.get_status()
    assert failed.value.code is grpc.StatusCode.RESOURCE_EXHAUSTED
