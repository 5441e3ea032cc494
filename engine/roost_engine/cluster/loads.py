"""How busy the GPUs of each node are, as far as probes have told."""

import numpy as np
from numpy.typing import NDArray

from roost_engine.cluster.features import load_fractions
from roost_engine.cluster.link_table import MAX_GPUS
from roost_engine.cluster.node_sets import NO_NODES, NodeSet, doubled
from roost_engine.domain.events import LOAD_COLUMNS


class NodeLoads:
    """The latest load of every row.

    Attributes, one entry a row unless said otherwise:
        by_gpu: float32 [row, gpu, 4], fractions, 0 where unknown; columns LOAD_COLUMNS.
        mean: float32 [row], over GPUs and quantities.
        known_frac: float32 [row], share of the GPUs of which something is known.
        reported: the nodes whose load a probe has reported. Others with the same kind and free
            GPUs are interchangeable.
    """

    def __init__(self) -> None:
        self.by_gpu = np.zeros((64, MAX_GPUS, len(LOAD_COLUMNS)), dtype=np.float32)
        self.mean = np.zeros(64, dtype=np.float32)
        self.known_frac = np.zeros(64, dtype=np.float32)
        self.reported: NodeSet = NO_NODES
        self._row_count = 0

    def add_node(self) -> None:
        """Begin the next row, of which nothing is known."""
        if self._row_count == len(self.mean):
            self.by_gpu = doubled(self.by_gpu)
            self.mean, self.known_frac = doubled(self.mean), doubled(self.known_frac)
        self._row_count += 1

    def see(self, row: int, load: NDArray[np.float32]) -> None:
        """Take in what a probe tells: float32 [gpu, 4], NaN where it cannot know."""
        self.by_gpu[row, : len(load)] = load_fractions(load)
        self.known_frac[row] = np.isfinite(load).any(axis=1).mean()
        self.mean[row] = self.by_gpu[row, : len(load)].mean()
        self.reported |= 1 << row

    def forget(self, row: int) -> None:
        """Take the GPUs of a row for others than before."""
        self.by_gpu[row] = 0
        self.mean[row] = self.known_frac[row] = 0
        self.reported &= ~(1 << row)
