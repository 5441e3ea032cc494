"""Consolidation as papers define it: the smallest domain that holds the job, the fullest of those.

Unlike Roost's own consolidation, it may take any GPUs of any nodes: 12 GPUs are 8 on one node and 4
on another, where Slurm would have to give 6 on each of two. Source: docs/simulator/placements.md.
"""

import numpy as np
from numpy.typing import NDArray

from roost_sim.policies.placement.free_gpus import FreeGpus, lowest_of


class BestFit:
    """The fullest node that holds the job, else the fewest nodes of the fullest rack, else racks.

    Never waits. Ties go to the first node. See scatter.ScatterRule.
    """

    def take(self, free: FreeGpus, at_s: float) -> NDArray[np.int64]:
        """See ScatterRule."""
        if int(free.counts.max()) >= free.wanted:
            return lowest_of(free.masks, _fewest(free.counts, free.wanted))
        racks, counts = free.racks, np.zeros_like(free.counts)
        of_racks = _fewest(free.rack_counts(), free.wanted)
        for rack in np.flatnonzero(of_racks):
            here = np.flatnonzero(racks == rack)
            counts[here] = _fewest(free.counts[here], int(of_racks[rack]))
        return lowest_of(free.masks, counts)


def _fewest(counts: NDArray[np.int64], wanted: int) -> NDArray[np.int64]:
    """Return how many GPUs each domain gives: the fewest domains, the last one the fullest.

    Example: 5 of counts [2, 4, 1] are [0, 4, 1].
    """
    left, taken = counts.copy(), np.zeros_like(counts)
    while True:
        holds = np.flatnonzero(left >= wanted)
        if len(holds):
            taken[holds[np.argmin(left[holds])]] = wanted
            return taken
        largest = int(np.argmax(left))
        taken[largest] = left[largest]
        wanted -= int(left[largest])
        left[largest] = 0
