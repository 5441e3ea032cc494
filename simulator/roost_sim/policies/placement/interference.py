"""Least interference: nodes by a linear model of how much jobs on one node slow each other.

A running job is slowed in proportion to its own duty, the new job's duty and the new job's fraction
of the node's GPUs; the new job in proportion to its own duty and the duty of all other GPUs of the
node. The duty is the fraction of time for which a job communicates.
Source: the baseline "LIF-Linear" of Harmony (Bao et al., INFOCOM 2019); the features are ours.
"""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from roost_engine.cluster.cluster import Cluster
from roost_engine.domain.model import JobId, JobSpec, Shape
from roost_sim.policies.placement.free_gpus import FreeGpus, lowest_of
from roost_sim.policies.placement.residents import Residents, Shares

Duty = Callable[[JobId, int, int], float]  # (job, GPUs, nodes) to a fraction

_DUTY_UNITS = 1 << 20  # duties are summed as ints, so that adding and subtracting one leaves 0


class LeastInterference:
    """The nodes where a job adds least interference. See whole_pieces.NodeCost and ScatterRule.

    Args:
        duty: the fraction of time for which a job communicates.
    """

    def __init__(self, duty: Duty) -> None:
        self._duty, self._residents = duty, Residents()
        self._duty_of: dict[JobId, int] = {}
        self._of_jobs = self._of_gpus = np.zeros(0, dtype=np.int64)

    def costs(
        self, cluster: Cluster, job: JobSpec, shape: Shape, nodes: NDArray[np.int64], at_s: float
    ) -> NDArray[np.float64]:
        """See NodeCost. A job that does not communicate costs 0 on every node."""
        self._update(cluster)
        duty = self._units(job.job_id, shape.gpu_count, shape.node_count)
        here = shape.gpus_per_node * self._of_jobs[nodes] + self._of_gpus[nodes]
        cost: NDArray[np.float64] = duty * here / cluster.gpu_count[nodes]
        return cost

    def take(self, free: FreeGpus, at_s: float) -> NDArray[np.int64]:
        """See ScatterRule. GPU by GPU, ties to the first node.

        The new job's own duty is a factor of all costs, so it is left out.
        """
        self._update(free.cluster)
        whole = free.cluster.gpu_count[free.nodes]
        added = self._of_jobs[free.nodes] / whole  # by each GPU of the new job
        cost = added + self._of_gpus[free.nodes] / whole  # and by its presence on the node
        taken = np.zeros_like(free.counts)
        for _ in range(free.wanted):
            node = int(np.argmin(cost))
            taken[node] += 1
            cost[node] = np.inf if taken[node] == free.counts[node] else added[node]
        return lowest_of(free.masks, taken)

    def _update(self, cluster: Cluster) -> None:
        """Sum the duties of the jobs on each node, and of the GPUs that they hold."""
        missing = (0, len(cluster) - len(self._of_jobs))
        self._of_jobs, self._of_gpus = (
            np.pad(sums, missing) for sums in (self._of_jobs, self._of_gpus)
        )
        left, arrived = self._residents.changes(cluster)
        for job_id, shares in left:
            self._add(cluster, shares, -self._duty_of.pop(job_id))
        for job_id in arrived:
            shares = cluster.shares(job_id)
            gpu_count = sum(len(share.gpu_indices) for share in shares)
            duty = self._units(job_id, gpu_count, len(shares)) if gpu_count else 0
            self._duty_of[job_id] = duty
            self._add(cluster, shares, duty)

    def _units(self, job_id: JobId, gpu_count: int, node_count: int) -> int:
        return round(self._duty(job_id, gpu_count, node_count) * _DUTY_UNITS)

    def _add(self, cluster: Cluster, shares: Shares, duty: int) -> None:
        for share in shares:
            node = cluster.index_of[share.node]
            self._of_jobs[node] += duty
            self._of_gpus[node] += duty * len(share.gpu_indices)
