"""The whole agent against a daemon that listens, over real gRPC."""

import asyncio
import random
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from tests.probes.conftest import FakeNodeFactory, ProcessFactory
from tests.probes.node.test_monitor import ScriptedDriver

from roost_probe.agent.agent import Agent, AgentSettings
from roost_probe.agent.daemon_link import DaemonAddress, Tls
from roost_probe.agent.notify import Notifier
from roost_probe.driver.readings import DriverFacts, DriverLoad, GpuLoad
from roost_probe.errors import DriverFault, SettingsError
from roost_probe.node.monitor import Monitor
from roost_probe.testing.description import GpuSettings
from roost_probe.testing.server import FakeDaemon


def make_agent(
    daemon: FakeDaemon,
    monitor: Monitor,
    agent_socket: Path | None = None,
    environ: dict[str, str] | None = None,
) -> Agent:
    settings = AgentSettings(
        node="n1",
        daemon=DaemonAddress(target=daemon.target),
        interval_s=0.02,
        agent_socket=agent_socket,
    )
    return Agent(settings, monitor, Notifier(environ or {}), random.Random(1))


@asynccontextmanager
async def running(agent: Agent) -> AsyncIterator[None]:
    task = asyncio.create_task(agent.run())
    try:
        yield
    finally:
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task


def sequences(daemon: FakeDaemon, start: int = 0) -> list[int]:
    return [sample.sequence for sample in daemon.samples[start:]]


async def test_says_hello_first_and_counts_samples(fake_daemon: FakeDaemon, tmp_path: Path) -> None:
    async with running(make_agent(fake_daemon, Monitor(ScriptedDriver(), tmp_path))):
        await fake_daemon.received(hello_count=1, sample_count=5)

    assert fake_daemon.messages[0].HasField("hello")
    hello = fake_daemon.hellos[0]
    assert (hello.node, hello.schema_version, len(hello.gpus)) == ("n1", 1, 2)
    assert [(link.a, link.b, link.nvlink_count) for link in hello.links] == [(0, 1, 0)]
    assert sequences(fake_daemon) == list(range(1, len(fake_daemon.samples) + 1))


async def test_comes_back_after_the_daemon_restarted(
    fake_daemon: FakeDaemon, tmp_path: Path
) -> None:
    async with running(make_agent(fake_daemon, Monitor(ScriptedDriver(), tmp_path))):
        await fake_daemon.received(sample_count=3)
        await fake_daemon.stop()
        before = len(fake_daemon.samples)
        await fake_daemon.start()
        await fake_daemon.received(hello_count=2, sample_count=before + 3)

    first, second = fake_daemon.hellos[:2]
    assert first.session_id == second.session_id  # the probe did not start again
    after = sequences(fake_daemon, before)
    assert after == list(range(after[0], after[0] + len(after)))


async def test_waits_for_a_daemon_that_is_not_there_yet(tmp_path: Path) -> None:
    daemon = FakeDaemon()
    with socket.create_server(("127.0.0.1", 0)) as free:
        daemon.port = free.getsockname()[1]
    async with running(make_agent(daemon, Monitor(ScriptedDriver(), tmp_path))):
        await asyncio.sleep(0.1)  # long enough for a refused connection
        await daemon.start()
        await daemon.received(hello_count=1, sample_count=1)
    await daemon.stop()


async def test_says_hello_again_when_asked(fake_daemon: FakeDaemon, tmp_path: Path) -> None:
    async with running(make_agent(fake_daemon, Monitor(ScriptedDriver(), tmp_path))):
        await fake_daemon.received(sample_count=2)
        await fake_daemon.resync("gap in the sequence")
        await fake_daemon.received(hello_count=2)

    assert sequences(fake_daemon) == list(range(1, len(fake_daemon.samples) + 1))


async def test_a_driver_fault_is_told_and_so_is_its_end(
    fake_daemon: FakeDaemon, tmp_path: Path
) -> None:
    driver = ScriptedDriver()
    working = driver.answer_load
    async with running(make_agent(fake_daemon, Monitor(driver, tmp_path))):
        await fake_daemon.received(hello_count=1)
        driver.answer_load = DriverFault("NVML did not answer within 5 s; it is started again")
        await fake_daemon.received(hello_count=2)
        driver.answer_load = working
        await fake_daemon.received(hello_count=3)

    assert [list(hello.problems) for hello in fake_daemon.hellos[:3]] == [
        [],
        ["NVML did not answer within 5 s; it is started again"],
        [],
    ]
    assert len({hello.session_id for hello in fake_daemon.hellos}) == 1


async def test_a_node_without_a_driver_says_so(fake_daemon: FakeDaemon, tmp_path: Path) -> None:
    driver = ScriptedDriver()
    driver.answer_facts = DriverFault("libnvidia-ml.so.1 was not found; install the driver")
    async with running(make_agent(fake_daemon, Monitor(driver, tmp_path))):
        await fake_daemon.received(hello_count=1, sample_count=2)

    assert len(fake_daemon.hellos[0].gpus) == 0
    assert list(fake_daemon.hellos[0].problems) == [
        "libnvidia-ml.so.1 was not found; install the driver"
    ]


async def test_a_repair_opens_a_new_session(fake_daemon: FakeDaemon, tmp_path: Path) -> None:
    driver = ScriptedDriver()
    working = driver.answer_load
    async with running(make_agent(fake_daemon, Monitor(driver, tmp_path))):
        await fake_daemon.received(sample_count=1)
        driver.answer_load = DriverLoad(at_s=0.0, gpus=(GpuLoad(lost=True), GpuLoad()))
        await fake_daemon.received(sample_count=len(fake_daemon.samples) + 3)
        assert fake_daemon.samples[-1].lost_mask == 1
        driver.answer_load = working
        await fake_daemon.received(hello_count=2, sample_count=len(fake_daemon.samples) + 3)

    assert fake_daemon.hellos[0].session_id != fake_daemon.hellos[-1].session_id
    assert sequences(fake_daemon).count(1) == 2


async def test_the_daemon_may_ask_for_fewer_samples(tmp_path: Path) -> None:
    daemon = FakeDaemon(sample_interval_s=30.0)
    await daemon.start()
    async with running(make_agent(daemon, Monitor(ScriptedDriver(), tmp_path))):
        await daemon.received(hello_count=1, sample_count=1)
        before = -1
        async with asyncio.timeout(60):
            while len(daemon.samples) != before:  # until it has heard of it
                before = len(daemon.samples)
                await asyncio.sleep(0.3)  # 15 intervals of its own
    await daemon.stop()


async def test_reload_connects_again_and_reads_the_topology(
    fake_daemon: FakeDaemon, tmp_path: Path
) -> None:
    driver = ScriptedDriver()
    agent = make_agent(fake_daemon, Monitor(driver, tmp_path))
    async with running(agent):
        await fake_daemon.received(sample_count=1)
        agent.reload()
        await fake_daemon.received(hello_count=2)
        await until(fake_daemon, lambda: driver.facts_count == 2)

    assert len({hello.session_id for hello in fake_daemon.hellos}) == 1


async def test_systemd_hears_ready_watchdog_and_stopping(
    fake_daemon: FakeDaemon, tmp_path: Path
) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as systemd:
        systemd.bind(str(tmp_path / "notify"))
        environ = {"NOTIFY_SOCKET": str(tmp_path / "notify"), "WATCHDOG_USEC": "30000000"}
        monitor = Monitor(ScriptedDriver(), tmp_path)
        async with running(make_agent(fake_daemon, monitor, environ=environ)):
            await fake_daemon.received(sample_count=3)
        systemd.setblocking(False)
        heard = list[str]()
        while True:
            try:
                heard.append(systemd.recv(4096).decode())
            except BlockingIOError:
                break

    assert "READY=1\nSTATUS=2 GPUs" in heard
    assert heard.count("WATCHDOG=1") >= 3
    assert heard[-1] == "STOPPING=1"


async def test_a_missing_certificate_is_a_clear_error(tmp_path: Path) -> None:
    tls = Tls(ca=tmp_path / "ca.pem", certificate=tmp_path / "c.pem", key=tmp_path / "k.pem")
    settings = AgentSettings(node="n1", daemon=DaemonAddress(target="127.0.0.1:1", tls=tls))
    agent = Agent(settings, Monitor(ScriptedDriver(), tmp_path), Notifier({}), random.Random(1))

    with pytest.raises(SettingsError, match=r"ca\.pem: No such file"):
        await agent.run()


@pytest.mark.nvml
async def test_load_travels_from_the_fake_driver_to_the_daemon(
    fake_daemon: FakeDaemon, fake_node: FakeNodeFactory, nvml_process: ProcessFactory
) -> None:
    node = fake_node("cube8")
    node.driver.set(3, GpuSettings(sm_frac=0.75, nvlink_tx_bytes_per_s=20e9))
    async with running(make_agent(fake_daemon, Monitor(nvml_process(), node.sysfs))):
        await fake_daemon.received(hello_count=1, sample_count=3)
        node.driver.raise_xid(6, 79)
        node.driver.lose(6)
        await until(fake_daemon, lambda: fake_daemon.samples[-1].lost_mask == 1 << 6)
        # Its Xid may come a sample later, where it was raised after events had been asked for.
        await until(fake_daemon, lambda: any(one.xid_events for one in fake_daemon.samples))

    hello = fake_daemon.hellos[0]
    assert {(link.a, link.b): link.nvlink_count for link in hello.links}[0, 3] == 2
    assert [nic.name for nic in hello.nics] == ["mlx5_0", "mlx5_1", "mlx5_2", "mlx5_3"]
    sample = fake_daemon.samples[1]
    assert sample.sm_frac.values[3] == 0.75
    assert sample.nvlink_tx_bytes_per_s.values[3] == pytest.approx(20e9, rel=0.8)
    xids = [(e.gpu_index, e.code) for s in fake_daemon.samples for e in s.xid_events]
    assert xids == [(6, 79)]


async def until(daemon: FakeDaemon, is_true: Callable[[], bool]) -> None:
    while not is_true():
        await daemon.received(sample_count=len(daemon.samples) + 1)


async def test_facts_without_gpus_are_no_fault(fake_daemon: FakeDaemon, tmp_path: Path) -> None:
    driver = ScriptedDriver()
    driver.answer_facts, driver.answer_load = DriverFacts(), DriverLoad(at_s=0.0)
    async with running(make_agent(fake_daemon, Monitor(driver, tmp_path))):
        await fake_daemon.received(hello_count=1, sample_count=1)

    assert list(fake_daemon.hellos[0].problems) == []
