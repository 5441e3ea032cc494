"""The probe's agent: a sampling loop, a stream to roostd, and a socket for hooks."""

import asyncio
import logging
import random
import signal
import uuid
from dataclasses import dataclass
from pathlib import Path

from roost_probe.agent.agent_socket import AgentSocket
from roost_probe.agent.daemon_link import DaemonAddress
from roost_probe.agent.hello import build_hello
from roost_probe.agent.notify import Notifier
from roost_probe.agent.telemetry import Outbox, TelemetryStream
from roost_probe.node.monitor import Monitor
from roost_proto.v1 import telemetry_pb2

log = logging.getLogger(__name__)

LONGEST_INTERVAL_S = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentSettings:
    """Settings of the agent."""

    node: str
    daemon: DaemonAddress
    interval_s: float = 1.0  # the daemon may ask for a longer one
    agent_socket: Path | None = None


class Agent:
    """One node's agent.

    Args:
        settings: see AgentSettings.
        monitor: reads the driver.
        notifier: reports readiness and state to systemd.
        rng: draws the waits of the back-off.
    """

    def __init__(
        self, settings: AgentSettings, monitor: Monitor, notifier: Notifier, rng: random.Random
    ) -> None:
        self._settings, self._monitor, self._notifier = settings, monitor, notifier
        self._interval_s = settings.interval_s
        self._outbox = Outbox()
        self._has_sampled = asyncio.Event()
        self._start_id = uuid.uuid4().hex
        self._stream = TelemetryStream(
            settings.daemon, self._outbox, self._hello, self._welcome, rng
        )

    async def run(self) -> None:
        """Work until cancelled.

        Raises:
            SettingsError: a TLS file cannot be read.
        """
        channel = self._settings.daemon.open_channel()
        hooks = None
        if self._settings.agent_socket is not None:
            hooks = AgentSocket(
                self._settings.agent_socket,
                self._settings.node,
                channel,
                lambda: self._monitor.topology,
            )
            await hooks.start()
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._sample())
                tasks.create_task(self._stream_after_first_sample())
        finally:
            self._notifier.stopping()
            if hooks is not None:
                await hooks.close()
            await channel.close()
            await self._monitor.close()

    def reload(self) -> None:
        """Read topology and certificates again, and open a new stream; it begins with Hello."""
        self._notifier.reloading()
        self._monitor.refresh()
        self._stream.reconnect()
        self._notifier.ready(self._status())

    async def _sample(self) -> None:
        loop = asyncio.get_running_loop()
        due_s, revision = loop.time(), self._monitor.revision
        while True:
            sample = await self._monitor.step()
            if self._monitor.revision != revision:
                revision = self._monitor.revision
                self._outbox.put_hello()
                self._notifier.status(self._status())
            self._outbox.put_sample(sample)
            self._notifier.watchdog()
            if not self._has_sampled.is_set():
                self._notifier.ready(self._status())
                self._has_sampled.set()
            # Samples that a slow driver call delays past their time are skipped, not queued.
            due_s = max(due_s + self._interval_s, loop.time())
            await asyncio.sleep(due_s - loop.time())

    async def _stream_after_first_sample(self) -> None:
        # A Hello without GPUs would tell roostd that the node has lost them.
        await self._has_sampled.wait()
        await self._stream.run()

    def _hello(self) -> telemetry_pb2.Hello:
        monitor = self._monitor
        # roostd remembers fatal XIDs for as long as a session lasts, so a
        # repaired GPU begins a new session.
        session_id = f"{self._start_id}-{monitor.repair_count}"
        return build_hello(self._settings.node, session_id, monitor.topology, monitor.problems)

    def _welcome(self, welcome: telemetry_pb2.Welcome) -> None:
        wanted_s = min(welcome.sample_interval_s, LONGEST_INTERVAL_S)
        self._interval_s = max(self._settings.interval_s, wanted_s)
        self._monitor.processes.set_interval(welcome.process_interval_s)

    def _status(self) -> str:
        return self._monitor.fault or f"{len(self._monitor.topology.gpus)} GPUs"


def run_until_stopped(agent: Agent) -> None:
    """Run an agent until SIGTERM or SIGINT; SIGHUP reloads it."""

    async def supervise() -> None:
        loop = asyncio.get_running_loop()
        work = asyncio.create_task(agent.run())
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, work.cancel)
        loop.add_signal_handler(signal.SIGHUP, agent.reload)
        # `roost_probe.start` blocked it: one that has come since is delivered now.
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGHUP})
        try:
            await work
        except asyncio.CancelledError:
            log.info("stopped")

    asyncio.run(supervise())
