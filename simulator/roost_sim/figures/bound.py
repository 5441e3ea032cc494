"""A lower bound of the average job completion time over all schedules.

Two relaxations, combined. Fluid: the whole cluster is one machine that works on one job at a time,
at the speed of all its GPUs; shortest remaining work first is then optimal. Solo: each job runs
alone from its submission. Any set of jobs can be bounded by the first, the others by the second.
Proof: docs/simulator/bound.md.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from heapq import heappop, heappush

import numpy as np
from numpy.typing import NDArray

# The set bounded by the fluid relaxation: jobs with at least this quantile of the work.
_QUANTILES = (0.0, 0.5, 0.75, 0.9, 0.95, 0.99)


@dataclass(frozen=True, slots=True)
class Demand:
    """Jobs, as columns.

    Attributes:
        submit_s: float64 [job].
        work_s: float64 [job], the run time at rate 1.
        gpu_count: integers [job].
    """

    submit_s: NDArray[np.float64]
    work_s: NDArray[np.float64]
    gpu_count: NDArray[np.integer]

    @classmethod
    def of(
        cls, submit_s: Sequence[float], work_s: Sequence[float], gpu_count: Sequence[int]
    ) -> "Demand":
        """Make a demand from columns in any order; they are sorted by submission."""
        submit = np.asarray(submit_s, dtype=np.float64)
        order = np.argsort(submit, kind="stable")
        return cls(
            submit[order],
            np.asarray(work_s, dtype=np.float64)[order],
            np.asarray(gpu_count, dtype=np.int64)[order],
        )

    def __len__(self) -> int:
        return len(self.submit_s)

    def where(self, keep: NDArray[np.bool_]) -> "Demand":
        """Return the jobs of a mask, bool [job]."""
        return Demand(self.submit_s[keep], self.work_s[keep], self.gpu_count[keep])


def average_jct_bound_s(demand: Demand, cluster_gpu_count: int) -> float | None:
    """Bound the average job completion time from below; None without jobs.

    Args:
        demand: the jobs that are averaged over.
        cluster_gpu_count: GPUs that can be used, above 0.
    """
    if not len(demand):
        return None
    alone_s = demand.work_s
    machine_s = demand.work_s * demand.gpu_count / cluster_gpu_count
    best_s = float(alone_s.sum())
    for limit_s in np.unique(np.quantile(machine_s, _QUANTILES)):
        fluid = machine_s >= limit_s
        total_s = fluid_flow_s(demand.submit_s[fluid], machine_s[fluid])
        best_s = max(best_s, total_s + float(alone_s[~fluid].sum()))
    return best_s / len(demand)


def fluid_flow_s(submit_s: NDArray[np.float64], machine_s: NDArray[np.float64]) -> float:
    """Return the total completion time of jobs on one machine under preemptive SRPT.

    Args:
        submit_s: float64 [job], ascending.
        machine_s: float64 [job], how long each job needs the machine.

    Source: Schrage, Operations Research 16 (1968): the rule is optimal.
    """
    waiting: list[tuple[float, float]] = []  # remaining time, submission
    now_s = total_s = 0.0
    for arrives_s, whole_s in zip(submit_s.tolist(), machine_s.tolist(), strict=True):
        while waiting and now_s < arrives_s:
            rest_s, since_s = waiting[0]
            if now_s + rest_s > arrives_s:
                waiting[0] = rest_s - (arrives_s - now_s), since_s  # less than before: still least
                break
            heappop(waiting)
            now_s += rest_s
            total_s += now_s - since_s
        if now_s < arrives_s:
            now_s = arrives_s
        heappush(waiting, (whole_s, arrives_s))
    while waiting:
        rest_s, since_s = heappop(waiting)
        now_s += rest_s
        total_s += now_s - since_s
    return total_s
