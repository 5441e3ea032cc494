"""One run, whole: a trace, a cluster and a policy in, figures out."""

import gc
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial

from roost_engine.domain.events import NodeSeen, TopologySeen
from roost_engine.domain.model import GpuUuid, JobId, NodeShare
from roost_engine.engine import Engine, EngineConfig
from roost_sim.catalogue.compositions import Composition
from roost_sim.clusters.cluster_spec import ClusterSpec
from roost_sim.figures.metrics import Metrics, Span, measure
from roost_sim.figures.occupancy import Holds
from roost_sim.figures.outcome import Outcome
from roost_sim.information.knowledge import Knowledge
from roost_sim.information.predictions import JobKind, Predictions
from roost_sim.information.progress import ProgressBook
from roost_sim.information.told_speeds import named_models
from roost_sim.runs.driver import Driver, HoldSeen
from roost_sim.traces.durations import limits_s
from roost_sim.traces.trace import Trace
from roost_sim.traces.workload import arrivals, job_ids
from roost_sim.worlds.fidelity import Regime
from roost_sim.worlds.tier_efficiency import TierEfficiency
from roost_sim.worlds.world_spec import BuiltWorld, WorldSpec

PARTITION = "main"

_COLLECT_EVERY = 100_000  # objects; Python's own 700 looks at each job's records a dozen times


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """What is to be simulated: plain data but for `hold_seen`, so that any process can do it.

    Attributes:
        world: how fast jobs run, and what hinders them.
        seed: of the jobs' profiles and of whatever the policy draws.
        start_delay_s: between a decision and the start.
        span: which jobs the job times are about.
        hold_seen: told of every stretch for which a job holds GPUs.
    """

    trace: Trace
    cluster: ClusterSpec
    policy: Composition
    world: WorldSpec = field(default_factory=WorldSpec)
    seed: int = 0
    start_delay_s: float = 0.0
    span: Span = field(default_factory=Span)
    engine_config: EngineConfig = field(default_factory=EngineConfig)
    hold_seen: HoldSeen | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What a run came to.

    Attributes:
        knowledge: what the policy was told of run times.
        wall_s: of the simulation alone, reading files excluded.
    """

    outcome: Outcome
    metrics: Metrics
    knowledge: Regime
    wall_s: float


@contextmanager
def _few_collections() -> Iterator[None]:
    """Look for unreachable cycles less often: a run makes hardly any, and keeps all its results."""
    before = gc.get_threshold()
    gc.set_threshold(_COLLECT_EVERY, *before[1:])
    try:
        yield
    finally:
        gc.set_threshold(*before)


@_few_collections()
def simulate(run: Run) -> Report:
    """Run a fresh engine over a trace.

    Raises:
        ProfileError: the world excludes a model that does not exist, or all of them.
    """
    began_s = time.perf_counter()
    trace, cluster, holds = run.trace, run.cluster, Holds()
    built = run.world.build(cluster, trace, run.seed)
    told = _told(run)
    knowledge = _knowledge(run, built, told)
    driver = Driver(
        Engine(_engine_config(run), run.policy.build(knowledge)),
        built.world,
        start_delay_s=run.start_delay_s,
        restart_s=built.restart_s,
        tells_speed=run.policy.asks_speed,
        book=knowledge.book,
        hold_seen=_both(holds, run.hold_seen),
    )
    models = named_models(built.profile_of, run.world.named_frac, run.seed)
    jobs = arrivals(
        trace,
        run.policy.shapes,
        cluster.largest_node_gpu_count,
        PARTITION,
        models,
        run.policy.shapes_by_job(knowledge),
        knowledge.limits() if run.policy.asks_limits else None,
    )
    outcome = driver.run(introduce(cluster), jobs)
    metrics = measure(
        outcome,
        cluster.gpu_count,
        run.span,
        holds=holds,
        compute_frac=built.compute_frac,
        restart_s=built.restart_s,
    )
    wall_s = time.perf_counter() - began_s
    return Report(outcome=outcome, metrics=metrics, knowledge=told, wall_s=wall_s)


def _engine_config(run: Run) -> EngineConfig:
    """As the policy is defined. Nobody will ask about jobs that have ended: they are forgotten."""
    return replace(run.policy.engine_config(run.engine_config), ended_job_count=0)


def _told(run: Run) -> Regime:
    """What the policy is told of run times: an oracle only as much as the fidelity allows."""
    listed = run.policy.regime
    return run.world.fidelity.durations if listed is Regime.ORACLE else listed


def _knowledge(run: Run, built: BuiltWorld, told: Regime) -> Knowledge:
    book = ProgressBook()
    predict, limits = partial(_predict, run.trace, book), partial(_limits, run.trace, run.seed)
    work_s: Mapping[JobId, float]
    match told:
        case Regime.PREDICTED if run.policy.regime is Regime.ORACLE:
            work_s = predict()
        case Regime.LIMIT if run.policy.regime is Regime.ORACLE:
            work_s = limits()
        case _:
            work_s = _by_job(run.trace, run.trace.duration_s.tolist())
    return Knowledge(
        work_s=work_s,
        seed=run.seed,
        profile_of=built.profile_of,
        tiers=TierEfficiency.of(run.cluster, run.world.compute_scale, run.world.congestion),
        predict=predict,
        limits=limits,
        book=book,
        restart_s=built.restart_s,
        cluster_gpu_count=run.cluster.gpu_count,
    )


def _predict(trace: Trace, book: ProgressBook) -> Predictions:
    columns = trace.user_id.tolist(), trace.gpu_count.tolist()
    kinds = {
        job_id: JobKind(user_id, trace.model_name(position), gpu_count)
        for position, (job_id, user_id, gpu_count) in enumerate(
            zip(job_ids(trace), *columns, strict=True)
        )
    }
    return Predictions(kinds, book)


def _limits(trace: Trace, seed: int) -> Mapping[JobId, float]:
    return _by_job(trace, limits_s(trace, seed).tolist())


def _by_job(trace: Trace, values: list[float]) -> Mapping[JobId, float]:
    return dict(zip(job_ids(trace), values, strict=True))


def _both(first: HoldSeen, second: HoldSeen | None) -> HoldSeen:
    if second is None:
        return first

    def tell(shares: tuple[NodeShare, ...], begin_s: float, end_s: float) -> None:
        first(shares, begin_s, end_s)
        second(shares, begin_s, end_s)

    return tell


def introduce(cluster: ClusterSpec) -> Iterator[NodeSeen | TopologySeen]:
    """Tell an engine of a cluster: each node as Slurm and its probe would."""
    for spec, node in zip(cluster.node_specs(PARTITION), cluster.nodes, strict=True):
        yield NodeSeen(at_s=0.0, node=spec)
        links = node.kind.links
        uuids = tuple(GpuUuid(f"GPU-{node.name}-{gpu}") for gpu in range(links.gpu_count))
        yield TopologySeen(at_s=0.0, name=node.name, links=links, gpu_uuids=uuids)
