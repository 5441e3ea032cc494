"""Predicts what its neighbours cost a job that runs, as the score of neighbours would.

For readers outside the engine: nothing that decisions depend on is changed.
"""

from collections.abc import Callable

import numpy as np

from roost_engine.cluster.cluster import Cluster
from roost_engine.cluster.tiers import tier_of
from roost_engine.domain.model import JobId, JobSpec
from roost_engine.domain.tier import Tier
from roost_engine.policies.neighbour_losses import NeighbourLoss
from roost_engine.scoring.graph_jobs import Communicates
from roost_engine.scoring.interference import Array, Interference
from roost_engine.scoring.neighbour_levels import LEVELS, others_count
from roost_engine.scoring.neighbourhood import Neighbourhood

_SURE_SPREAD = 0.05  # of a job alone: how well its own speed is known


class NeighbourPredictor:
    """See the module.

    Args:
        interference: predicts slowdowns.
        communicates: returns the communication of a job, as the score's neighbourhood has it.
    """

    def __init__(self, interference: Interference, communicates: Communicates) -> None:
        self._interference = interference
        self._neighbourhood = Neighbourhood(interference.vector, interference.width)
        self._neighbourhood.communicates = communicates

    def predict(
        self, cluster: Cluster, job_id: JobId, spec_of: Callable[[JobId], JobSpec | None]
    ) -> NeighbourLoss | None:
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
        self._neighbourhood.read(cluster, near, spec_of)
        return self._predicted(cluster, job_id, sorted(nodes), tier)

    def _predicted(
        self, cluster: Cluster, job_id: JobId, nodes: list[int], tier: Tier
    ) -> NeighbourLoss:
        rows, width = list[Array](), self._interference.width
        beside = np.zeros((len(nodes), len(LEVELS), width), dtype=np.float32)
        closest: dict[JobId, int] = {}
        for position, node in enumerate(nodes):
            residents = self._neighbourhood.residents(cluster, node)
            own = residents.jobs.index(job_id)
            mask = int(residents.masks[own])
            levels = self._neighbourhood.level(cluster, node, residents, mask)
            weights = residents.counts / others_count(cluster, node, mask)
            rows.append(residents.vectors[own])
            for at, other in enumerate(residents.jobs):
                if other == job_id:
                    continue
                level = int(levels[at])
                beside[position, level] += residents.vectors[at] * weights[at]
                closest[other] = min(closest.get(other, level), level)
        if not closest:
            return NeighbourLoss(0.0, _SURE_SPREAD, (), tier)
        tiers = np.full(len(nodes), int(tier))
        mean, spread = self._interference.slowdowns(np.stack(rows), beside, tiers)
        worst = int(np.argmax(mean))
        named = tuple((other, LEVELS[level]) for other, level in sorted(closest.items()))
        return NeighbourLoss(float(mean[worst]), float(spread[worst]), named, tier)
