"""The daemon: starts its parts, reloads the configuration and stops."""

import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import Callable, Iterator, Mapping

import structlog
from prometheus_client import CollectorRegistry

from roost_engine.domain.errors import ConfigError, RoostError
from roostd.app.assembly import Assembly
from roostd.app.engine_runs import read_speeds
from roostd.app.gauges import set_gauges, status_line
from roostd.config.config import Config
from roostd.config.pair_file import read_shared_pairs
from roostd.config.reload import check_unchanged
from roostd.ops.collector import Collector
from roostd.ops.event_loop import DaemonLoop
from roostd.ops.files import raise_file_limit
from roostd.ops.folders import locked, make_folders
from roostd.ops.heartbeat import HeartbeatWriter
from roostd.ops.log_lines import LogLines
from roostd.ops.logs import configure_logs
from roostd.ops.metrics import Metrics
from roostd.ops.metrics_server import MetricsServer, serve_metrics
from roostd.ops.notify import Notifier
from roostd.ops.stall_watch import StallWatch
from roostd.page.server import serve_page
from roostd.rpc.access.roles import Roles
from roostd.slurm.lease_plan import RENEWALS
from roostd.slurm.port import SlurmPort
from roostd.state import DaemonState

_log = structlog.get_logger(__name__)

HEARTBEAT_S = 3.0  # a fifth of the age at which job_submit.lua takes the daemon for dead
DRAIN_S = 10.0
STOP_GRACE_S = 2.0
UPKEEP_S = 1.0
ANNOUNCE_S = 2.0
_SLURM_CURE = (
    "see that scontrol and squeue in slurm.bin_dir answer for roostd's user; it asks again by"
    " itself"
)


class DaemonFailed(RoostError):
    """A task of the daemon failed that never should; systemd starts the daemon again."""


def serve(config: Config, reload: Callable[[], Config]) -> None:
    """Run the daemon until SIGTERM or SIGINT.

    Args:
        config: to start with.
        reload: reads the configuration again, at SIGHUP.

    Raises:
        RoostError: the daemon could not start, or one of its tasks failed.
    """
    raise_file_limit()
    with LogLines(sys.stderr) as lines, asyncio.Runner(loop_factory=DaemonLoop) as runner:
        runner.run(Daemon(config, reload, log_lines=lines).run())


class Daemon:
    """One run of roostd.

    Args:
        config: to start with.
        reload: reads the configuration again.
        slurm: the cluster; Slurm's own commands when None.
        environ: for NOTIFY_SOCKET and the like.
        registry: where metrics are registered.
        handles_signals: False where the daemon runs inside another program, which handles its
            signals itself.
        log_lines: takes the log's lines; None: standard error, written at once.
    """

    def __init__(
        self,
        config: Config,
        reload: Callable[[], Config],
        *,
        slurm: SlurmPort | None = None,
        environ: Mapping[str, str] = os.environ,
        registry: CollectorRegistry | None = None,
        handles_signals: bool = True,
        log_lines: LogLines | None = None,
    ) -> None:
        self._config, self._reload_config = config, reload
        self._log_lines = log_lines
        self._handles_signals = handles_signals
        self._under_systemd = "JOURNAL_STREAM" in environ
        self._notify = Notifier(environ)
        self._heartbeat = HeartbeatWriter(config.paths.runtime_dir)
        self._slurm = slurm
        self.metrics = Metrics(registry or CollectorRegistry())
        if log_lines is not None:
            self.metrics.log_dropped.set_function(lambda: log_lines.dropped_count)
        self.stalls = StallWatch(self.metrics)
        self._collector = Collector(lambda: self.state.board.node_count)
        self.started = asyncio.Event()
        self.page: MetricsServer | None = None
        self._stopping = asyncio.Event()
        self._reloading = asyncio.Event()

    async def run(self) -> None:
        """Start, serve, drain, stop.

        Raises:
            ConfigError: a port or folder that the configuration names cannot be used.
            StateFolderInUse: another roostd is running.
            DaemonFailed: a task failed; the log has the trace.
        """
        config = self._config
        self._configure_logs(config)
        make_folders(config)
        handlers = {
            signal.SIGTERM: self.stop,
            signal.SIGINT: self.stop,
            signal.SIGHUP: self.reload,
        }
        with locked(config.paths.state_dir), locked(config.paths.runtime_dir, "runtime_dir"):
            self.parts = Assembly(
                config,
                self._slurm,
                self.metrics,
                self._heartbeat,
                self._collector,
                self._beat_s(),
                self._beat,
            )
            with _signals(handlers if self._handles_signals else {}):
                try:
                    await self._serve()
                except ExceptionGroup as group:
                    _log.exception("roostd_failed")
                    raise DaemonFailed(str(group.exceptions[0])) from group

    def _configure_logs(self, config: Config) -> None:
        configure_logs(
            config.log.level,
            config.log.format,
            under_systemd=self._under_systemd,
            stream=self._log_lines,
        )

    @property
    def state(self) -> DaemonState:
        """The daemon's state; there is none before `run`."""
        return self.parts.state

    def reload(self) -> None:
        """Ask for the configuration to be read again, as SIGHUP does."""
        self._reloading.set()

    def stop(self) -> None:
        """Start to drain."""
        self._stopping.set()

    async def _serve(self) -> None:
        try:
            await self.parts.servers.start()
            if self._config.listen.metrics is not None:
                serve_metrics(self.metrics.registry, self._config.listen.metrics)
            if self._config.page.listen is not None:
                self.page = serve_page(self.state, self._config.page.listen)
        except BaseException:
            await self.parts.servers.stop(grace_s=0.0)
            self.parts.recorder.close()
            await self.parts.recorder.run()
            raise
        with self._collector:
            await self._run_tasks()

    async def _run_tasks(self) -> None:
        parts = self.parts
        async with asyncio.TaskGroup() as tasks:
            writer = tasks.create_task(parts.recorder.run())
            await parts.watch.first_poll()
            parts.begin_engine()  # now that Slurm's release is known
            self.state.earlier_decisions = await parts.recorder.places(parts.watch.job_ids())
            running = [
                tasks.create_task(work)
                for work in (
                    parts.decisions.run(),
                    parts.watch.run(),
                    parts.watch.spool.run(),
                    parts.watch.returns.run(),
                    parts.questions.run(),
                    parts.forecaster.run(),
                    parts.shadow.run(),
                    self._renew_leases(),
                    self._renew_first_leases(),
                    self._announce(),
                    self._upkeep(),
                    self.stalls.run(),
                    self._collector.run(),
                    self._reload_when_asked(),
                )
            ]
            self._notify.ready(status_line(self.state))
            self.started.set()
            _log.info(
                "roostd_started",
                version=self.state.version,
                probe_port=parts.servers.probe_port,
                operator_socket=str(self._config.operator_socket),
                policy=self.state.engine.policies.score.name,
                slurm=self.state.slurm_version or None,
                slurm_fault=self.state.slurm_fault or None,
            )
            if self.state.slurm_fault:
                _log.error("slurm_not_reached", error=self.state.slurm_fault, cure=_SLURM_CURE)
            await self._stopping.wait()
            await self._drain(running)
            await writer

    async def _drain(self, running: list[asyncio.Task[None]]) -> None:
        """Finish the pins under way; waiting jobs keep their leases, which run out.

        A daemon that starts again within a lease finds these jobs still waiting; otherwise plain
        Slurm starts them. The heartbeat is removed first, so new submissions get no lease.
        """
        parts = self.parts
        self._notify.stopping()
        _log.info("roostd_draining")
        self._heartbeat.remove()
        await parts.servers.set_serving(False)
        if self.page is not None:
            await asyncio.to_thread(self.page.close)
        await parts.applier.drain(DRAIN_S)
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)
        await parts.forecast_worker.stop()
        await parts.shadow.stop()
        parts.desk.keep_evidence()
        parts.store()
        await parts.servers.stop(STOP_GRACE_S)
        parts.recorder.close()
        _log.info("roostd_stopped")

    async def _renew_leases(self) -> None:
        while True:
            await self.parts.applier.renew(self.parts.watch.leased())
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self.state.config.slurm.lease_s / RENEWALS):
                    await self.parts.watch.clock_was_set.wait()
                self.parts.watch.clock_was_set.clear()
                self.parts.applier.forget_leases()

    async def _renew_first_leases(self) -> None:
        while True:
            slurm = self.state.config.slurm
            await asyncio.sleep(min(slurm.first_lease_s, slurm.lease_s) / 4)
            await self.parts.applier.renew_first(self.parts.watch.leased())

    async def _announce(self) -> None:
        """Write the reasons of waiting jobs into Slurm; a job placed before that gets none."""
        while True:
            await asyncio.sleep(ANNOUNCE_S)
            await self.parts.applier.announce()

    async def _upkeep(self) -> None:
        """Bring gauges, health and the journal's runs up to date, once in UPKEEP_S."""
        parts = self.parts
        is_serving: bool | None = None
        while True:
            state, healthy = self.state, not self.state.slurm_fault
            state.journal_fault = parts.recorder.fault
            if healthy != is_serving:
                is_serving = healthy
                await parts.servers.set_serving(healthy)
            set_gauges(self.metrics, state, parts.recorder)
            self._notify.status(status_line(state))
            parts.poll_meters()
            parts.watch.follow_wall_clock()
            parts.knowledge.write_if_due()
            is_due = parts.recorder.wants_new_run or parts.engines.is_outdated
            may = parts.applier.is_idle or parts.recorder.must_begin_new_run
            if is_due and may and not state.slurm_fault:
                await parts.knowledge.read_late()
                parts.replace_engine()
            if not state.slurm_fault:
                parts.desk.poll()
            await asyncio.sleep(UPKEEP_S)

    def _beat_s(self) -> float:
        watchdog_s = self._notify.watchdog_s
        return HEARTBEAT_S if watchdog_s is None else min(HEARTBEAT_S, watchdog_s / 2)

    def _beat(self) -> None:
        """Notify systemd that the decision loop runs, and job_submit.lua while Slurm answers."""
        self._notify.watchdog()
        if self.state.slurm_fault:
            return
        self._heartbeat.write(self.state.config, self.state.registered_epoch_s)

    async def _reload_when_asked(self) -> None:
        while True:
            await self._reloading.wait()
            self._reloading.clear()
            self._notify.reloading()
            await self._reload()
            self._notify.ready(status_line(self.state))

    async def _reload(self) -> None:
        """Apply a new configuration as a whole, or keep the old one as a whole."""
        parts = self.parts
        try:
            config = self._reload_config()
            check_unchanged(self._config, config)
            Roles(config.roles)  # names of unknown users keep the old configuration
            speeds, pairs = read_speeds(config), read_shared_pairs(config)
        except ConfigError as error:
            self.metrics.config_ok.set(0)
            _log.error("config_not_reloaded", error=str(error))
            return
        parts.engines.speeds, parts.engines.shared_pairs = speeds, pairs
        parts.modes.reloaded(config)
        parts.desk.configure(config)
        self._configure_logs(config)
        await parts.replace_engine_by_settings()
        self.metrics.config_ok.set(1)
        _log.info("config_reloaded")


@contextlib.contextmanager
def _signals(handlers: Mapping[signal.Signals, Callable[[], None]]) -> Iterator[None]:
    loop = asyncio.get_running_loop()
    before = {number: signal.getsignal(number) for number in handlers}
    for number, handle in handlers.items():
        loop.add_signal_handler(number, handle)
    # `roostd.start` blocked SIGHUP: one that has come since is delivered now.
    signal.pthread_sigmask(signal.SIG_UNBLOCK, handlers)
    try:
        yield
    finally:
        for number, handler in before.items():
            loop.remove_signal_handler(number)
            signal.signal(number, handler or signal.SIG_DFL)
