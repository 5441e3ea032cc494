"""Real gRPC servers, in the test's own event loop."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry
from tests.conftest import open_folder
from tests.daemon.rpc.served import ManualClock, Served

from roost_engine.domain.events import Event
from roost_engine.domain.model import NodeName
from roost_engine.engine import Engine, EngineConfig
from roost_engine.plugins.plugins import Policies
from roostd.config.config import Config
from roostd.config.listen import Listen
from roostd.ops.metrics import Metrics
from roostd.rpc.server import Servers
from roostd.state import DaemonState
from roostd.telemetry.board import ProbeBoard


@pytest.fixture
def socket_folder() -> Iterator[Path]:
    with open_folder() as folder:
        yield folder


@pytest.fixture
async def served(socket_folder: Path) -> AsyncIterator[Served]:
    clock, emitted = ManualClock(), list[Event]()
    metrics = Metrics(CollectorRegistry())
    state = DaemonState(
        version="9.9",
        clock=clock,
        config=Config(cluster="test"),
        engine=Engine(EngineConfig(), Policies()),
        board=ProbeBoard(clock.now_s, emitted.append),
        started_s=40.0,
        slurm_version="22.05.8",
        slurm_fault="",
    )
    for node in ("n0", "n1", "n2", "n3"):
        list(state.board.introduce(NodeName(node)))  # Slurm names them
    listen = Listen(probes="127.0.0.1:0", max_node_count=3)

    async def say(event: Event) -> None:
        emitted.append(event)
        state.engine.step(event)

    sockets = socket_folder / "operator.sock", socket_folder / "admin.sock"
    servers = Servers(state, metrics, listen, *sockets, say)
    await servers.start()
    one = Served(state, metrics, clock, sockets[0], servers, emitted)
    yield one
    for channel in one.channels:
        await channel.close()
    await servers.stop(0.0)
