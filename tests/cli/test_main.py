"""The program: options, exit codes, and one line on stderr for each failure."""

import os
import subprocess
import sys
from pathlib import Path

import click
import grpc
import pytest
from click.testing import CliRunner
from tests.cli.conftest import Run

from roost_proto.v1 import operator_pb2 as pb
from roostctl.clients.operator import OperatorClient
from roostctl.main import EXIT_CODES, EXIT_DAEMON_FAULT, cli
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


def test_an_argument_that_is_no_text_exits_2(run: Run) -> None:
    result = run("job", "\udc80")
    assert (result.exit_code, result.stderr) == (2, "roostctl: '\\udc80' is not UTF-8\n")


def test_a_full_disk_under_stdout_is_one_line(operator: FakeOperator, address: str) -> None:
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "roostctl.main", "--daemon", address, "status"],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    wanted = "roostctl: the output cannot be written: No space left on device\n"
    assert (done.returncode, done.stderr) == (1, wanted)


def test_a_reader_that_has_seen_enough_is_no_error(operator: FakeOperator, address: str) -> None:
    """As in `roostctl jobs | head -1`."""
    reads, writes = os.pipe()
    os.close(reads)
    done = subprocess.run(
        [sys.executable, "-m", "roostctl.main", "--daemon", address, "status"],
        stdout=writes,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )
    os.close(writes)
    assert done.stderr == ""


def test_needs_neither_numpy_nor_what_only_the_daemon_needs() -> None:
    program = "import sys, roostctl.main; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    heavy = {"numpy", "onnxruntime", "pydantic", "structlog", "yaml"}
    assert heavy & set(loaded.stdout.split()) == set()


@pytest.mark.parametrize("args", COMMANDS, ids=" ".join)
def test_absent_daemon_exits_3_and_tells_the_cure(args: list[str], tmp_path: Path) -> None:
    missing = tmp_path / "operator.sock"
    result = CliRunner().invoke(cli, ["--daemon", f"unix:{missing}", *args])
    assert (result.exit_code, result.stdout) == (3, "")
    assert f"no socket {missing}" in result.stderr
    assert "systemctl start roostd" in result.stderr
    assert "ROOST_DAEMON" in result.stderr


def test_ctrl_c_exits_130_without_a_traceback(
    operator: FakeOperator, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(client: OperatorClient, ask_slurm: bool = False) -> pb.Status:
        raise KeyboardInterrupt

    monkeypatch.setattr(OperatorClient, "get_status", interrupted)
    result = run("status")
    assert (result.exit_code, result.stdout) == (130, "")
    assert "Traceback" not in result.stderr


def test_help_names_every_exit_code() -> None:
    text = " ".join(CliRunner().invoke(cli, ["--help"]).stdout.split())
    for code in {0, *EXIT_CODES.values(), EXIT_DAEMON_FAULT}:
        assert f" {code} " in text.partition("Exit codes:")[2]


def _commands(group: click.Group, *above: str) -> list[tuple[tuple[str, ...], click.Command]]:
    found: list[tuple[tuple[str, ...], click.Command]] = [(above, group)]
    for name, command in group.commands.items():
        if isinstance(command, click.Group):
            found += _commands(command, *above, name)
        else:
            found.append(((*above, name), command))
    return found


@pytest.mark.parametrize(("path", "command"), _commands(cli), ids=lambda value: str(value))
def test_help_is_whole(path: tuple[str, ...], command: click.Command) -> None:
    if isinstance(command, click.Group):
        shown = CliRunner().invoke(cli, [*path, "--help"]).stdout.partition("Commands:")[2]
        assert "..." not in shown
    for parameter in command.params:
        if isinstance(parameter, click.Option):
            assert parameter.help, parameter.name
