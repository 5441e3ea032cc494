"""Which nodes have which partitions and features."""

import numpy as np
from numpy.typing import NDArray

from roost_engine.domain.model import NodeSpec


class NodeLabels:
    """The nodes that have each label; a label is a "partition" or a "feature", and a name."""

    def __init__(self) -> None:
        self._nodes_of: dict[tuple[str, str], NDArray[np.bool_]] = {}
        self._node_count = 0

    def add_node(self) -> None:
        """Append a node without labels."""
        self._node_count += 1

    def nodes_with(self, what: str, name: str) -> NDArray[np.bool_]:
        """Return which nodes have a "partition" or "feature" of that name: bool [node], a copy."""
        found = np.zeros(self._node_count, dtype=np.bool_)
        known = self._nodes_of.get((what, name))
        if known is not None:
            count = min(len(known), self._node_count)
            found[:count] = known[:count]
        return found

    def change(self, node: int, old: NodeSpec | None, new: NodeSpec | None) -> None:
        """Replace the labels that one spec gives a node by those of another."""
        for spec, value in ((old, False), (new, True)):
            if spec is None:
                continue
            labels = [("partition", name) for name in spec.partitions]
            labels += [("feature", name) for name in spec.features]
            for label in labels:
                known = self._nodes_of.get(label)
                if known is None or node >= len(known):
                    grown = np.zeros(max(64, 2 * node), dtype=np.bool_)
                    if known is not None:
                        grown[: len(known)] = known
                    known = self._nodes_of[label] = grown
                known[node] = value
