"""LWF-k: least workload first, jobs of more than k GPUs together.

Source: Wang et al., "Communication Contention Aware Scheduling of Multiple Deep Learning Training
Jobs", arXiv 2002.10105. There jobs share GPUs, and a GPU's workload is what its jobs have left.
Here a free GPU has none, so that the workload of its node decides, what it takes itself included.
"""

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from roost_sim.free_gpus import FreeGpus, lowest_of
from roost_sim.scatter_rules import fill
from roostd.core.model import JobId


class LeastWorkload:
    """GPUs of the nodes whose jobs have the least left to do. See scatter.ScatterRule.

    Remembers when it was last asked for each running job: that is when the job started. What a job
    had done before it was stopped is not known here.

    Args:
        work_s: ideal run time of each job; what is missing counts as none.
        apart_gpus: k. A job of at most so many GPUs takes each where there is the least to do;
            a larger one fills one node after another.
    """

    def __init__(self, work_s: Mapping[JobId, float], apart_gpus: int) -> None:
        self._work_s, self._apart_gpus = work_s, apart_gpus
        self._asked_s: dict[JobId, float] = {}

    def take(self, free: FreeGpus, at_s: float) -> NDArray[np.int64]:
        """See ScatterRule."""
        workloads = self._workloads(free, at_s)[free.rows]
        self._asked_s[free.job.job_id] = at_s
        counts = np.zeros_like(free.counts)
        if free.job.gpu_count > self._apart_gpus:
            order = np.argsort(workloads, kind="stable")
            counts[order] = fill(free.counts[order], free.wanted)
            return lowest_of(free.masks, counts)
        for _ in range(free.wanted):
            node = int(np.argmin(workloads))
            counts[node] += 1
            workloads[node] += self._work_s.get(free.job.job_id, 0.0)
            if counts[node] == free.counts[node]:
                workloads[node] = np.inf
        return lowest_of(free.masks, counts)

    def _workloads(self, free: FreeGpus, at_s: float) -> NDArray[np.float64]:
        """GPU-seconds that the jobs of each node have left: float64 [row]."""
        cluster = free.cluster
        workloads, asked_s = np.zeros(len(cluster)), dict[JobId, float]()
        for job_id in cluster.held_jobs():
            begun_s = asked_s[job_id] = self._asked_s.get(job_id, at_s)
            left_s = self._work_s.get(job_id, 0.0) - (at_s - begun_s)
            if left_s > 0:
                for share in cluster.shares(job_id):
                    workloads[cluster.row[share.node]] += left_s * len(share.gpu_indices)
        self._asked_s = asked_s
        return workloads
