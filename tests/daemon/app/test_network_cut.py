"""The network between a probe and roostd is cut or swallows everything; placement continues."""

import asyncio
import contextlib
import random
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.daemon.rpc.probes import hello, sample
from tests.daemon.running import Running, config, running

from roost_engine.domain.errors import RoostError
from roost_engine.testing import builders
from roost_probe.agent.daemon_link import DaemonAddress
from roost_probe.agent.telemetry import Outbox, TelemetryStream
from roostd.ops.folders import locked
from roostd.testing.slurm_stand_in import SlurmStandIn


class Network:
    """A TCP connection that a test may cut, slow down or let swallow everything."""

    def __init__(self, port: int) -> None:
        self._target_port = port
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self.port = 0
        self.is_cut = False
        self.swallows = False
        self.delay_s = 0.0

    async def start(self) -> None:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", self.port)
        self.port = self._server.sockets[0].getsockname()[1]

    async def cut(self) -> None:
        """End every connection and refuse new ones."""
        self.is_cut = True
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def stop(self) -> None:
        if self._server is not None:
            self._server.close()
        await self.cut()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self.is_cut:
            writer.close()
            return
        task = asyncio.create_task(self._join(reader, writer))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _join(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, back = await asyncio.open_connection("127.0.0.1", self._target_port)
        try:
            await asyncio.gather(self._pass_on(reader, back), self._pass_on(there, writer))
        finally:
            back.close()
            writer.close()

    async def _pass_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError):
            while piece := await reader.read(4_096):
                await asyncio.sleep(self.delay_s)
                if not self.swallows:
                    writer.write(piece)
                    await writer.drain()
        writer.close()


@contextlib.asynccontextmanager
async def probe(network: Network) -> AsyncIterator[Outbox]:
    """Run the probe's own stream, with a sample every 50 ms."""
    outbox = Outbox()
    stream = TelemetryStream(
        DaemonAddress(target=f"127.0.0.1:{network.port}"),
        outbox,
        lambda: hello("n1", 8),
        lambda welcome: None,
        random.Random(1),
    )

    async def sense() -> None:
        while True:
            outbox.put_sample(sample(gpu_count=8))
            await asyncio.sleep(0.2)

    tasks = [asyncio.create_task(stream.run()), asyncio.create_task(sense())]
    try:
        yield outbox
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


@contextlib.asynccontextmanager
async def connected(folder: Path) -> AsyncIterator[tuple[Running, Network]]:
    """A daemon, and a probe that reports to it through the network."""
    settings = config(folder, telemetry={"sample_interval_s": 0.2, "stale_after_s": 1.0})
    async with running(SlurmStandIn([builders.node("n1")]), settings) as found:
        network = Network(found.daemon.parts.servers.probe_port)
        await network.start()
        try:
            async with probe(network):
                await until_reported(found)
                yield found, network
        finally:
            await network.stop()


async def until_reported(found: Running) -> None:
    """Until one more sample has been accepted."""
    before = found.count("roost_telemetry_samples_total")
    async with asyncio.timeout(60):
        while found.count("roost_telemetry_samples_total") <= before:  # noqa: ASYNC110  a counter
            await asyncio.sleep(0.02)


async def until_silent(found: Running) -> None:
    """Until no sample has come for a second."""
    before = -1.0
    async with asyncio.timeout(60):
        while (count := found.count("roost_telemetry_samples_total")) != before:
            before = count
            await asyncio.sleep(1.0)


async def test_jobs_are_placed_while_the_network_is_cut_and_the_probe_comes_back(
    tmp_path: Path,
) -> None:
    async with connected(tmp_path) as (found, network):
        await network.cut()
        await until_silent(found)
        (job,) = found.slurm.submit(gpus=4)
        await found.until_running(job)  # Slurm is the truth, telemetry is advice
        assert await found.allocated(job) == found.planned(job)

        network.is_cut = False
        await until_reported(found)
        assert found.count("roost_probe_streams") == 1.0


async def test_a_network_that_swallows_everything_is_like_one_that_is_cut(tmp_path: Path) -> None:
    async with connected(tmp_path) as (found, network):
        network.swallows = True
        await until_silent(found)
        (job,) = found.slurm.submit(gpus=8)
        await found.until_running(job)
        await network.cut()  # as TCP does after a while
        network.is_cut = network.swallows = False
        await until_reported(found)


async def test_a_slow_network_loses_no_sample(tmp_path: Path) -> None:
    async with connected(tmp_path) as (found, network):
        network.delay_s = 0.05
        for _ in range(3):
            await until_reported(found)
        assert found.count("roost_telemetry_resyncs_total") == 0.0


async def test_a_second_daemon_on_the_same_cluster_is_refused_and_the_first_continues(
    tmp_path: Path,
) -> None:
    slurm = SlurmStandIn([builders.node("n1")])
    async with running(slurm, config(tmp_path)) as found:
        with pytest.raises(RoostError, match="another roostd is running"):
            async with running(slurm, config(tmp_path)):
                pass
        with pytest.raises(RoostError, match="another roostd"), locked(tmp_path / "state"):
            pass
        (job,) = slurm.submit(gpus=2)
        await found.until_running(job)
        assert await found.allocated(job) == found.planned(job)
