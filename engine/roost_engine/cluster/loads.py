"""How busy the GPUs of each node are, as far as probes have reported it."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from roost_engine.cluster.features import load_fractions
from roost_engine.cluster.link_table import MAX_GPUS
from roost_engine.cluster.node_sets import NO_NODES, NodeSet, doubled, node_set
from roost_engine.domain.events import LOAD_COLUMNS


class NodeLoads:
    """The latest load of every node.

    Attributes; arrays are longer than there are nodes:
        by_gpu: float32 [node, gpu, 4], fractions, 0 where unknown; columns LOAD_COLUMNS.
        mean: float32 [node], over GPUs and quantities.
        known_frac: float32 [node], share of the GPUs of which any quantity is known.
        reported: the nodes whose load a probe has reported. Nodes without a report that have the
            same kind and the same free GPUs are interchangeable.
        changed: the nodes whose load is another one since a reader last emptied this.
        version: by node, how often its load has become another one.
        report_count: how many reports were stored.
    """

    def __init__(self) -> None:
        self.by_gpu = np.zeros((64, MAX_GPUS, len(LOAD_COLUMNS)), dtype=np.float32)
        self.mean = np.zeros(64, dtype=np.float32)
        self.known_frac = np.zeros(64, dtype=np.float32)
        self.reported: NodeSet = NO_NODES
        self.changed: NodeSet = NO_NODES
        self.version: list[int] = []
        self.report_count = self._node_count = 0

    def add_node(self) -> None:
        """Append a node of unknown load."""
        if self._node_count == len(self.mean):
            self.by_gpu = doubled(self.by_gpu)
            self.mean, self.known_frac = doubled(self.mean), doubled(self.known_frac)
        self.version.append(0)
        self._node_count += 1

    def apply(self, nodes: Sequence[int], load: NDArray[np.float32]) -> None:
        """Store what probes reported of some nodes.

        Args:
            nodes: each once.
            load: float32 [node, gpu, 4], NaN where a probe cannot know.
        """
        now, gpu_count, listed = load_fractions(load), load.shape[1], list(nodes)
        differs = (now != self.by_gpu[listed, :gpu_count]).any(axis=(1, 2)).tolist()
        for node, has_changed in zip(listed, differs, strict=True):
            if has_changed or not self.reported >> node & 1:
                self.version[node] += 1
        self.by_gpu[listed, :gpu_count] = now
        self.known_frac[listed] = np.isfinite(load).any(axis=2).mean(axis=1)
        self.mean[listed] = now.reshape(len(listed), -1).mean(axis=1)
        reported = node_set(listed)
        self.reported |= reported
        self.changed |= reported
        self.report_count += len(listed)

    def forget(self, node: int) -> None:
        """Forget the load of a node: it has other GPUs than before."""
        self.by_gpu[node] = 0
        self.mean[node] = self.known_frac[node] = 0
        self.version[node] += 1
        self.reported &= ~(1 << node)
        self.changed |= 1 << node
