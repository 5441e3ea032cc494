"""The gRPC servers: what each port answers, who may connect, and addresses that are taken."""

import asyncio
import socket
import stat
from pathlib import Path
from typing import Any

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from prometheus_client import CollectorRegistry
from tests.daemon.rpc.served import ManualClock, Served

from roost_engine.domain.errors import ConfigError
from roost_engine.engine import Engine, EngineConfig
from roost_engine.plugins.plugins import Policies
from roost_engine.testing.fakes import nobody_listens
from roost_proto.v1 import operator_pb2, operator_pb2_grpc
from roostd.config.config import Config
from roostd.config.listen import Listen
from roostd.ops.metrics import Metrics
from roostd.rpc.server import ADMIN, OPERATOR, PLACEMENT, TELEMETRY, Servers
from roostd.state import DaemonState
from roostd.telemetry.board import ProbeBoard


def servers(folder: Path, **listen: Any) -> Servers:
    clock = ManualClock()
    state = DaemonState(
        version="1",
        clock=clock,
        config=Config(),
        engine=Engine(EngineConfig(), Policies()),
        board=ProbeBoard(clock.now_s, lambda event: None),
    )
    return Servers(
        state,
        Metrics(CollectorRegistry()),
        Listen.model_validate({"probes": "127.0.0.1:0"} | listen),
        folder / "operator.sock",
        folder / "admin.sock",
        nobody_listens,
    )


async def problem_of(one: Servers) -> str:
    try:
        with pytest.raises(ConfigError) as caught:
            await one.start()
    finally:
        await one.stop(0.0)
    (problem,) = caught.value.problems
    return problem


@pytest.mark.parametrize("key", ["probes", "operator_tcp"])
async def test_a_port_that_is_taken_is_named_with_its_setting_and_the_reason(
    tmp_path: Path, key: str
) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        problem = await problem_of(servers(tmp_path, **{key: address}))
    assert problem == f"listen.{key}: {address}: Address already in use"


async def test_a_socket_that_cannot_be_made_is_named_with_its_setting(tmp_path: Path) -> None:
    folder = tmp_path / "missing"
    assert await problem_of(servers(folder)) == (
        f"listen.operator_socket: {folder / 'operator.sock'}: No such file or directory"
    )


async def test_sockets_are_for_owner_and_group_and_gone_after_the_stop(tmp_path: Path) -> None:
    one = servers(tmp_path)
    await one.start()
    modes = modes_in(tmp_path)
    await one.stop(0.0)

    assert modes == {"operator.sock": 0o660, "admin.sock": 0o660} | {
        ".operator": 0o700,
        ".admin": 0o700,
    }
    assert modes_in(tmp_path) == {}


def modes_in(folder: Path) -> dict[str, int]:
    return {path.name: stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()}


async def test_operators_reach_a_loopback_port_only_where_one_is_configured(
    tmp_path: Path,
) -> None:
    one = servers(tmp_path, operator_tcp="127.0.0.1:0")
    assert one.operator_port is None
    await one.start()
    async with grpc.aio.insecure_channel(f"127.0.0.1:{one.operator_port}") as channel:
        stub: Any = operator_pb2_grpc.OperatorStub(channel)
        status = await stub.GetStatus(operator_pb2.GetStatusRequest())
    await one.stop(0.0)
    assert status.version == "1"


async def codes(channel: grpc.aio.Channel) -> dict[str, grpc.StatusCode]:
    """How a channel answers a request of no bytes to one method of each service."""
    found = {}
    for method in (
        f"{OPERATOR}/GetStatus",
        f"{ADMIN}/UnpinTimer",
        f"{PLACEMENT}/GetPlan",
    ):
        call: Any = channel.unary_unary(f"/{method}")
        try:
            await call(b"")
            code = grpc.StatusCode.OK
        except grpc.aio.AioRpcError as error:
            code = error.code()
        found[method.partition("/")[0]] = code
    return found


async def test_each_service_is_answered_on_its_own_port_alone(served: Served) -> None:
    admin = grpc.aio.insecure_channel(f"unix:{served.socket.with_name('admin.sock')}")
    served.channels.append(admin)
    channels = [served.probe_channel(), served.operator_channel(), admin]

    reached = []
    for channel in channels:
        answers = await codes(channel)
        unknown = grpc.StatusCode.UNIMPLEMENTED
        reached.append([name for name, code in answers.items() if code is not unknown])

    assert reached == [[PLACEMENT], [OPERATOR], [ADMIN]]


async def test_health_of_every_service_follows_the_daemon(served: Served) -> None:
    probes: Any = health_pb2_grpc.HealthStub(served.probe_channel())
    serving, stopped = (
        health_pb2.HealthCheckResponse.SERVING,
        health_pb2.HealthCheckResponse.NOT_SERVING,
    )
    for is_serving, expected in ((True, serving), (False, stopped)):
        await served.servers.set_serving(is_serving)
        answers = await asyncio.gather(
            *(
                probes.Check(health_pb2.HealthCheckRequest(service=name))
                for name in ("", TELEMETRY, PLACEMENT)
            )
        )
        assert [answer.status for answer in answers] == [expected] * 3
