"""A whole run: simulates a trace on a cluster under a policy and computes its figures."""

import gc
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np

from roost_engine.domain.events import Event, NodeSeen, TopologySeen
from roost_engine.domain.model import GpuUuid, JobId, NodeShare
from roost_engine.engine import Engine, EngineConfig
from roost_engine.plugins.plugins import Policies
from roost_sim.catalogue.composition import Composition
from roost_sim.clusters.cluster_spec import ClusterSpec
from roost_sim.figures.metrics import Metrics, Span, measure
from roost_sim.figures.occupancy import Holds
from roost_sim.figures.outcome import Outcome
from roost_sim.figures.sharing import PairLog
from roost_sim.information.policy_information import PolicyInformation
from roost_sim.information.predictions import JobKind, Predictions
from roost_sim.information.profile_speeds import named_models
from roost_sim.information.progress import ProgressTable
from roost_sim.runs.driver import Driver, HoldObserver
from roost_sim.runs.mechanism import Mechanism
from roost_sim.traces.arrival import Arrival
from roost_sim.traces.durations import limits_s
from roost_sim.traces.trace import Trace
from roost_sim.traces.workload import arrivals, job_ids
from roost_sim.worlds.fidelity import Regime
from roost_sim.worlds.sharing.measured_pairs import GPU_BYTES
from roost_sim.worlds.sharing.shared_gpus import SharedGpus
from roost_sim.worlds.speed.tier_efficiency import TierEfficiency
from roost_sim.worlds.world_spec import BuiltWorld, WorldSpec

PARTITION = "main"

_COLLECT_EVERY = 1_000_000  # new objects; by default each job's records are scanned a dozen times


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """What to simulate: plain data except `on_hold` and `outside`, so that any process can do it.

    Attributes:
        trace: the jobs.
        cluster: where they run.
        policy: how they are scheduled.
        world: how fast jobs run, and what slows them.
        seed: for the jobs' profiles and for what the policy draws.
        start_delay_s: from a decision to the start.
        span: the jobs whose times are measured.
        engine_config: the engine's numbers; the policy may replace some.
        on_hold: called with every interval for which a job held GPUs.
        outside: of the engine, events that no job of the trace causes, in order of time: see
            Driver.run. After each event the iterator may read the engine, which has come to the
            time of that event. With it the engine remembers ended jobs.
    """

    trace: Trace
    cluster: ClusterSpec
    policy: Composition
    world: WorldSpec = field(default_factory=WorldSpec)
    seed: int = 0
    start_delay_s: float = 0.0
    span: Span = field(default_factory=Span)
    engine_config: EngineConfig = field(default_factory=EngineConfig)
    on_hold: HoldObserver | None = None
    outside: Callable[[Engine], Iterable[Event]] | None = None

    @property
    def is_shared(self) -> bool:
        """Whether jobs that opted in may share GPUs."""
        return self.world.sharing is not None and bool(self.policy.sharing)


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """The results of a run.

    Attributes:
        regime: what the policy knew about run times.
        wall_s: wall time of the simulation without reading files.
        mechanism: how waiting jobs were kept in Slurm.
    """

    outcome: Outcome
    metrics: Metrics
    regime: Regime
    wall_s: float
    mechanism: Mechanism


@contextmanager
def few_collections() -> Iterator[None]:
    """Collect garbage less often: a run makes hardly any cycles, and keeps all its results."""
    before = gc.get_threshold()
    gc.set_threshold(_COLLECT_EVERY, *before[1:])
    try:
        yield
    finally:
        gc.set_threshold(*before)


@few_collections()
def simulate(run: Run) -> Report:
    """Simulate a run with a fresh engine.

    Raises:
        ProfileError: the world excludes a model that does not exist, or all of them.
    """
    began_s = time.perf_counter()
    holds = Holds(is_shared=run.is_shared)
    prepared = prepare(replace(run, on_hold=_both(holds, run.on_hold)))
    driver, built = prepared.driver, prepared.built
    outside = () if run.outside is None else run.outside(driver.engine)
    outcome = driver.run(introduce(run.cluster, run.is_shared), prepared.arrivals, outside)
    metrics = measure(
        outcome,
        run.cluster.gpu_count,
        run.span,
        holds=holds,
        # What a partner costs is no communication, and cannot be told from it afterwards.
        compute_frac=None if run.is_shared else built.compute_frac,
        restart_s=built.restart_s,
        pair_log=prepared.pair_log,
    )
    wall_s = time.perf_counter() - began_s
    return Report(
        outcome=outcome,
        metrics=metrics,
        regime=prepared.regime,
        wall_s=wall_s,
        mechanism=Mechanism.of(driver.engine.config),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedRun:
    """A run that has not begun.

    Attributes:
        driver: with a fresh engine, which knows nothing yet: see `introduce`.
        arrivals: the jobs, for the driver.
        built: how fast they run.
        regime: what the policy knows about run times.
        pair_log: what partners on shared GPUs do; None: no job shares.
    """

    driver: Driver
    arrivals: Iterator[Arrival]
    built: BuiltWorld
    regime: Regime
    pair_log: PairLog | None = None


def prepare(run: Run, build: Callable[[PolicyInformation], Policies] | None = None) -> PreparedRun:
    """Prepare a run with a fresh engine.

    Args:
        run: what to simulate.
        build: makes the engine's policies; None: as the run's policy is built.

    Raises:
        ProfileError: the world excludes a model that does not exist, or all of them.
    """
    trace, cluster = run.trace, run.cluster
    built = run.world.build(cluster, trace, run.seed)
    config, regime = _engine_config(run), _regime(run)
    information = _information(run, built, regime)
    world, pair_log = built.world, None
    if run.is_shared and built.sharing is not None:
        pair_log = PairLog()
        world = SharedGpus(world, built.sharing, pair_log.note)
    driver = Driver(
        Engine(config, (build or run.policy.build)(information)),
        world,
        start_delay_s=run.start_delay_s,
        restart_s=built.restart_s,
        reports_speed=run.policy.asks_speed and run.world.reports_speed,
        progress=information.progress,
        on_hold=run.on_hold,
    )
    if pair_log is not None:
        pair_log.clock = lambda: driver.now_s
    models = named_models(built.profile_of, run.world.named_frac, run.seed)
    jobs = arrivals(
        trace,
        run.policy.shapes,
        cluster.largest_node_gpu_count,
        PARTITION,
        models,
        run.policy.shapes_by_job(information),
        information.limits() if run.policy.asks_limits or config.standing_pins else None,
        _sharing_bytes(built) if run.is_shared else None,
    )
    return PreparedRun(driver=driver, arrivals=jobs, built=built, regime=regime, pair_log=pair_log)


def _sharing_bytes(built: BuiltWorld) -> Mapping[JobId, int]:
    jobs = built.sharing
    assert jobs is not None
    return {job_id: jobs.memory_bytes(job_id) for job_id in jobs.opted_in}


def _engine_config(run: Run) -> EngineConfig:
    """The numbers of the policy; ended jobs are dropped where no caller looks them up."""
    config = run.policy.engine_config(run.engine_config)
    return config if run.outside is not None else replace(config, ended_job_count=0)


def _regime(run: Run) -> Regime:
    """What the run knows about run times: an oracle only as much as the fidelity allows.

    A standing pin is chosen by the time limits of the running jobs.
    """
    listed = run.policy.regime
    if listed is Regime.NONE and _engine_config(run).standing_pins:
        return Regime.LIMIT
    return run.world.fidelity.durations if listed is Regime.ORACLE else listed


def _information(run: Run, built: BuiltWorld, regime: Regime) -> PolicyInformation:
    progress = ProgressTable()
    predict, limits = partial(_predict, run.trace, progress), partial(_limits, run.trace, run.seed)
    work_s: Mapping[JobId, float]
    match regime:
        case Regime.PREDICTED if run.policy.regime is Regime.ORACLE:
            work_s = predict()
        case Regime.LIMIT if run.policy.regime is Regime.ORACLE:
            work_s = limits()
        case _:
            work_s = _by_job(run.trace, run.trace.duration_s.tolist())
    return PolicyInformation(
        work_s=work_s,
        seed=run.seed,
        profile_of=built.profile_of,
        tiers=TierEfficiency.of(run.cluster, run.world.compute_scale, run.world.congestion),
        predict=predict,
        limits=limits,
        limits_are_drawn=bool(np.isnan(run.trace.time_limit_s).any()),
        predictions=run.world.predictions,
        zero_epoch_s=run.trace.epoch_of_zero_s,
        progress=progress,
        restart_s=built.restart_s,
        cluster_gpu_count=run.cluster.gpu_count,
        sharing=built.sharing,
        partitions=(PARTITION,),
    )


def _predict(trace: Trace, progress: ProgressTable) -> Predictions:
    columns = trace.user_id.tolist(), trace.gpu_count.tolist()
    kinds = {
        job_id: JobKind(
            user_id, trace.model_name(position) or trace.job_name.of(position), gpu_count
        )
        for position, (job_id, user_id, gpu_count) in enumerate(
            zip(job_ids(trace), *columns, strict=True)
        )
    }
    return Predictions(kinds, progress)


def _limits(trace: Trace, seed: int) -> Mapping[JobId, float]:
    return _by_job(trace, limits_s(trace, seed).tolist())


def _by_job(trace: Trace, values: list[float]) -> Mapping[JobId, float]:
    return dict(zip(job_ids(trace), values, strict=True))


def _both(first: HoldObserver, second: HoldObserver | None) -> HoldObserver:
    if second is None:
        return first

    def observe(shares: tuple[NodeShare, ...], begin_s: float, end_s: float) -> None:
        first(shares, begin_s, end_s)
        second(shares, begin_s, end_s)

    return observe


def introduce(cluster: ClusterSpec, has_seats: bool = False) -> Iterator[NodeSeen | TopologySeen]:
    """Yield the events that describe a cluster: each node as Slurm and its probe report it.

    Args:
        cluster: its nodes.
        has_seats: whether Slurm has a second seat for each GPU.
    """
    memory_bytes = GPU_BYTES if has_seats else 0
    for spec, node in zip(cluster.node_specs(PARTITION), cluster.nodes, strict=True):
        yield NodeSeen(at_s=0.0, node=replace(spec, has_seats=True) if has_seats else spec)
        links = node.kind.links
        uuids = tuple(GpuUuid(f"GPU-{node.name}-{gpu}") for gpu in range(links.gpu_count))
        yield TopologySeen(
            at_s=0.0,
            name=node.name,
            links=links,
            gpu_uuids=uuids,
            gpu_memory_bytes=memory_bytes,
        )
