"""LWF-k: nodes with the least remaining work first, jobs of more than k GPUs consolidated.

Source: Wang et al., "Communication Contention Aware Scheduling of Multiple Deep Learning Training
Jobs", arXiv 2002.10105. In the paper jobs share GPUs, a GPU's workload is the remaining work of its
jobs, and a large job fills whole servers. Here a free GPU has no workload, so that of its node
decides; and a partly used server is taken only if it holds a whole part of the job.
"""

from collections.abc import Mapping, Sequence
from heapq import heappop, heappush

import numpy as np
from numpy.typing import NDArray

from roost_engine.cluster.cluster import Cluster
from roost_engine.cluster.node_sets import NodeSet
from roost_engine.domain.model import JobId, JobSpec, Shape
from roost_engine.placement.candidates import Candidates
from roost_engine.placement.eligibility import Hint
from roost_engine.policies.protocols import CandidatePolicy
from roost_sim.policies.placement.free_gpus import FreeGpus, lowest_of
from roost_sim.policies.placement.residents import Residents, Shares
from roost_sim.policies.placement.scatter import Scattered
from roost_sim.policies.placement.whole_pieces import WholePieces

_MS_PER_S = 1000  # workloads are summed as ints, so that adding and subtracting one leaves 0


class LeastWorkload:
    """The nodes whose jobs have the least remaining work. See policies.CandidatePolicy.

    A job's start is the time of the last call for it. The job is assumed to run at its ideal
    speed, and work that it did before a preemption is unknown here.

    Args:
        work_s: ideal run time of each job; a missing job counts 0.
        apart_gpus: k. A job of at most so many GPUs takes each GPU on the node with the least
            work; a larger job takes nodes that hold its parts whole.
    """

    def __init__(self, work_s: Mapping[JobId, float], apart_gpus: int) -> None:
        self._work_s, self._apart_gpus = work_s, apart_gpus
        self._residents = Residents()
        self._asked_s: dict[JobId, float] = {}
        self._ends_ms: dict[JobId, int] = {}  # of jobs with remaining work
        self._next_ends: list[tuple[int, JobId]] = []  # a heap; jobs that have left stay in it
        # By node, over the jobs with remaining work: sums of end times, and of GPUs.
        self._end_sums = self._gpu_sums = np.zeros(0, dtype=np.int64)
        self._together, self._apart = WholePieces(self), Scattered(self)

    def propose(self, cluster: Cluster, job: JobSpec, reserved: NodeSet, at_s: float) -> Candidates:
        """See CandidatePolicy."""
        return self._rule(job).propose(cluster, job, reserved, at_s)

    def hints(self, cluster: Cluster, job: JobSpec, nodes: NodeSet) -> Sequence[Hint]:
        """See CandidatePolicy."""
        return self._rule(job).hints(cluster, job, nodes)

    def _rule(self, job: JobSpec) -> CandidatePolicy:
        return self._apart if job.gpu_count <= self._apart_gpus else self._together

    def costs(
        self, cluster: Cluster, job: JobSpec, shape: Shape, nodes: NDArray[np.int64], at_s: float
    ) -> NDArray[np.float64]:
        """See whole_pieces.NodeCost."""
        return self._workloads(cluster, job, at_s)[nodes]

    def take(self, free: FreeGpus, at_s: float) -> NDArray[np.int64]:
        """See scatter.ScatterRule."""
        workloads = self._workloads(free.cluster, free.job, at_s)[free.nodes]
        job_id, counts = free.job.job_id, np.zeros_like(free.counts)
        for _ in range(free.wanted):
            node = int(np.argmin(workloads))
            counts[node] += 1
            workloads[node] += _ms(self._work_s.get(job_id, 0.0))
            if counts[node] == free.counts[node]:
                workloads[node] = np.inf
        return lowest_of(free.masks, counts)

    def _workloads(self, cluster: Cluster, job: JobSpec, at_s: float) -> NDArray[np.float64]:
        """Remaining GPU-milliseconds by node index, at the time at which `job` is placed."""
        now_ms = _ms(at_s)
        self._update(cluster, now_ms)
        self._asked_s[job.job_id] = at_s
        return (self._end_sums - now_ms * self._gpu_sums).astype(np.float64)

    def _update(self, cluster: Cluster, now_ms: int) -> None:
        """Apply the jobs that left, that arrived, and whose work should have ended by now."""
        missing = (0, len(cluster) - len(self._end_sums))
        self._end_sums, self._gpu_sums = (
            np.pad(sums, missing) for sums in (self._end_sums, self._gpu_sums)
        )
        left, arrived = self._residents.changes(cluster)
        for job_id, shares in left:
            self._take_off(cluster, job_id, shares)
        for job_id in arrived:
            begun_ms = _ms(self._asked_s.pop(job_id)) if job_id in self._asked_s else now_ms
            end_ms = begun_ms + _ms(self._work_s.get(job_id, 0.0))
            self._ends_ms[job_id] = end_ms
            self._add(cluster, cluster.shares(job_id), end_ms, 1)
            heappush(self._next_ends, (end_ms, job_id))
        while self._next_ends and self._next_ends[0][0] <= now_ms:
            end_ms, job_id = heappop(self._next_ends)
            if self._ends_ms.get(job_id) == end_ms:
                self._take_off(cluster, job_id, cluster.shares(job_id))

    def _take_off(self, cluster: Cluster, job_id: JobId, shares: Shares) -> None:
        end_ms = self._ends_ms.pop(job_id, None)
        if end_ms is not None:
            self._add(cluster, shares, end_ms, -1)

    def _add(self, cluster: Cluster, shares: Shares, end_ms: int, sign: int) -> None:
        for share in shares:
            node, gpu_count = cluster.index_of[share.node], len(share.gpu_indices)
            self._end_sums[node] += sign * end_ms * gpu_count
            self._gpu_sums[node] += sign * gpu_count


def _ms(time_s: float) -> int:
    return round(time_s * _MS_PER_S)
