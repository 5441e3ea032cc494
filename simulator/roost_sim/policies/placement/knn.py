"""TopDRL's placement: a seed node and the GPUs closest to it, fullest nodes first.

Source: Ayadi et al., JPDC 2025, by the released code of the same laboratory's predecessor
(Proximity-DRL). Its machines have four GPUs, and its rule differs above that size; here it differs
above the GPUs of the largest node.
"""

import numpy as np
from numpy.typing import NDArray

from roost_sim.policies.placement.free_gpus import FreeGpus, lowest_of


class ClosestGpus:
    """A seed node, then the fullest nodes of its rack, then of others. See scatter.ScatterRule."""

    def take(self, free: FreeGpus, at_s: float) -> NDArray[np.int64]:
        """See ScatterRule."""
        counts = np.zeros_like(free.counts)
        racks, seen_racks = free.racks, np.zeros(len(free.rack_counts()), dtype=np.bool_)
        left, node = free.wanted, self._seed(free)
        while True:
            counts[node] = min(left, int(free.counts[node]))
            left -= int(counts[node])
            if not left:
                return lowest_of(free.masks, counts)
            seen_racks[racks[node]] = True
            rest = np.flatnonzero(counts == 0)
            near = rest[seen_racks[racks[rest]]]
            closest = near if len(near) else rest
            node = int(closest[np.argmin(free.counts[closest])])

    def _seed(self, free: FreeGpus) -> int:
        racks = free.racks
        in_rack = free.rack_counts()[racks]  # free GPUs, of each node's rack
        whole_node = int(free.cluster.gpu_count[: len(free.cluster)].max())
        if 1 < free.wanted <= whole_node:
            holds = np.flatnonzero(free.counts >= free.wanted)
            if len(holds):
                keys = free.counts[holds], racks[holds], in_rack[holds]
                return int(holds[np.lexsort(keys)[0]])
        if free.wanted > 1:
            return int(np.lexsort((-free.counts, racks, -in_rack))[0])
        return int(np.lexsort((free.counts, racks, in_rack))[0])
