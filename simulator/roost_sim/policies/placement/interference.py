"""Least predicted interference by a linear model: what jobs on the same nodes cost each other.

Each resident is slowed in proportion to its own duty, the newcomer's and the newcomer's part of the
node's GPUs; the newcomer in proportion to its own and to the duty of all other GPUs there. The duty
is how much of the time a job communicates.
Source: the baseline "LIF-Linear" of Harmony (Bao et al., INFOCOM 2019); the features are ours.
"""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from roost_engine.cluster.cluster import Cluster
from roost_engine.domain.model import JobId, JobSpec, Shape
from roost_sim.policies.placement.free_gpus import FreeGpus, lowest_of
from roost_sim.policies.placement.residents import Residents, Shares

Duty = Callable[[JobId, int, int], float]  # of a job, on so many GPUs of so many nodes: 0 to 1

_DUTY_UNITS = 1 << 20  # duties are summed as ints: what is added and taken off again leaves 0


class LeastInterference:
    """The node where a job adds the least. See whole_pieces.NodeCost and scatter.ScatterRule.

    Args:
        duty: of a job.
    """

    def __init__(self, duty: Duty) -> None:
        self._duty, self._residents = duty, Residents()
        self._duty_of: dict[JobId, int] = {}
        self._of_jobs = self._of_gpus = np.zeros(0, dtype=np.int64)

    def costs(
        self, cluster: Cluster, job: JobSpec, shape: Shape, rows: NDArray[np.int64], at_s: float
    ) -> NDArray[np.float64]:
        """See NodeCost. Whoever does not communicate disturbs nobody, and goes where it fits."""
        self._look(cluster)
        duty = self._units(job.job_id, shape.gpu_count, shape.node_count)
        here = shape.gpus_per_node * self._of_jobs[rows] + self._of_gpus[rows]
        cost: NDArray[np.float64] = duty * here / cluster.gpu_count[rows]
        return cost

    def take(self, free: FreeGpus, at_s: float) -> NDArray[np.int64]:
        """See ScatterRule. GPU by GPU, ties to the first; its own duty is left out."""
        self._look(free.cluster)
        whole = free.cluster.gpu_count[free.rows]
        added = self._of_jobs[free.rows] / whole  # by each GPU of the newcomer
        cost = added + self._of_gpus[free.rows] / whole  # and by being there at all
        taken = np.zeros_like(free.counts)
        for _ in range(free.wanted):
            node = int(np.argmin(cost))
            taken[node] += 1
            cost[node] = np.inf if taken[node] == free.counts[node] else added[node]
        return lowest_of(free.masks, taken)

    def _look(self, cluster: Cluster) -> None:
        """Sum up, by row, the duties of the jobs on a node and of the GPUs that they hold."""
        missing = (0, len(cluster) - len(self._of_jobs))
        self._of_jobs, self._of_gpus = (
            np.pad(sums, missing) for sums in (self._of_jobs, self._of_gpus)
        )
        left, come = self._residents.changes(cluster)
        for job_id, shares in left:
            self._add(cluster, shares, -self._duty_of.pop(job_id))
        for job_id in come:
            shares = cluster.shares(job_id)
            gpu_count = sum(len(share.gpu_indices) for share in shares)
            duty = self._units(job_id, gpu_count, len(shares)) if gpu_count else 0
            self._duty_of[job_id] = duty
            self._add(cluster, shares, duty)

    def _units(self, job_id: JobId, gpu_count: int, node_count: int) -> int:
        return round(self._duty(job_id, gpu_count, node_count) * _DUTY_UNITS)

    def _add(self, cluster: Cluster, shares: Shares, duty: int) -> None:
        for share in shares:
            row = cluster.row[share.node]
            self._of_jobs[row] += duty
            self._of_gpus[row] += duty * len(share.gpu_indices)
