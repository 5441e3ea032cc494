"""Predicts what its neighbours cost a job that runs, as the score of neighbours would.

For readers outside the engine: nothing that decisions depend on is changed.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from roost_engine.cluster.cluster import Cluster
from roost_engine.cluster.tiers import tier_of
from roost_engine.domain.model import JobId, JobSpec
from roost_engine.domain.tier import Tier
from roost_engine.scoring.neighbour_levels import LEVELS, others_count
from roost_engine.scoring.neighbourhood import Neighbourhood
from roost_engine.scoring.neighbours import Array, Interference, NeighbourScore

_SURE_SPREAD = 0.05  # of a job alone: how well its own speed is known


class Prediction(NamedTuple):
    """What neighbours are predicted to cost a job.

    Attributes:
        mean, spread: of its log slowdown, on its slowest node.
        beside: its neighbours, each with the closest level that they share, by their ids.
        tier: of the job's GPUs.
    """

    mean: float
    spread: float
    beside: tuple[tuple[JobId, str], ...]
    tier: Tier


class NeighbourPredictor:
    """See the module.

    Args:
        interference: predicts slowdowns.
    """

    def __init__(self, interference: Interference) -> None:
        self._interference = interference
        self._around = Neighbourhood(interference.vector, interference.width)

    @classmethod
    def like(
        cls, score: NeighbourScore, interference: Interference | None = None
    ) -> "NeighbourPredictor":
        """Return one that expects the same of jobs as a score.

        Args:
            score: of neighbours.
            interference: predicts slowdowns; None: what the score asks.
        """
        made = cls(interference or score.interference)
        made._around.communicates = score.around.communicates
        return made

    def predict(
        self, cluster: Cluster, job_id: JobId, spec_of: Callable[[JobId], JobSpec | None]
    ) -> Prediction | None:
        """Predict for a job on the GPUs that it holds; None where it holds none.

        Raises:
            PolicyError: the model could not answer.
        """
        shares, index_of = cluster.shares(job_id), cluster.index_of
        tier = tier_of(cluster, shares)
        nodes = {index_of[one.node] for one in shares if one.node in index_of and one.gpu_indices}
        if tier is None or not nodes:
            return None
        near = [
            other
            for other in cluster.held_jobs()
            if any(index_of.get(one.node) in nodes for one in cluster.shares(other))
        ]
        self._around.read(cluster, near, spec_of)
        return self._predicted(cluster, job_id, sorted(nodes), tier)

    def _predicted(
        self, cluster: Cluster, job_id: JobId, nodes: list[int], tier: Tier
    ) -> Prediction:
        rows, width = list[Array](), self._interference.width
        beside = np.zeros((len(nodes), len(LEVELS), width), dtype=np.float32)
        closest: dict[JobId, int] = {}
        for position, node in enumerate(nodes):
            residents = self._around.residents(cluster, node)
            own = residents.jobs.index(job_id)
            mask = int(residents.masks[own])
            levels = self._around.level(cluster, node, residents, mask)
            weights = residents.counts / others_count(cluster, node, mask)
            rows.append(residents.vectors[own])
            for at, other in enumerate(residents.jobs):
                if other == job_id:
                    continue
                level = int(levels[at])
                beside[position, level] += residents.vectors[at] * weights[at]
                closest[other] = min(closest.get(other, level), level)
        if not closest:
            return Prediction(0.0, _SURE_SPREAD, (), tier)
        tiers = np.full(len(nodes), int(tier))
        mean, spread = self._interference.slowdowns(np.stack(rows), beside, tiers)
        worst = int(np.argmax(mean))
        named = tuple((other, LEVELS[level]) for other, level in sorted(closest.items()))
        return Prediction(float(mean[worst]), float(spread[worst]), named, tier)
