"""Certificates as docs/operations.md makes them: who may speak for a node, and who may not."""

import asyncio
import random
import re
import shutil
import subprocess
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import grpc
import pytest
from prometheus_client import CollectorRegistry
from tests.conftest import missing
from tests.daemon.rpc.probes import hello
from tests.daemon.rpc.served import ManualClock
from tests.daemon.rpc.test_probe_clock import DAY_S, probe, samples_after
from tests.daemon.rpc.test_probe_clock import clock as clock
from tests.e2e.test_local_clock import Clock

from roost_engine.domain.model import NodeName
from roost_engine.engine import Engine, EngineConfig
from roost_engine.plugins.plugins import Policies
from roost_engine.testing.fakes import nobody_listens
from roost_probe.agent.daemon_link import DaemonAddress, Tls
from roost_probe.agent.telemetry import Outbox, TelemetryStream
from roost_proto.v1 import placement_pb2, placement_pb2_grpc
from roost_proto.v1 import telemetry_pb2 as pb
from roostd.config.config import Config
from roostd.config.listen import Listen, ProbesTls
from roostd.ops.metrics import Metrics
from roostd.rpc.server import Servers
from roostd.state import DaemonState
from roostd.telemetry.board import ProbeBoard

PAGE = Path(__file__).parents[3] / "docs" / "operations.md"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Certificates of roostd, n1, n2 with its domain, and of an n1 by another authority."""
    if shutil.which("openssl") is None:
        missing("openssl is not installed: no certificates for mutual TLS")
    match = re.search(
        r"^### Certificates for probes$.*?^```sh\n(.*?)^```$", PAGE.read_text(), re.M | re.S
    )
    assert match is not None
    made = tmp_path_factory.mktemp("tls")
    for authority, lines in {
        "site": "certificate roostd IP:127.0.0.1 && certificate n1 DNS:n1 &&"
        " certificate n2 DNS:n2.example.org",
        "forger": "certificate n1 DNS:n1",
    }.items():
        (made / authority).mkdir()
        recipe = match[1].replace("rsa:3072", "rsa:2048")  # a third of the CPU time
        script = f"set -e\n{recipe}\n{lines}\n"
        subprocess.run(
            ["sh", "-c", script], cwd=made / authority, check=True, capture_output=True, timeout=110
        )
    return made


def tls_of(folder: Path, name: str, authority: str = "site") -> Tls:
    return Tls(
        ca=folder / "site" / "ca.pem",
        certificate=folder / authority / f"{name}.pem",
        key=folder / authority / f"{name}.key",
    )


@dataclass
class Daemon:
    """The daemon's own servers, with mutual TLS on the probe port."""

    state: DaemonState
    servers: Servers

    @property
    def target(self) -> str:
        return f"127.0.0.1:{self.servers.probe_port}"

    def knows(self, node: str) -> bool:
        return self.state.board.report(NodeName(node)) is not None


@pytest.fixture
async def daemon(folder: Path, tmp_path: Path) -> AsyncIterator[Daemon]:
    clock = ManualClock()
    state = DaemonState(
        version="9.9",
        clock=clock,
        config=Config(),
        engine=Engine(EngineConfig(), Policies()),
        board=ProbeBoard(clock.now_s, lambda event: None),
    )
    for node in ("n1", "n2"):
        list(state.board.introduce(NodeName(node)))  # Slurm names them
    site = folder / "site"
    tls = ProbesTls(
        certificate=site / "roostd.pem", key=site / "roostd.key", client_ca=site / "ca.pem"
    )
    listen = Listen(probes="127.0.0.1:0", probes_tls=tls)
    servers = Servers(
        state,
        Metrics(CollectorRegistry()),
        listen,
        tmp_path / "operator.sock",
        tmp_path / "admin.sock",
        nobody_listens,
    )
    await servers.start()
    yield Daemon(state, servers)
    await servers.stop(0.0)


async def stream(daemon: Daemon, node: str, tls: Tls | None) -> asyncio.Event:
    """Run the probe's own stream until it is welcome or has failed; tells which."""
    welcomed, failed = asyncio.Event(), asyncio.Event()

    class Patience(random.Random):
        """Asked how long to wait after a failure: so there was one."""

        def random(self) -> float:
            failed.set()
            return super().random()

    probe = TelemetryStream(
        DaemonAddress(target=daemon.target, tls=tls),
        Outbox(),
        lambda: hello(node),
        lambda welcome: welcomed.set(),
        Patience(1),
    )
    run = asyncio.create_task(probe.run())
    outcomes = [asyncio.create_task(event.wait()) for event in (welcomed, failed)]
    try:
        await asyncio.wait(outcomes, timeout=60.0, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in (run, *outcomes):
            task.cancel()
        await asyncio.gather(run, *outcomes, return_exceptions=True)
    assert welcomed.is_set() != failed.is_set()
    return welcomed


@pytest.mark.parametrize("node", ["n1", "n2"])
async def test_a_probe_whose_certificate_names_its_node_is_welcome(
    daemon: Daemon, folder: Path, node: str
) -> None:
    assert (await stream(daemon, node, tls_of(folder, node))).is_set()
    assert daemon.knows(node)


async def test_a_probe_cannot_report_for_another_node(
    daemon: Daemon, folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    assert not (await stream(daemon, "n2", tls_of(folder, "n1"))).is_set()

    assert not daemon.knows("n2")
    told = "PERMISSION_DENIED: the certificate does not name n2 as subject alternative name"
    assert told in caplog.text


async def test_a_certificate_of_another_authority_opens_nothing(
    daemon: Daemon, folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    assert not (await stream(daemon, "n1", tls_of(folder, "n1", "forger"))).is_set()

    assert not daemon.knows("n1")
    assert "UNAVAILABLE" in caplog.text


async def test_a_probe_without_tls_cannot_connect(
    daemon: Daemon, caplog: pytest.LogCaptureFixture
) -> None:
    assert not (await stream(daemon, "n1", None)).is_set()

    assert not daemon.knows("n1")
    assert "UNAVAILABLE" in caplog.text


async def test_a_client_without_certificate_cannot_connect(daemon: Daemon, folder: Path) -> None:
    credentials = grpc.ssl_channel_credentials((folder / "site" / "ca.pem").read_bytes())
    async with grpc.aio.secure_channel(daemon.target, credentials) as channel:
        call = channel.stream_stream(
            "/roost_proto.v1.Telemetry/Stream",
            request_serializer=pb.ProbeMessage.SerializeToString,
            response_deserializer=pb.DaemonMessage.FromString,
        )()
        assert await asyncio.wait_for(call.code(), 60) is grpc.StatusCode.UNAVAILABLE


async def test_a_daemon_of_another_authority_gets_no_report(
    daemon: Daemon, folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    tls = Tls(
        ca=folder / "forger" / "ca.pem",
        certificate=folder / "site" / "n1.pem",
        key=folder / "site" / "n1.key",
    )
    assert not (await stream(daemon, "n1", tls)).is_set()

    assert not daemon.knows("n1")
    assert "UNAVAILABLE" in caplog.text


async def test_a_node_learns_plans_for_itself_only(daemon: Daemon, folder: Path) -> None:
    address = DaemonAddress(target=daemon.target, tls=tls_of(folder, "n1"))
    async with address.open_channel() as channel:
        stub = placement_pb2_grpc.PlacementStub(channel)
        own = await stub.GetPlan(placement_pb2.GetPlanRequest(node="n1", slurm_job_id=1))
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await stub.GetPlan(placement_pb2.GetPlanRequest(node="n2", slurm_job_id=1))

    assert not own.managed
    assert caught.value.code() is grpc.StatusCode.PERMISSION_DENIED


@pytest.mark.nvml
async def test_with_certificates_a_clock_ahead_is_no_matter_and_one_behind_their_making_is(
    daemon: Daemon, folder: Path, clock: Clock, tmp_path: Path
) -> None:
    site = folder / "site"
    options = ["--daemon", daemon.target, "--tls-ca", str(site / "ca.pem")]
    options += ["--tls-cert", str(site / "n1.pem"), "--tls-key", str(site / "n1.key")]
    clock.set(-DAY_S, 0.0)
    async with probe(clock, tmp_path, *options) as log:
        async with asyncio.timeout(30):
            while "no stream to" not in log.read_text():  # noqa: ASYNC110
                await asyncio.sleep(0.05)
        assert not daemon.knows("n1")
        clock.set(DAY_S, 0.0)  # as time synchronisation would, and then a day too far
        before = await samples_after(daemon.state, 0)
        clock.set(0, 0.0)
        await samples_after(daemon.state, before)
