"""Certificates of the probe port: new ones without a restart; expired and revoked ones refused."""

import asyncio
import os
import shutil
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import grpc
import pytest
from prometheus_client import CollectorRegistry
from tests.conftest import missing
from tests.daemon.rpc.probes import hello
from tests.daemon.rpc.served import ManualClock

from roost_engine.domain.errors import ConfigError
from roost_engine.domain.model import NodeName
from roost_engine.engine import Engine, EngineConfig
from roost_engine.plugins.plugins import Policies
from roost_engine.testing.fakes import nobody_listens
from roost_proto.v1 import placement_pb2, placement_pb2_grpc, telemetry_pb2_grpc
from roost_proto.v1 import telemetry_pb2 as pb
from roost_slurm.site.certs import Authority, CertificateError, fingerprint, openssl
from roostd.config.config import Config
from roostd.config.listen import Listen, ProbesTls
from roostd.ops.metrics import Metrics
from roostd.rpc.access import certificates
from roostd.rpc.access.certificates import CertificateFiles, Revocations
from roostd.rpc.server import Servers
from roostd.state import DaemonState
from roostd.telemetry.board import ProbeBoard

WANTED = [("roostd", ["127.0.0.1"]), ("n1", ["n1"])]
Status = grpc.StatusCode


@dataclass
class Site:
    """A daemon with mutual TLS, and the folder of its authority."""

    folder: Path
    servers: Servers
    metrics: Metrics

    def channel(self, name: str = "n1", folder: Path | None = None) -> grpc.aio.Channel:
        mine = folder or self.folder
        credentials = grpc.ssl_channel_credentials(
            (self.folder / "ca.pem").read_bytes(),
            (mine / f"{name}.key").read_bytes(),
            (mine / f"{name}.pem").read_bytes(),
        )
        options = [("grpc.use_local_subchannel_pool", 1)]
        target = f"127.0.0.1:{self.servers.probe_port}"
        return grpc.aio.secure_channel(target, credentials, options=options)

    async def greet(self, channel: grpc.aio.Channel) -> "Stream":
        """Open a probe's stream and say Hello."""
        call = telemetry_pb2_grpc.TelemetryStub(channel).Stream()
        stream = Stream(call)
        await stream.say(pb.ProbeMessage(hello=hello("n1")))
        return stream

    async def code_of(self, name: str = "n1", folder: Path | None = None) -> grpc.StatusCode:
        """The end of a probe's first Hello; OK where it was welcome."""
        async with self.channel(name, folder) as channel:
            stream = await self.greet(channel)
            return await stream.answer()


@dataclass
class Stream:
    """A probe's stream."""

    call: "grpc.aio.StreamStreamCall[pb.ProbeMessage, pb.DaemonMessage]"

    async def say(self, message: pb.ProbeMessage) -> None:
        try:
            await asyncio.wait_for(self.call.write(message), 60)
        except (grpc.aio.AioRpcError, asyncio.InvalidStateError):
            return  # `answer` has the reason

    async def answer(self) -> grpc.StatusCode:
        """OK where the daemon answered; else the code with which the stream ended."""
        try:
            answer = await asyncio.wait_for(self.call.read(), 60)
        except grpc.aio.AioRpcError as error:
            return error.code()
        return Status.OK if answer is not grpc.aio.EOF else await self.call.code()


@pytest.fixture
async def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Site]:
    if shutil.which("openssl") is None:
        missing("openssl is not installed: no certificates for mutual TLS")
    monkeypatch.setattr(certificates, "CHECK_S", 0.0)
    folder, clock = tmp_path / "tls", ManualClock()
    await asyncio.to_thread(lambda: list(Authority(folder).make(WANTED)))
    (folder / "revoked.txt").touch()
    state = DaemonState(
        version="9.9",
        clock=clock,
        config=Config(),
        engine=Engine(EngineConfig(), Policies()),
        board=ProbeBoard(clock.now_s, lambda event: None),
    )
    list(state.board.introduce(NodeName("n1")))  # Slurm names it
    listen = Listen(probes="127.0.0.1:0", probes_tls=tls_of(folder))
    metrics = Metrics(CollectorRegistry())
    sockets = tmp_path / "operator.sock", tmp_path / "admin.sock"
    servers = Servers(state, metrics, listen, *sockets, nobody_listens)
    await servers.start()
    yield Site(folder, servers, metrics)
    await servers.stop(0.0)


def tls_of(folder: Path) -> ProbesTls:
    return ProbesTls(
        certificate=folder / "roostd.pem",
        key=folder / "roostd.key",
        client_ca=folder / "ca.pem",
        revoked=folder / "revoked.txt",
    )


def make(folder: Path, *names: tuple[str, list[str]]) -> None:
    """Make certificates again, whatever there is."""
    list(Authority(folder).make(names or WANTED, renew_before_days=1e6))


async def test_a_certificate_of_the_site_is_welcome(site: Site) -> None:
    assert await site.code_of() is Status.OK


def openssl_of_past_days(arguments: Sequence[str]) -> str:
    """Run openssl; `-days -1` also where OpenSSL, since 3.4, takes dates in its place."""
    try:
        return openssl(arguments)
    except CertificateError:
        at = arguments.index("-days")
        dates = ("-not_before", "20200101000000Z", "-not_after", "20200102000000Z")
        return openssl([*arguments[:at], *dates, *arguments[at + 2 :]])


async def test_an_expired_certificate_is_refused(site: Site) -> None:
    authority = Authority(site.folder, openssl_of_past_days)
    made = await asyncio.to_thread(lambda: list(authority.make([WANTED[1]], -1, 1e6)))
    assert made == [WANTED[1][0]]
    assert await site.code_of() is Status.UNAVAILABLE


async def test_a_certificate_of_another_authority_is_refused(site: Site, tmp_path: Path) -> None:
    foreign = tmp_path / "foreign"
    await asyncio.to_thread(make, foreign)
    assert await site.code_of(folder=foreign) is Status.UNAVAILABLE


async def test_a_node_certificate_makes_no_certificates(site: Site, tmp_path: Path) -> None:
    """A probe that signs a certificate with its own key is no authority."""
    forged = tmp_path / "forged"
    forged.mkdir()
    for end in ("pem", "key"):
        shutil.copy(site.folder / f"n1.{end}", forged / f"ca.{end}")
    await asyncio.to_thread(make, forged, ("n2", ["n1"]))
    assert await site.code_of("n2", forged) is Status.UNAVAILABLE


async def test_a_new_authority_takes_over_without_a_restart(site: Site, tmp_path: Path) -> None:
    """The old certificates are refused from then on; the open stream of an old one continues."""
    old = tmp_path / "old"
    await asyncio.to_thread(shutil.copytree, site.folder, old)
    async with site.channel() as channel:
        stream = await site.greet(channel)
        assert await stream.answer() is Status.OK
        for path in site.folder.glob("*.[pk]e[my]"):
            path.unlink()
        await asyncio.to_thread(make, site.folder)

        assert await site.code_of() is Status.ALREADY_EXISTS  # the old stream speaks for n1 still
        assert await site.code_of(folder=old) is Status.UNAVAILABLE
        await stream.say(pb.ProbeMessage(hello=hello("n1")))
        assert await stream.answer() is Status.OK
    assert await until_ok(site) is Status.OK


async def until_ok(site: Site) -> grpc.StatusCode:
    """The code once the board has noticed that the other stream has ended."""
    for _ in range(600):
        if (code := await site.code_of()) is Status.OK:
            return code
        await asyncio.sleep(0.1)
    return code


async def test_a_damaged_certificate_keeps_the_old_one_in_service(
    site: Site, capfd: pytest.CaptureFixture[str]
) -> None:
    good = (site.folder / "roostd.pem").read_bytes()
    for damaged in (b"", b"nonsense", (site.folder / "n1.pem").read_bytes()):
        (site.folder / "roostd.pem").write_bytes(damaged)
        assert await site.code_of() is Status.OK
        await asyncio.sleep(0.1)
    (site.folder / "roostd.pem").write_bytes(good)
    assert await site.code_of() is Status.OK


async def test_a_revoked_certificate_ends_its_stream_and_opens_none(site: Site) -> None:
    async with site.channel() as channel:
        stream = await site.greet(channel)
        assert await stream.answer() is Status.OK
        digest = fingerprint(site.folder / "n1.pem")
        (site.folder / "revoked.txt").write_text(f"{digest} n1 2026-01-01\n")
        await stream.say(pb.ProbeMessage(hello=hello("n1")))
        assert await stream.answer() is Status.PERMISSION_DENIED
    assert await site.code_of() is Status.PERMISSION_DENIED
    assert (
        site.metrics.registry.get_sample_value(
            "roost_telemetry_rejected_total", {"reason": "revoked"}
        )
        == 2.0
    )

    async with site.channel() as channel:
        stub = placement_pb2_grpc.PlacementStub(channel)
        with pytest.raises(grpc.aio.AioRpcError) as denied:
            await stub.GetPlan(placement_pb2.GetPlanRequest(node="n1", slurm_job_id=1))
    assert denied.value.code() is Status.PERMISSION_DENIED

    await asyncio.to_thread(make, site.folder, WANTED[1])
    assert await site.code_of() is Status.OK  # with its new certificate


def test_a_list_that_goes_away_stays_in_force(tmp_path: Path) -> None:
    listed, clock = tmp_path / "revoked.txt", ManualClock()
    listed.write_text(f"# stolen\n{':'.join(['AB'] * 32)} n1\n\n")
    revocations = Revocations(listed, clock.now_s)
    assert revocations._revoked == {"ab" * 32}
    listed.unlink()
    clock.at_s += 60.0
    revocations.refresh()
    assert revocations._revoked == {"ab" * 32}
    listed.write_text(f"{'cd' * 32}\n")
    clock.at_s += 60.0
    revocations.refresh()
    assert revocations._revoked == {"cd" * 32}
    assert revocations.version == 1


def test_a_wrong_line_is_named(tmp_path: Path) -> None:
    listed = tmp_path / "revoked.txt"
    listed.write_text(f"{'ab' * 32} n1\nn2\n")
    with pytest.raises(ConfigError) as caught:
        Revocations(listed)
    assert caught.value.problems == (
        f"listen.probes_tls.revoked: {listed}:2: want a SHA-256 fingerprint of 64 digits",
    )
    with pytest.raises(ConfigError, match=r"listen\.probes_tls\.revoked: .*No such file"):
        Revocations(tmp_path / "none")


def test_a_certificate_file_that_cannot_be_read_is_named_with_its_setting(tmp_path: Path) -> None:
    (tmp_path / "key").write_text("key")
    files = {"key": "key", "certificate": "missing", "client_ca": "key"}
    tls = ProbesTls.model_validate({name: str(tmp_path / file) for name, file in files.items()})

    with pytest.raises(ConfigError) as caught:
        CertificateFiles(tls)

    assert caught.value.problems == (
        f"listen.probes_tls.certificate: {tmp_path / 'missing'}: No such file or directory",
    )


def test_a_key_of_another_certificate_is_an_error_of_the_configuration(tmp_path: Path) -> None:
    list(Authority(tmp_path).make(WANTED))
    os.replace(tmp_path / "n1.key", tmp_path / "roostd.key")
    (tmp_path / "revoked.txt").touch()
    with pytest.raises(ConfigError, match=r"listen\.probes_tls\.certificate: .* no certificate of"):
        CertificateFiles(tls_of(tmp_path))
