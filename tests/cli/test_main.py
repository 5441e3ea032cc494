"""What goes wrong ends in one line on stderr, nothing on stdout, and a documented exit code."""

import os
import subprocess
import sys
from pathlib import Path

import grpc
import pytest
from click.testing import CliRunner
from tests.cli.conftest import Run

from roostctl.main import EXIT_CODES, cli
from roostctl.testing import FakeOperator

COMMANDS = [
    ["nodes"],
    ["node", "gpu1"],
    ["topology", "gpu1"],
    ["jobs"],
    ["job", "1"],
    ["explain", "1"],
    ["status"],
]


@pytest.mark.parametrize("args", COMMANDS, ids=" ".join)
def test_absent_daemon_exits_3_and_tells_the_cure(args: list[str], tmp_path: Path) -> None:
    missing = tmp_path / "operator.sock"
    result = CliRunner().invoke(cli, ["--daemon", f"unix:{missing}", *args])
    assert (result.exit_code, result.stdout) == (3, "")
    assert f"no socket {missing}" in result.stderr
    assert "systemctl start roostd" in result.stderr
    assert "ROOST_DAEMON" in result.stderr


def test_socket_without_a_listener_exits_3(operator: FakeOperator, socket_path: Path) -> None:
    socket_path.touch()
    result = CliRunner().invoke(cli, ["--daemon", f"unix:{socket_path}", "status"])
    assert result.exit_code == 3
    assert f"no daemon listens on {socket_path}" in result.stderr


def test_refused_tcp_port_exits_3() -> None:
    # Port 1 of the loopback: nothing may listen there without being root and asking for it.
    result = CliRunner().invoke(cli, ["--daemon", "127.0.0.1:1", "status"])
    assert result.exit_code == 3
    assert "cannot reach roostd" in result.stderr


@pytest.mark.parametrize("args", [["node", "gpu9"], ["topology", "gpu9"]], ids=" ".join)
def test_unknown_node_exits_1(args: list[str], cluster: FakeOperator, run: Run) -> None:
    result = run(*args)
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr == "roostctl: no node named 'gpu9'\n"


def test_topology_of_a_node_without_a_probe_exits_1_and_tells_the_cure(
    cluster: FakeOperator, run: Run
) -> None:
    result = run("topology", "gpu3")
    assert (result.exit_code, result.stdout) == (1, "")
    assert "node gpu3 has no probe: start roost-probe there" in result.stderr


@pytest.mark.parametrize("args", [["job", "9"], ["explain", "9"]], ids=" ".join)
def test_unknown_job_exits_1(args: list[str], cluster: FakeOperator, run: Run) -> None:
    result = run(*args, "--json")
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr == "roostctl: no job '9'\n"


def test_silent_daemon_exits_5_after_the_given_time(operator: FakeOperator, run: Run) -> None:
    operator.may_answer.clear()
    result = run("--timeout-s", "0.05", "status")
    assert result.exit_code == 5
    assert "gave no answer in 0.05 s" in result.stderr


@pytest.mark.parametrize("code", list(grpc.StatusCode), ids=lambda code: code.name)
def test_each_status_has_its_exit_code(
    code: grpc.StatusCode, operator: FakeOperator, run: Run
) -> None:
    if code is grpc.StatusCode.OK:
        return
    operator.failure = (code, "because of the test")
    result = run("status")
    assert result.exit_code == EXIT_CODES.get(code, 6)
    assert result.stdout == ""
    assert result.stderr.startswith("roostctl: ")
    assert result.stderr.count("\n") == 1


def test_permission_denied_by_the_daemon_exits_4(operator: FakeOperator, run: Run) -> None:
    operator.failure = (grpc.StatusCode.PERMISSION_DENIED, "uid 1000 is no viewer")
    result = run("jobs")
    assert (result.exit_code, result.stderr) == (4, "roostctl: uid 1000 is no viewer\n")


# Root may open everything, so it becomes nobody once Python has found its modules.
AS_NOBODY = "import os; os.setgroups([]); os.setgid(65534); os.setuid(65534); "


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


@pytest.mark.parametrize(
    "args",
    [
        ["--daemon", "nonsense", "status"],
        ["--daemon", "host:99999", "status"],
        ["--timeout-s", "0", "status"],
        ["--timeout-s", "nan", "status"],
        ["nodes", "--watch", "-1"],
        ["node"],
        ["nosuchcommand"],
        ["completion", "tcsh"],
    ],
    ids=" ".join,
)
def test_wrong_usage_exits_2(args: list[str]) -> None:
    result = CliRunner().invoke(cli, args)
    assert (result.exit_code, result.stdout) == (2, "")
    assert "Error: " in result.stderr


def test_daemon_address_comes_from_the_environment(address: str, operator: FakeOperator) -> None:
    result = CliRunner().invoke(cli, ["status"], env={"ROOST_DAEMON": address})
    assert result.exit_code == 0
    assert operator.asked == ["GetStatus"]


def test_status_check_exits_1_on_a_fault_and_still_prints(operator: FakeOperator, run: Run) -> None:
    assert run("status", "--check").exit_code == 0
    operator.status.slurm_fault = "squeue gave no answer in 10 s"
    result = run("status", "--check")
    assert result.exit_code == 1
    assert "squeue gave no answer in 10 s" in result.stdout
    assert run("status").exit_code == 0


def test_status_counts_a_fault_whose_reason_is_not_known(operator: FakeOperator, run: Run) -> None:
    operator.status.ClearField("slots")
    operator.status.slots.add(slot="gate", policy="open", heuristic="open", fault_count=1)
    (line,) = [one for one in run("status").stdout.splitlines() if one.startswith("Gate")]
    assert line.split(maxsplit=1)[1] == "open; failed 1 time, the heuristic answered"


def test_answers_larger_than_grpcs_own_limit_arrive(operator: FakeOperator, run: Run) -> None:
    operator.status.policy_fault = "x" * (5 << 20)
    assert len(run("status", "--json").stdout) > 5 << 20


def test_needs_neither_numpy_nor_what_only_the_daemon_needs() -> None:
    program = "import sys, roostctl.main; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    heavy = {"numpy", "onnxruntime", "pydantic", "structlog", "yaml"}
    assert heavy & set(loaded.stdout.split()) == set()
