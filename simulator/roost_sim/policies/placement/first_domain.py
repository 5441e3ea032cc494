"""Dally's placement: the first domain that holds the job, in the order slot, node, rack, cluster.

Source: Sharma et al., arXiv 2401.16492, as coded: the first domain, though a comment in that code
says best fit. Its gate decides whether a rack or the whole cluster is accepted yet.
"""

import numpy as np
from numpy.typing import NDArray

from roost_engine.cluster.link_table import POPCOUNT, LinkTable, mask_of
from roost_engine.placement.stock_gpus import sockets_of
from roost_sim.policies.placement.free_gpus import FreeGpus, lowest_of
from roost_sim.policies.placement.scatter_rules import fill


class FirstDomain:
    """The first slot, node, rack or cluster with enough free GPUs. See scatter.ScatterRule.

    A slot is a set of GPUs of a node between which traffic stays on one side of the CPU
    interconnect. Within the domain the first free GPUs are taken.
    """

    def __init__(self) -> None:
        self._slots: dict[LinkTable, tuple[int, ...]] = {}

    def take(self, free: FreeGpus, at_s: float) -> NDArray[np.int64]:
        """See ScatterRule."""
        here = self._slot(free)
        if here is None:
            holds = free.counts >= free.wanted
            here = free.masks
            if holds.any():
                here = _only(free.masks, int(np.argmax(holds)))
            else:
                in_rack = free.rack_counts()[free.racks]
                fits = np.flatnonzero(in_rack >= free.wanted)
                if len(fits):
                    here = np.where(free.racks == free.racks[fits].min(), free.masks, 0)
        return lowest_of(here, fill(POPCOUNT[here], free.wanted))

    def _slot(self, free: FreeGpus) -> NDArray[np.int64] | None:
        """The free GPUs of the first slot that has enough; None if no slot has."""
        first: tuple[int, int] | None = None
        for table, here in free.cluster.by_kind(free.nodes):
            if table not in self._slots:
                self._slots[table] = tuple(mask_of(slot) for slot in sockets_of(table.links))
            slots = np.array(self._slots[table])
            node, slot = np.nonzero(POPCOUNT[free.masks[here][:, None] & slots] >= free.wanted)
            if len(node) and (first is None or here[node[0]] < first[0]):
                first = int(here[node[0]]), int(slots[slot[0]])
        return None if first is None else _only(free.masks, first[0], first[1])


def _only(masks: NDArray[np.int64], node: int, within: int = -1) -> NDArray[np.int64]:
    """The masks with all nodes but one cleared; of that one, the GPUs in `within`."""
    alone = np.zeros_like(masks)
    alone[node] = masks[node] & within
    return alone
