"""Decisions as examples: the tree, the candidates, and what each would cost by the world.

A simulation runs; at every decision the world is asked what each candidate would do: the job starts
there, the rates of all jobs are read, and the job is taken away again. The cost of a candidate, in
run times of the job, is

    1 / r - 1  +  sum over other jobs of  w * (1 / r_after - 1 / r_before)

with r the job's rate and w the part of its run for which the other one would still run, at most 1.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial

import numpy as np
from numpy.typing import NDArray

from roost_engine.cluster.cluster import Cluster
from roost_engine.cluster.link_table import MAX_GPUS
from roost_engine.domain.errors import PolicyError
from roost_engine.domain.model import JobId
from roost_engine.engine import Engine, EngineConfig
from roost_engine.job_record import shares_of
from roost_engine.placement.wide_search import WideSearch
from roost_engine.plugins.plugins import Policies
from roost_engine.plugins.policy_kinds import communication
from roost_engine.policies.protocols import ScoreQuestion
from roost_engine.prediction.speed.speed_predictor import SpeedPredictor
from roost_engine.scoring.graph_candidates import Parts, candidate_rows
from roost_engine.scoring.graph_features import ClusterGraph
from roost_engine.scoring.heuristic import HeuristicScore
from roost_sim.clusters.cluster_spec import ClusterSpec
from roost_sim.information.profile_speeds import ProfileSpeeds, named_models
from roost_sim.information.progress import ProgressTable
from roost_sim.runs.driver import Driver
from roost_sim.runs.simulation import PARTITION, introduce
from roost_sim.traces.shapes import every_even_shape
from roost_sim.traces.trace import Trace
from roost_sim.traces.workload import arrivals
from roost_sim.worlds.speed.tier_efficiency import TierEfficiency
from roost_sim.worlds.world import Change, Ended, Started, World
from roost_sim.worlds.world_spec import WorldSpec

Array = NDArray[np.float32]
Indices = NDArray[np.int64]

MOST_CANDIDATES = 48  # of an example; of more, some are drawn
MOST_COST = 4.0  # costs are cut to this: which of two terrible places is worse hardly matters


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Sample:
    """One decision.

    Attributes:
        gpus, nodes, racks, pods: float32 [item, column], columns of scoring.graph_columns.
        node_of_gpu, rack_of_node, pod_of_rack: int64 [item].
        candidates: float32 [candidate, column].
        taken: int64 [2, taken GPU]: candidate, row in `gpus`.
        parts: int64 [2, part]: candidate, node.
        cost: float32 [candidate], see the module.
    """

    gpus: Array
    nodes: Array
    racks: Array
    pods: Array
    node_of_gpu: Indices
    rack_of_node: Indices
    pod_of_rack: Indices
    candidates: Array
    taken: Indices
    parts: Indices
    cost: Array


@dataclass(slots=True)
class RememberedRates:
    """A world that remembers the rate of every job. See roost_sim.worlds.world.World."""

    world: World
    rates: dict[JobId, float] = field(default_factory=dict)

    def rates_after(self, change: Change) -> Iterable[tuple[JobId, float]]:
        """See World."""
        found = list(self.world.rates_after(change))
        self.rates.update(found)
        if isinstance(change, Ended):
            self.rates.pop(change.job_id, None)
        return found

    def costs_of(
        self, question: ScoreQuestion, positions: Iterable[int], progress: ProgressTable
    ) -> Array:
        """Return the cost of some candidates, given by position; see the module."""
        job = question.job
        assert job is not None
        job_id, own_s = job.job_id, max(progress.jobs[job.job_id].remaining_s, 1.0)
        costs = []
        for position in positions:
            shares = shares_of(question.candidates.placement(position))
            after = dict(self.world.rates_after(Started(job_id, shares)))
            cost = 1 / max(after.pop(job_id), 1e-3) - 1
            for other, rate in after.items():
                weight = min(progress.jobs[other].remaining_s / own_s, 1.0)
                cost += weight * (1 / max(rate, 1e-3) - 1 / max(self.rates[other], 1e-3))
            list(self.world.rates_after(Ended(job_id)))
            costs.append(cost)
        return np.minimum(np.array(costs, dtype=np.float32), np.float32(MOST_COST))


class Recorder:
    """A policies.ClusterScore that records decisions while a simulation runs.

    Of the decisions a third follow the costs, a third the heuristic, and a third are drawn, so that
    the examples show clusters in good and in bad order.

    Args:
        rng: of these draws.
        graph: the features.
        world: it is asked for the costs.
        progress: what remains of the jobs.
        keep_frac: fraction of the decisions that are recorded.
    """

    name = "recorder"

    def __init__(
        self,
        rng: np.random.Generator,
        graph: ClusterGraph,
        world: RememberedRates,
        progress: ProgressTable,
        keep_frac: float,
    ) -> None:
        self.samples: list[Sample] = []
        self._rng, self._graph, self._world = rng, graph, world
        self._progress, self._keep_frac = progress, keep_frac

    def score(self, features: Array) -> Array:
        """See policies.ScorePolicy.

        Raises:
            PolicyError: always; the engine asks `score_within`.
        """
        raise PolicyError("the recorder records decisions within a cluster only")

    def score_within(self, question: ScoreQuestion) -> Array:
        """See policies.ClusterScore."""
        heuristic, rng = HeuristicScore().score(question.features), self._rng
        count = len(heuristic)
        if count < 2 or rng.random() > self._keep_frac:
            return heuristic
        self._graph.refresh(question.cluster, question.spec_of)
        chosen = np.sort(rng.permutation(count)[:MOST_CANDIDATES])
        cost = self._world.costs_of(question, chosen.tolist(), self._progress)
        self.samples.append(sample_of(question, self._graph, chosen, cost))
        match int(rng.integers(3)):
            case 0:
                scores = np.full(count, -np.inf, dtype=np.float32)
                scores[chosen] = -cost + 1e-3 * heuristic[chosen]
                return np.nan_to_num(scores, neginf=-1e6)
            case 1:
                return heuristic
            case _:
                return rng.random(count).astype(np.float32)


def sample_of(question: ScoreQuestion, graph: ClusterGraph, chosen: Indices, cost: Array) -> Sample:
    """Describe a decision.

    Args:
        question: the decision.
        graph: of its cluster, refreshed.
        chosen: int64 [candidate], positions in the listing.
        cost: float32 [candidate].
    """
    cluster, parts, job = question.cluster, Parts.of(question), question.job
    assert job is not None
    communicates = graph.residents.communicates(job, question.candidates.shape.gpu_count)
    rows = candidate_rows(question, parts, graph, communicates)
    number = np.full(len(rows), -1)
    number[chosen] = np.arange(len(chosen))
    kept = np.flatnonzero(number[parts.candidate] >= 0)
    gpus, node_of_gpu, first_row = _gpus_of(graph, cluster)
    bits = parts.mask[kept][:, None] >> np.arange(MAX_GPUS) & 1
    part, gpu = np.nonzero(bits)
    owner = number[parts.candidate[kept]]
    count = len(cluster)
    rack_count = len(cluster.rack_nodes)
    return Sample(
        gpus=gpus,
        nodes=graph.node_rows(np.arange(count)),
        racks=graph.racks[:rack_count],
        pods=graph.pods,
        node_of_gpu=node_of_gpu,
        rack_of_node=cluster.racks.ids[:count].copy(),
        pod_of_rack=graph.pod_ids.copy(),
        candidates=rows[chosen],
        taken=np.stack((owner[part], first_row[parts.node[kept][part]] + gpu)),
        parts=np.stack((owner, parts.node[kept])),
        cost=cost,
    )


def _gpus_of(graph: ClusterGraph, cluster: Cluster) -> tuple[Array, Indices, Indices]:
    """Return the rows of all GPUs by kind of node, the node of each, and each node's first row."""
    kinds = cluster.kind[: len(cluster)]
    rows, owners, first, begin = [], [], np.zeros(len(cluster), dtype=np.int64), 0
    for kind in np.flatnonzero(np.bincount(kinds)).tolist():
        nodes, size = np.flatnonzero(kinds == kind), graph.kinds[kind].gpu_count
        rows.append(graph.gpu_rows(cluster, nodes, kind))
        owners.append(np.repeat(nodes, size))
        first[nodes] = begin + np.arange(len(nodes)) * size
        begin += len(nodes) * size
    return np.concatenate(rows), np.concatenate(owners), first


def record(
    cluster: ClusterSpec,
    trace: Trace,
    seed: int,
    keep_frac: float = 1.0,
    world_spec: WorldSpec | None = None,
) -> list[Sample]:
    """Simulate a trace and return the decisions with a choice.

    Args:
        cluster: where the jobs run.
        trace: the jobs, in order of submission.
        seed: of profiles and draws.
        keep_frac: see Recorder.
        world_spec: how fast jobs run.
    """
    spec = world_spec or WorldSpec()
    built = spec.build(cluster, trace, seed)
    world, progress = RememberedRates(built.world), ProgressTable()
    tiers = TierEfficiency.of(cluster, spec.compute_scale, spec.congestion)
    table = ProfileSpeeds.of(tiers, built.profile_of.values())
    communicates = partial(communication, SpeedPredictor(table), table)
    recorder = Recorder(
        np.random.default_rng(seed), ClusterGraph(communicates), world, progress, keep_frac
    )
    engine = Engine(EngineConfig(), Policies(score=recorder, candidates=WideSearch(any_gpus=True)))
    driver = Driver(engine, world, restart_s=built.restart_s, progress=progress)
    models: Mapping[JobId, str] = named_models(built.profile_of, 1.0, seed)
    jobs = arrivals(trace, every_even_shape, cluster.largest_node_gpu_count, PARTITION, models)
    driver.run(introduce(cluster), jobs)
    if engine.fallback_count:
        raise PolicyError(f"{engine.fallback_count} decisions could not be recorded")
    return recorder.samples
