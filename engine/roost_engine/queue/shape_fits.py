"""Whether enough nodes have enough free GPUs for a job, answered for all kinds of jobs at once.

Fast and optimistic: CPUs, memory, partitions and common GPU indices are not looked at.
"""

from collections.abc import Collection

import numpy as np
from numpy.typing import NDArray

from roost_engine.cluster.cluster import Cluster
from roost_engine.cluster.link_table import MAX_GPUS
from roost_engine.cluster.node_sets import EVERY_NODE, NodeSet
from roost_engine.domain.model import Shape

_MOST_REMEMBERED = 1_024


class ShapeFits:
    """Numbers the shapes of jobs, and says of each number whether it fits now."""

    def __init__(self) -> None:
        self._number_of: dict[tuple[Shape, ...], int] = {}
        self._sizes, self._node_counts = _table(())  # [number, shape]
        self._asked: list[int] = []  # GPUs that some shape asks of a node
        # By how many nodes have at least so many GPUs free, for each of `_asked`: bool [number].
        self._known: dict[tuple[int, ...], NDArray[np.bool_]] = {}

    def number_of(self, shapes: tuple[Shape, ...]) -> int:
        """Return the number of the shapes of a job."""
        number = self._number_of.get(shapes)
        if number is None:
            number = self._number_of[shapes] = len(self._number_of)
            self._sizes, self._node_counts = _table(self._number_of)
            self._asked = np.unique(self._sizes).tolist()
            self._known.clear()
        return number

    def enough(self, cluster: Cluster, nodes: NodeSet = EVERY_NODE) -> NDArray[np.bool_]:
        """Return whether one of its shapes fits on these nodes, by number: bool [number]."""
        usable, at_least = cluster.usable_set & nodes, cluster.gpu_free.at_least
        able = tuple([(at_least[size] & usable).bit_count() for size in self._asked])
        found = self._known.get(able)
        if found is None:
            if len(self._known) >= _MOST_REMEMBERED:
                self._known.clear()
            counts = np.zeros(MAX_GPUS + 1, dtype=np.intp)
            counts[self._asked] = able
            found = (counts[self._sizes] >= self._node_counts).max(axis=1)
            self._known[able] = found
        return found


def _table(of_jobs: Collection[tuple[Shape, ...]]) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Return GPUs a node and nodes of the shapes of some jobs: [job, shape] each.

    Where a job has fewer shapes than another, and for nodes larger than any: more nodes than there
    could be.
    """
    most = max(map(len, of_jobs), default=1) or 1
    sizes = np.zeros((len(of_jobs), most), dtype=np.intp)
    nodes = np.full((len(of_jobs), most), np.iinfo(np.intp).max)
    for number, shapes in enumerate(of_jobs):
        for place, shape in enumerate(shapes):
            if shape.gpus_per_node <= MAX_GPUS:
                sizes[number, place] = shape.gpus_per_node
                nodes[number, place] = shape.node_count
    return sizes, nodes
