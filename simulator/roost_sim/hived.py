"""HiveD's choice: buddy cells, the fullest nodes first.

Source: Zhao et al., HiveD, OSDI 2020, and its released scheduler, for one virtual cluster. A job is
made of pods, each on one node; a node's GPUs are cells of 1, 2, 4, ... that split like buddies.
"""

import numpy as np
from numpy.typing import NDArray

from roost_sim.free_gpus import FreeGpus, lowest_of


class BuddyCells:
    """Pods of whole nodes, the rest in the smallest cell of a node. See scatter.ScatterRule.

    A pod is never split: the job waits. The nodes come from the rack with the fewest free GPUs
    that holds all pods, if one does.
    """

    def take(self, free: FreeGpus, at_s: float) -> NDArray[np.int64] | None:
        """See ScatterRule."""
        size = int(free.cluster.gpu_count[: len(free.cluster)].max())
        whole, rest = divmod(free.wanted, size)
        pods = [size] * whole + [rest] * (rest > 0)
        if len(pods) > 1:
            in_rack = free.rack_counts()
            for rack in np.argsort(in_rack, kind="stable"):
                if in_rack[rack] >= free.wanted:
                    taken = _seat(free, pods, free.racks == rack)
                    if taken is not None:
                        return taken
        return _seat(free, pods, np.ones(len(free.rows), dtype=np.bool_))


def _seat(free: FreeGpus, pods: list[int], among: NDArray[np.bool_]) -> NDArray[np.int64] | None:
    """Give each pod the node with the fewest free GPUs that holds it, ties to the first."""
    taken = np.zeros_like(free.masks)
    left = np.where(among, free.counts, 0)
    for pod in pods:
        holds = np.flatnonzero(left >= pod)
        if not len(holds):
            return None
        node = int(holds[np.argmin(left[holds])])
        taken[node] = _cell(int(free.masks[node]), pod)
        left[node] = 0
    return taken


def _cell(free_mask: int, gpu_count: int) -> int:
    """GPUs of the smallest cell that has enough free ones, of those the one with the fewest."""
    size = 1
    while True:
        cells = [((1 << size) - 1) << start & free_mask for start in range(0, 16, size)]
        fitting = [cell for cell in cells if cell.bit_count() >= gpu_count]
        if fitting:
            best = np.array([min(fitting, key=lambda cell: (cell.bit_count(), cell))])
            return int(lowest_of(best, np.array([gpu_count]))[0])
        size *= 2
