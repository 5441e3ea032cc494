"""The daemon: builds its parts, starts them, reloads the configuration and stops."""

import asyncio
import contextlib
import os
import signal
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from importlib.metadata import version

import structlog
from prometheus_client import CollectorRegistry

from roost_engine.domain.errors import ConfigError, RoostError
from roost_engine.domain.events import Event
from roost_engine.domain.model import JobId
from roost_engine.engine import Engine
from roost_engine.plugins.plugins import Policies
from roost_formats.journal.pruning import Limits
from roostd.app.applier import Applier
from roostd.app.earlier_waits import read_waits
from roostd.app.engine_runs import EngineRuns, read_speeds
from roostd.app.eta_comments import EtaComments
from roostd.app.forecast_errors import ForecastErrors
from roostd.app.forecast_worker import ForecastWorker
from roostd.app.forecaster import Forecaster
from roostd.app.gauges import set_gauges, status_line
from roostd.app.gpu_memory_meter import GpuMemoryMeter
from roostd.app.interference_keeper import InterferenceKeeper
from roostd.app.journal_opening import JournalOpener
from roostd.app.knowledge_keeper import KnowledgeKeeper
from roostd.app.link_meter import LinkMeter
from roostd.app.loop import DecisionLoop
from roostd.app.mode_desk import ModeDesk
from roostd.app.node_opt_in import NodeOptIn
from roostd.app.pair_teller import PairTeller
from roostd.app.past_jobs import PastJobs
from roostd.app.policy_desk import PolicyDesk
from roostd.app.policy_evaluator import ProcessEvaluator
from roostd.app.policy_shadow import PolicyShadow
from roostd.app.recorder import Recorder
from roostd.app.shadow_questions import ShadowQuestions
from roostd.app.slurm_watch import SlurmWatch
from roostd.app.waste_meter import WasteMeter
from roostd.config.config import Config
from roostd.config.pair_file import read_shared_pairs
from roostd.config.reload import check_unchanged
from roostd.ops.clock import MonotonicClock
from roostd.ops.collector import Collector
from roostd.ops.files import raise_file_limit
from roostd.ops.folders import SPOOL_FOLDER, locked, make_folders
from roostd.ops.heartbeat import HeartbeatWriter, owner_of
from roostd.ops.logs import configure_logs
from roostd.ops.metrics import Metrics
from roostd.ops.metrics_server import MetricsServer, serve_metrics
from roostd.ops.notify import Notifier
from roostd.ops.stall_watch import StallWatch
from roostd.page.server import serve_page
from roostd.rpc.roles import Roles
from roostd.rpc.server import Servers
from roostd.slurm.lease_plan import RENEWALS
from roostd.slurm.port import SlurmPort
from roostd.slurm.slurm_cli import SlurmCli
from roostd.state import DaemonState
from roostd.telemetry.board import ProbeBoard

_log = structlog.get_logger(__name__)

HEARTBEAT_S = 3.0  # a fifth of the age at which job_submit.lua takes the daemon for dead
DRAIN_S = 10.0
STOP_GRACE_S = 2.0
UPKEEP_S = 1.0
ANNOUNCE_S = 2.0
JOURNAL_RETRY_S = 30.0


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
    asyncio.run(Daemon(config, reload).run())


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
    ) -> None:
        self._config, self._reload_config = config, reload
        self._handles_signals = handles_signals
        self._under_systemd = "JOURNAL_STREAM" in environ
        self._notify = Notifier(environ)
        self._heartbeat = HeartbeatWriter(config.paths.runtime_dir)
        self._slurm = slurm
        self.metrics = Metrics(registry or CollectorRegistry())
        self.stalls = StallWatch(self.metrics)
        self._collector = Collector()
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
        configure_logs(config.log.level, config.log.format, under_systemd=self._under_systemd)
        make_folders(config)
        handlers = {
            signal.SIGTERM: self.stop,
            signal.SIGINT: self.stop,
            signal.SIGHUP: self.reload,
        }
        with locked(config.paths.state_dir), locked(config.paths.runtime_dir, "runtime_dir"):
            self._build(config)
            with _signals(handlers if self._handles_signals else {}):
                try:
                    await self._serve()
                except ExceptionGroup as group:
                    _log.exception("roostd_failed")
                    raise DaemonFailed(str(group.exceptions[0])) from group

    def reload(self) -> None:
        """Ask for the configuration to be read again, as SIGHUP does."""
        self._reloading.set()

    def stop(self) -> None:
        """Start to drain."""
        self._stopping.set()

    def _build(self, config: Config) -> None:
        limits = Limits(config.journal.max_bytes, config.journal.max_age_s)
        speeds, pairs = read_speeds(config), read_shared_pairs(config)
        opener = JournalOpener(config.paths.state_dir, limits, version("roost"))
        opened = opener.at_start()
        clock = MonotonicClock.resume(opened.last_at_s, opened.epoch_of_zero_s)
        self.recorder = Recorder(
            opened.journal,
            config.journal.max_bytes // 4,
            JOURNAL_RETRY_S,
            fault=opened.fault,
            reopen=opener.open,
        )
        board = ProbeBoard(clock.now_s, self._emit)
        self.state = DaemonState(
            version=version("roost"),
            clock=clock,
            config=config,
            engine=Engine(config.choice.engine_config(), Policies()),
            board=board,
            started_s=clock.now_s(),
            journal_fault=opened.fault,
            earlier_waits=read_waits(opened.journal),
        )
        self.knowledge = KnowledgeKeeper.resume(opened.journal, self.state, self.recorder)
        self.desk = PolicyDesk(
            self.state,
            config,
            ProcessEvaluator(),
            self._replace_engine,
            self._settle,
            lambda: self._engines.speeds,
        )
        self.modes = ModeDesk(self.state, self.desk, self._change_modes, config)
        self._engines = EngineRuns(
            self.state, self.knowledge, self.recorder, speeds, self.desk.extended, pairs
        )
        self.shadow = PolicyShadow(self.state, self.recorder)
        self.past_jobs = PastJobs(self.state, self.recorder.note_past)
        self.state.find_past = self.recorder.past
        self._links = LinkMeter(self.state, self._emit)
        learned_path = config.paths.state_dir / "interference.json"
        self._interference = InterferenceKeeper(self.state, learned_path)
        self._pairs = PairTeller(self.state, lambda: self._engines.plugins, self._emit)
        waste_path = config.paths.state_dir / "waste.json"
        self._waste = WasteMeter(self.state, waste_path, self.metrics.wasted)
        memory_path = config.paths.state_dir / "gpu-memory.json"
        self._gpu_memory = GpuMemoryMeter(self.state, memory_path)
        self._build_parts(config, self._slurm or self._slurm_cli(config))

    def _slurm_cli(self, config: Config) -> SlurmPort:
        return SlurmCli(
            config.slurm.bin_dir,
            config.slurm.conf,
            timeout_s=config.slurm.command_timeout_s,
            lease_s=lambda: self.state.config.slurm.lease_s,
            rules_interval_s=lambda: self.state.config.slurm.poll_interval_s,
            owner=owner_of(config.paths.runtime_dir),
        )

    def _build_parts(self, config: Config, slurm: SlurmPort) -> None:
        """Build the parts that run as tasks of their own."""
        self.watch = SlurmWatch(
            slurm,
            self.state,
            self.metrics,
            self._emit,
            self._release_needless,
            config.paths.runtime_dir / SPOOL_FOLDER,
            self._adopt,
        )
        self.forecast_worker = ForecastWorker()
        errors_path = config.paths.state_dir / "forecasts.json"
        self._forecast_errors = ForecastErrors(self.state, errors_path)
        self.forecaster = Forecaster(
            self.state,
            self.forecast_worker.compute,
            self._forecast_errors.corrected,
            EtaComments(self.state, lambda *what: self.applier.foretell(*what)).update,
        )
        self.questions = ShadowQuestions(slurm, self.state, self.metrics, self.watch)
        self.applier = Applier(
            slurm,
            self.state,
            self.recorder,
            self.metrics,
            self._emit,
            self.watch.poll,
            self.watch.poll_nodes,
            config.slurm.concurrent_pin_count,
        )
        opt_in = NodeOptIn(self.state, self.watch.hand_over)
        self.decisions = DecisionLoop(
            self.state,
            self.recorder,
            self.applier,
            self.metrics,
            self._beat_s(),
            self._beat,
            (
                self.desk.watch.observe,
                self.shadow.observe,
                self.past_jobs.observe,
                opt_in.observe,
            ),
        )
        self.servers = Servers(
            self.state,
            self.metrics,
            config.listen,
            config.operator_socket,
            config.admin_socket,
            self._report,
            self.desk,
            self.modes,
        )

    def _emit(self, event: Event) -> None:
        self.decisions.put(event)

    async def _report(self, event: Event) -> None:
        """Report an event to the engine, and return once its effect is on disk."""
        await self.decisions.report(event)
        await self._settle()

    async def _settle(self) -> None:
        """Wait until the journal has every step so far."""
        await self.recorder.wait_durable(self.knowledge.write())

    def _release_needless(self, job_ids: Sequence[JobId]) -> None:
        self.applier.release_needless(job_ids)

    def _adopt(self, pinned: Iterable[JobId], eligible: Iterable[JobId]) -> None:
        self.applier.adopt(pinned, eligible)

    async def _serve(self) -> None:
        try:
            await self.servers.start()
        except BaseException:
            self.recorder.close()
            await self.recorder.run()
            raise
        if self._config.listen.metrics is not None:
            serve_metrics(self.metrics.registry, self._config.listen.metrics)
        if self._config.page.listen is not None:
            self.page = serve_page(self.state, self._config.page.listen)
        with self._collector:
            await self._run_tasks()

    async def _run_tasks(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            writer = tasks.create_task(self.recorder.run())
            await self.watch.first_poll()
            self._begin_engine()  # now that Slurm's release is known
            self.state.earlier_decisions = await self.recorder.places(self.watch.job_ids())
            running = [
                tasks.create_task(work)
                for work in (
                    self.decisions.run(),
                    self.watch.run(),
                    self.questions.run(),
                    self.forecaster.run(),
                    self.shadow.run(),
                    self._renew_leases(),
                    self._renew_first_leases(),
                    self._announce(),
                    self._upkeep(),
                    self.stalls.run(),
                    self._reload_when_asked(),
                )
            ]
            self._notify.ready(status_line(self.state))
            self.started.set()
            _log.info(
                "roostd_started",
                version=self.state.version,
                probe_port=self.servers.probe_port,
                operator_socket=str(self._config.operator_socket),
                policy=self.state.engine.policies.score.name,
                slurm=self.state.slurm_version or None,
                slurm_fault=self.state.slurm_fault or None,
            )
            await self._stopping.wait()
            await self._drain(running)
            await writer

    async def _drain(self, running: list[asyncio.Task[None]]) -> None:
        """Finish the pins under way; waiting jobs keep their leases, which run out.

        A daemon that starts again within a lease finds these jobs still waiting; otherwise plain
        Slurm starts them. The heartbeat is removed first, so new submissions get no lease.
        """
        self._notify.stopping()
        _log.info("roostd_draining")
        self._heartbeat.remove()
        await self.servers.set_serving(False)
        if self.page is not None:
            await asyncio.to_thread(self.page.close)
        await self.applier.drain(DRAIN_S)
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)
        await self.forecast_worker.stop()
        await self.shadow.stop()
        self.desk.keep_evidence()
        self._waste.store()
        self._gpu_memory.store()
        self._interference.store()
        self._forecast_errors.store()
        self.knowledge.write()
        await self.servers.stop(STOP_GRACE_S)
        self.recorder.close()
        _log.info("roostd_stopped")

    # -- periodic tasks ----------------------------------------------------------------------

    async def _renew_leases(self) -> None:
        while True:
            await self.applier.renew(self.watch.leased())
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self.state.config.slurm.lease_s / RENEWALS):
                    await self.watch.clock_was_set.wait()
                self.watch.clock_was_set.clear()
                self.applier.forget_leases()

    async def _renew_first_leases(self) -> None:
        while True:
            slurm = self.state.config.slurm
            await asyncio.sleep(min(slurm.first_lease_s, slurm.lease_s) / 4)
            await self.applier.renew_first(self.watch.leased())

    async def _announce(self) -> None:
        """Write the reasons of waiting jobs into Slurm; a job placed before that gets none."""
        while True:
            await asyncio.sleep(ANNOUNCE_S)
            await self.applier.announce()

    async def _upkeep(self) -> None:
        """Bring gauges, health and the journal's runs up to date, once in UPKEEP_S."""
        is_serving: bool | None = None
        while True:
            state, healthy = self.state, not self.state.slurm_fault
            state.journal_fault = self.recorder.fault
            if healthy != is_serving:
                is_serving = healthy
                await self.servers.set_serving(healthy)
            set_gauges(self.metrics, state, self.recorder)
            self._notify.status(status_line(state))
            self._links.poll()
            self._waste.poll()
            self._gpu_memory.poll()
            self._interference.poll()
            self._pairs.poll()
            self._collector.poll()
            self.watch.follow_wall_clock()
            self.knowledge.write_if_due()
            is_due = self.recorder.wants_new_run or self._engines.is_outdated
            may = self.applier.is_idle or self.recorder.must_begin_new_run
            if is_due and may and not state.slurm_fault:
                await self.knowledge.read_late()
                self._replace_engine()
            if not state.slurm_fault:
                self.desk.poll()
            await asyncio.sleep(UPKEEP_S)

    def _beat_s(self) -> float:
        watchdog_s = self._notify.watchdog_s
        return HEARTBEAT_S if watchdog_s is None else min(HEARTBEAT_S, watchdog_s / 2)

    def _beat(self) -> None:
        """Notify systemd that the decision loop runs, and job_submit.lua while Slurm answers."""
        self._notify.watchdog()
        if self.state.slurm_fault:
            return
        self._heartbeat.write(self.state.config)

    # -- engines and configurations ----------------------------------------------------------

    def _begin_engine(self) -> None:
        self._engines.begin()
        self.shadow.begin(self._engines.plugins, self._engines.speeds)

    def _replace_engine(self) -> None:
        """Replace the engine by a fresh one, which gets the world as Slurm shows it."""
        self._collector.begin_engine()
        self._begin_engine()
        self.decisions.restart(self.watch.cluster_events())

    def _change_modes(self) -> None:
        """Begin an engine for other modes, and let job_submit.lua know of them at once."""
        self._replace_engine()
        if not self.state.slurm_fault:
            self._heartbeat.write(self.state.config)
        self.watch.poll()

    async def _reload_when_asked(self) -> None:
        while True:
            await self._reloading.wait()
            self._reloading.clear()
            self._notify.reloading()
            self._reload()
            self._notify.ready(status_line(self.state))

    def _reload(self) -> None:
        """Apply a new configuration as a whole, or keep the old one as a whole."""
        try:
            config = self._reload_config()
            check_unchanged(self._config, config)
            Roles(config.roles)  # names of unknown users keep the old configuration
            speeds, pairs = read_speeds(config), read_shared_pairs(config)
        except ConfigError as error:
            self.metrics.config_ok.set(0)
            _log.error("config_not_reloaded", error=str(error))
            return
        self._engines.speeds, self._engines.shared_pairs = speeds, pairs
        self.modes.reloaded(config)
        self.desk.configure(config)
        configure_logs(config.log.level, config.log.format, under_systemd=self._under_systemd)
        self._replace_engine()
        self.metrics.config_ok.set(1)
        _log.info("config_reloaded")


@contextlib.contextmanager
def _signals(handlers: Mapping[signal.Signals, Callable[[], None]]) -> Iterator[None]:
    loop = asyncio.get_running_loop()
    for number, handle in handlers.items():
        loop.add_signal_handler(number, handle)
    try:
        yield
    finally:
        for number in handlers:
            loop.remove_signal_handler(number)
