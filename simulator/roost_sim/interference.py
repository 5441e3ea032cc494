"""Least predicted interference by a linear model: what jobs on the same nodes cost each other.

Each resident is slowed in proportion to its own duty, the newcomer's and the newcomer's part of the
node's GPUs; the newcomer in proportion to the duty of all other GPUs there. The duty is how much of
the time a job communicates. The newcomer's own is a factor of every sum, so it is left out.
Source: the baseline "LIF-Linear" of Harmony (Bao et al., INFOCOM 2019); the features are ours.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from roost_sim.free_gpus import FreeGpus, lowest_of
from roostd.core.model import JobId

Duty = Callable[[JobId, int, int], float]  # of a job, on so many GPUs of so many nodes: 0 to 1


@dataclass(frozen=True, slots=True)
class LeastInterference:
    """GPU by GPU, the node where it adds the least; ties to the first. See scatter.ScatterRule.

    Attributes:
        duty: of a running job.
    """

    duty: Duty

    def take(self, free: FreeGpus, at_s: float) -> NDArray[np.int64]:
        """See ScatterRule."""
        of_jobs, of_gpus = self._duties(free)
        whole = free.cluster.gpu_count[free.rows]
        added = of_jobs[free.rows] / whole  # by each GPU of the newcomer
        cost = added + of_gpus[free.rows] / whole  # and by being there at all
        taken = np.zeros_like(free.counts)
        for _ in range(free.wanted):
            node = int(np.argmin(cost))
            taken[node] += 1
            cost[node] = np.inf if taken[node] == free.counts[node] else added[node]
        return lowest_of(free.masks, taken)

    def _duties(self, free: FreeGpus) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Sums of the duties of the jobs on each node, and of the GPUs that they hold: [row]."""
        cluster = free.cluster
        of_jobs, of_gpus = np.zeros(len(cluster)), np.zeros(len(cluster))
        for job_id in cluster.held_jobs():
            shares = cluster.shares(job_id)
            gpu_count = sum(len(share.gpu_indices) for share in shares)
            duty = self.duty(job_id, gpu_count, len(shares)) if gpu_count else 0.0
            if duty:
                for share in shares:
                    row = cluster.row[share.node]
                    of_jobs[row] += duty
                    of_gpus[row] += duty * len(share.gpu_indices)
        return of_jobs, of_gpus
