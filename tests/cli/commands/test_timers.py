"""`roostctl timers`, and its `pin` and `unpin`."""

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import grpc
import pytest
from click.testing import CliRunner
from tests.cli.conftest import Run

from roost_proto.v1 import operator_pb2 as pb
from roost_proto.v1.operator_pb2_grpc import AdminServicer, add_AdminServicer_to_server
from roostctl.main import cli
from roostctl.testing import FakeOperator


class FakeAdmin(AdminServicer):
    """Records the changes that were asked for."""

    def __init__(self) -> None:
        self.pinned = list[pb.PinTimerRequest]()
        self.unpinned = list[pb.UnpinTimerRequest]()

    def PinTimer(self, request: pb.PinTimerRequest, context: grpc.ServicerContext) -> pb.Timer:
        self.pinned.append(request)
        return pb.Timer(name=request.name, pinned_s=request.pinned_s)

    def UnpinTimer(self, request: pb.UnpinTimerRequest, context: grpc.ServicerContext) -> pb.Timer:
        self.unpinned.append(request)
        return pb.Timer(name=request.name, node_timer_s=60.0, rack_timer_s=3600.0)


@pytest.fixture
def admin(socket_path: Path) -> Iterator[FakeAdmin]:
    """The admin service at the place where roostctl looks for it: beside the operator socket."""
    admin, server = FakeAdmin(), grpc.server(ThreadPoolExecutor(max_workers=1))
    add_AdminServicer_to_server(admin, server)
    server.add_insecure_port(f"unix:{socket_path.with_name('admin.sock')}")
    server.start()
    yield admin
    server.stop(grace=None).wait()


def test_pin_asks_the_admin_socket_beside_the_daemons(admin: FakeAdmin, run: Run) -> None:
    result = run("timers", "pin", "8/high", "300", SUDO_USER="alice")
    assert (result.exit_code, result.stdout) == (0, "8/high is pinned to 5 m 00 s.\n")
    assert admin.pinned == [pb.PinTimerRequest(name="8/high", pinned_s=300.0, by="alice")]


def test_unpin_shows_the_tuned_timers(admin: FakeAdmin, run: Run) -> None:
    result = run("timers", "unpin", "8/high", SUDO_USER="alice")
    assert result.stdout == "8/high is tuned again: NODE 1 m 00 s, RACK 1 h 00 m.\n"
    assert admin.unpinned == [pb.UnpinTimerRequest(name="8/high", by="alice")]


def test_a_change_as_json_has_the_timer_as_it_is_now(admin: FakeAdmin, run: Run) -> None:
    pinned = json.loads(run("timers", "pin", "8/high", "300", "--json").stdout)
    unpinned = json.loads(run("timers", "unpin", "8/high", "--json").stdout)
    assert [*pinned] == [*unpinned] == ["schema", "timer"]
    assert pinned["schema"] == unpinned["schema"] == "roost.timer/1"
    assert (pinned["timer"]["pinned_s"], unpinned["timer"]["pinned_s"]) == (300.0, None)


def test_an_admin_address_that_is_given_is_used(admin: FakeAdmin, socket_path: Path) -> None:
    address = f"unix:{socket_path.with_name('admin.sock')}"
    arguments = ["--daemon", "gpu-head:7000", "timers", "pin", "8/high", "0", "--admin", address]
    result = CliRunner().invoke(cli, arguments)
    assert result.exit_code == 0, result.output
    assert admin.pinned[0].pinned_s == 0.0


@pytest.mark.parametrize("seconds", ["-1", "2592001", "nan"])
def test_pin_refuses_a_time_outside_thirty_days(seconds: str, admin: FakeAdmin, run: Run) -> None:
    assert run("timers", "pin", "--", "8/high", seconds).exit_code == 2
    assert admin.pinned == []


def test_pin_takes_seconds_without_a_unit(admin: FakeAdmin, run: Run) -> None:
    refused = run("timers", "pin", "8/high", "5m")
    assert refused.exit_code == 2
    assert "'5m' is not a number of seconds" in refused.stderr


def test_a_pinned_class_shows_no_tuning(cluster: FakeOperator, run: Run) -> None:
    rows = {line.split()[0]: line for line in run("timers").stdout.splitlines()}
    assert "5 m 12 s ago" in rows["8/high"]
    assert "pinned" in rows["16/mid"]
    assert " ago" not in rows["16/mid"]


@pytest.mark.parametrize(
    ("gate", "text"),
    [
        ("delay", "The gate is delay. No job has waited or could have so far.\n"),
        ("open", "The gate is open: it has no timers. See gate.kind in roostd.yaml.\n"),
    ],
)
def test_without_timers_the_reason_is_given(
    gate: str, text: str, operator: FakeOperator, run: Run
) -> None:
    operator.timers.gate = gate
    assert run("timers").stdout == text
