"""HiveD's placement: buddy cells, the fullest nodes first.

Source: Zhao et al., HiveD, OSDI 2020, and its released scheduler, for one virtual cluster. A job is
made of pods, each on one node; a node's GPUs are cells of 1, 2, 4, ... that split like buddies.
"""

from functools import partial

import numpy as np
from numpy.typing import NDArray

from roost_engine.cluster.link_table import MAX_GPUS
from roost_sim.policies.placement.free_gpus import FreeGpus, lowest_of

_CELL_SIZES = (1, 2, 4, 8, 16)  # up to MAX_GPUS


class BuddyCells:
    """Pods of whole nodes, the remainder in the smallest cell of a node. See scatter.ScatterRule.

    A pod is never split; the job waits instead. The nodes come from the rack with the fewest free
    GPUs that holds all pods, if there is one.
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
        return _seat(free, pods, np.ones(len(free.nodes), dtype=np.bool_))


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
    """The lowest GPUs of the smallest cell that has enough free ones.

    Of several cells of that size, the one with the fewest free GPUs; of those, the one whose
    parent cell, grandparent and so on have the fewest. So large free cells stay whole.

    Example: one GPU of 0b11110100 is GPU 2, whose parent cell of GPUs 2 and 3 has no other free
    one.
    """

    def free_within(start: int, size: int) -> int:
        return ((1 << size) - 1) << start & free_mask

    def free_counts(size: int, start: int) -> tuple[int, ...]:
        sizes = (each for each in _CELL_SIZES if each >= size)
        return tuple(free_within(start // each * each, each).bit_count() for each in sizes)

    for size in _CELL_SIZES:
        starts = range(0, MAX_GPUS, size)
        fitting = [at for at in starts if free_within(at, size).bit_count() >= gpu_count]
        if fitting:
            best = min(fitting, key=partial(free_counts, size))
            cell = np.array([free_within(best, size)])
            return int(lowest_of(cell, np.array([gpu_count]))[0])
    raise AssertionError(f"mask {free_mask:#x} has fewer than {gpu_count} GPUs")
