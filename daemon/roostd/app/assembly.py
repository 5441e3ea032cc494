"""The daemon's parts: each built once, and given what it needs of the others."""

from collections.abc import Callable, Iterable, Sequence
from importlib.metadata import version

from roost_engine.domain.events import Event
from roost_engine.domain.model import JobId
from roost_engine.engine import Engine
from roost_engine.plugins.plugins import Policies
from roost_formats.journal.pruning import JournalLimits
from roostd.app.actions.applier import Applier
from roostd.app.decision.earlier_waits import read_waits
from roostd.app.decision.journal_opening import JournalOpener
from roostd.app.decision.loop import DecisionLoop
from roostd.app.decision.recorder import Recorder
from roostd.app.engine_runs import EngineRuns, read_speeds
from roostd.app.forecast.eta_comments import EtaComments
from roostd.app.forecast.forecast_errors import ForecastErrors
from roostd.app.forecast.forecast_worker import ForecastWorker
from roostd.app.forecast.forecaster import Forecaster
from roostd.app.mode_desk import ModeDesk
from roostd.app.observation.activity_meter import ActivityMeter
from roostd.app.observation.gpu_memory_meter import GpuMemoryMeter
from roostd.app.observation.interference_keeper import InterferenceKeeper
from roostd.app.observation.job_load_meter import JobLoadMeter
from roostd.app.observation.knowledge_keeper import KnowledgeKeeper
from roostd.app.observation.link_meter import LinkMeter
from roostd.app.observation.pair_reporter import PairReporter
from roostd.app.observation.past_jobs import PastJobs
from roostd.app.observation.waste_meter import WasteMeter
from roostd.app.polls.node_opt_in import NodeOptIn
from roostd.app.polls.shadow_questions import ShadowQuestions
from roostd.app.polls.short_runs import ShortRuns
from roostd.app.polls.slurm_watch import SlurmWatch
from roostd.app.promotion.policy_desk import PolicyDesk
from roostd.app.promotion.policy_evaluator import ProcessEvaluator
from roostd.app.promotion.policy_shadow import PolicyShadow
from roostd.config.config import Config
from roostd.config.pair_file import read_shared_pairs
from roostd.ops.clock import MonotonicClock
from roostd.ops.collector import Collector
from roostd.ops.folders import SPOOL_FOLDER
from roostd.ops.heartbeat import HeartbeatWriter, owner_of
from roostd.ops.metrics import Metrics
from roostd.rpc.server import Servers
from roostd.slurm.port import SlurmPort
from roostd.slurm.slurm_cli import SlurmCli
from roostd.state import DaemonState
from roostd.telemetry.board import ProbeBoard

JOURNAL_RETRY_S = 30.0


class Assembly:
    """All parts of one run of roostd, and what needs several of them at once.

    Args:
        config: to start with.
        slurm: the cluster; Slurm's own commands when None.
        metrics: of all parts.
        heartbeat: tells job_submit.lua the modes.
        collector: scans in short steps while an engine is given the jobs.
        beat_s: the decision loop beats so often.
        beat: called at each beat.
    """

    def __init__(
        self,
        config: Config,
        slurm: SlurmPort | None,
        metrics: Metrics,
        heartbeat: HeartbeatWriter,
        collector: Collector,
        beat_s: float,
        beat: Callable[[], None],
    ) -> None:
        self._metrics, self._heartbeat, self._collector = metrics, heartbeat, collector
        # Read first: a file that is wrong is refused before the journal is opened.
        speeds, pairs = read_speeds(config), read_shared_pairs(config)
        self._build_state(config)
        self._build_desks(config)
        self.engines = EngineRuns(
            self.state, self.knowledge, self.recorder, speeds, self.desk.extended, pairs
        )
        self._build_meters(config)
        port = slurm or self._slurm_cli(config)
        self._build_watch(config, port)
        self._build_forecast()
        self._build_decisions(config, port, beat_s, beat)
        self.servers = Servers(
            self.state,
            self._metrics,
            config.listen,
            config.operator_socket,
            config.admin_socket,
            self.report,
            self.desk,
            self.modes,
        )

    def _build_state(self, config: Config) -> None:
        """Open the journal, and read what it says of earlier runs."""
        limits = JournalLimits(config.journal.max_bytes, config.journal.max_age_s)
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

    def _build_desks(self, config: Config) -> None:
        """Build the parts that change policies and modes, and those that watch what they do."""
        self.desk = PolicyDesk(
            self.state,
            config,
            ProcessEvaluator(),
            self.replace_engine,
            self._settle,
            lambda: self.engines.speeds,
        )
        self.modes = ModeDesk(self.state, self.desk, self._change_modes, config)
        self.shadow = PolicyShadow(self.state, self.recorder)
        self.past_jobs = PastJobs(self.state, self.recorder.note_past)
        self.state.find_past = self.recorder.past

    def _build_meters(self, config: Config) -> None:
        """Build the parts that measure and learn, once a second."""
        folder, clock = config.paths.state_dir, self.state.clock
        self._links = LinkMeter(self.state, self._emit)
        self._job_loads = JobLoadMeter(self.state, self._emit)
        self._activity = ActivityMeter(self.state)
        self._keepers = (
            InterferenceKeeper(clock, self.state.progress, folder / "interference.json"),
            InterferenceKeeper(clock, self.state.activity, folder / "activity.json"),
        )
        self._pairs = PairReporter(self.state, lambda: self.engines.plugins, self._emit)
        self._waste = WasteMeter(
            self.state, folder / "waste.json", self._metrics.wasted, self._emit
        )
        self._gpu_memory = GpuMemoryMeter(self.state, folder / "gpu-memory.json", self._emit)
        self._forecast_errors = ForecastErrors(self.state, folder / "forecasts.json")

    def _slurm_cli(self, config: Config) -> SlurmPort:
        return SlurmCli(
            config.slurm.bin_dir,
            config.slurm.conf,
            timeout_s=config.slurm.command_timeout_s,
            lease_s=lambda: self.state.config.slurm.lease_s,
            rules_interval_s=lambda: self.state.config.slurm.poll_interval_s,
            owner=owner_of(config.paths.runtime_dir),
        )

    def _build_watch(self, config: Config, slurm: SlurmPort) -> None:
        """Build the parts that ask Slurm."""
        self.watch = SlurmWatch(
            slurm,
            self.state,
            self._metrics,
            self._emit,
            self._release_needless,
            config.paths.runtime_dir / SPOOL_FOLDER,
            self._adopt,
            ShortRuns(
                self.state,
                lambda job_ids: self.applier.open_jobs(job_ids),
                lambda job_ids: self.applier.close_jobs(job_ids),
            ),
        )
        self.questions = ShadowQuestions(slurm, self.state, self._metrics, self.watch)

    def _build_forecast(self) -> None:
        """Build the parts that estimate start times."""
        self.forecast_worker = ForecastWorker()
        self.forecaster = Forecaster(
            self.state,
            self.forecast_worker.compute,
            self._forecast_errors.corrected,
            EtaComments(self.state, lambda *what: self.applier.foretell(*what)).update,
        )

    def _build_decisions(
        self, config: Config, slurm: SlurmPort, beat_s: float, beat: Callable[[], None]
    ) -> None:
        """Build the loop that decides, and the part that carries its decisions out."""
        self.applier = Applier(
            slurm,
            self.state,
            self.recorder,
            self._metrics,
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
            self._metrics,
            beat_s,
            beat,
            (
                self.desk.watch.observe,
                self.shadow.observe,
                self.past_jobs.observe,
                opt_in.observe,
                self.watch.short_runs.observe,
            ),
        )

    def _emit(self, event: Event) -> None:
        self.decisions.put(event)

    async def report(self, event: Event) -> None:
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

    def poll_meters(self) -> None:
        """Have all meters look, once a second."""
        self._links.poll()
        self._waste.poll()
        self._gpu_memory.poll()
        self._job_loads.poll()
        self._activity.poll()
        for keeper in self._keepers:
            keeper.poll()
        self._pairs.poll()

    def store(self) -> None:
        """Store what was measured and learned."""
        self._waste.store()
        self._gpu_memory.store()
        for keeper in self._keepers:
            keeper.store()
        self._forecast_errors.store()
        self.knowledge.write()

    def begin_engine(self) -> None:
        """Make an engine, once Slurm's release is known."""
        self.engines.begin()
        self.shadow.begin(self.engines.plugins, self.engines.speeds)

    def replace_engine(self) -> None:
        """Replace the engine by a fresh one, which gets the world as Slurm shows it."""
        self._collector.expect_growth()
        self.begin_engine()
        self.decisions.restart(self.watch.cluster_events())

    async def replace_engine_by_settings(self) -> None:
        """Replace the engine after a change of settings by which jobs are read."""
        self._collector.expect_growth()
        await self.watch.prepare_settings()
        self.replace_engine()

    async def _change_modes(self) -> None:
        """Begin an engine for other modes, and let job_submit.lua know of them at once."""
        self._collector.expect_growth()
        await self.watch.prepare_settings()
        self.replace_engine()
        if not self.state.slurm_fault:
            self._heartbeat.write(self.state.config, self.state.registered_epoch_s)
        self.watch.poll()
