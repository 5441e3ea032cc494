"""One run, whole: a trace, a cluster and a policy in, figures out."""

import time
from collections.abc import Iterator
from dataclasses import dataclass, field

from roost_sim.cluster_spec import ClusterSpec
from roost_sim.driver import Driver, HoldSeen, Outcome
from roost_sim.metrics import Metrics, Span, measure
from roost_sim.policies import Composition, Knowledge
from roost_sim.trace import Trace
from roost_sim.workload import arrivals, job_ids
from roost_sim.world import World
from roostd.core.engine import Engine, EngineConfig
from roostd.core.events import NodeSeen, TopologySeen
from roostd.core.model import GpuUuid

PARTITION = "main"


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """What is to be simulated.

    Attributes:
        start_delay_s: between a decision and the start.
        span: which jobs the job times are about.
        hold_seen: told of every stretch for which a job holds GPUs.
    """

    trace: Trace
    cluster: ClusterSpec
    policy: Composition
    world: World
    seed: int = 0
    start_delay_s: float = 0.0
    span: Span = field(default_factory=Span)
    engine_config: EngineConfig = field(default_factory=EngineConfig)
    hold_seen: HoldSeen | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What a run came to; `wall_s` is for the simulation alone, reading files excluded."""

    outcome: Outcome
    metrics: Metrics
    wall_s: float


def simulate(run: Run) -> Report:
    """Run a fresh engine over a trace."""
    began_s = time.perf_counter()
    trace, cluster = run.trace, run.cluster
    work_s = dict(zip(job_ids(trace), trace.duration_s.tolist(), strict=True))
    policies = run.policy.build(Knowledge(work_s=work_s, seed=run.seed))
    engine = Engine(run.policy.engine_config(run.engine_config), policies)
    jobs = arrivals(trace, run.policy.shapes, cluster.largest_node_gpu_count, PARTITION)
    driver = Driver(engine, run.world, start_delay_s=run.start_delay_s, hold_seen=run.hold_seen)
    outcome = driver.run(introduce(cluster), jobs)
    metrics = measure(outcome, cluster.gpu_count, run.span)
    return Report(outcome=outcome, metrics=metrics, wall_s=time.perf_counter() - began_s)


def introduce(cluster: ClusterSpec) -> Iterator[NodeSeen | TopologySeen]:
    """Tell an engine of a cluster: each node as Slurm and its probe would."""
    for spec, node in zip(cluster.node_specs(PARTITION), cluster.nodes, strict=True):
        yield NodeSeen(at_s=0.0, node=spec)
        links = node.kind.links
        uuids = tuple(GpuUuid(f"GPU-{node.name}-{gpu}") for gpu in range(links.gpu_count))
        yield TopologySeen(at_s=0.0, name=node.name, links=links, gpu_uuids=uuids)
