"""The rack of each node: nodes of one rack share a leaf switch."""

from collections.abc import Collection

import numpy as np

from roost_engine.cluster.node_sets import NO_NODES, NodeSet, doubled


class Racks:
    """The rack of each node. A rack has an id, in the order in which racks are first reported.

    Attributes:
        ids: int64 [node], the id of its rack; longer than there are nodes.
        of_node: the same as a list.
        nodes: by rack id, its nodes.
    """

    def __init__(self) -> None:
        self.ids = np.zeros(64, dtype=np.int64)
        self.of_node: list[int] = []
        self.nodes: list[NodeSet] = []
        self._ids: dict[str, int] = {}

    @property
    def names(self) -> Collection[str]:
        """The names of the racks, by rack id."""
        return self._ids.keys()

    def add_node(self) -> None:
        """Append a node: of the first rack, until `change` says another one."""
        if len(self.of_node) == len(self.ids):
            self.ids = doubled(self.ids)
        self.of_node.append(0)

    def change(self, node: int, name: str) -> None:
        """Move a node to the rack of a name."""
        rack = self._ids.setdefault(name, len(self._ids))
        if rack == len(self.nodes):
            self.nodes.append(NO_NODES)
        self.nodes[self.of_node[node]] &= ~(1 << node)
        self.nodes[rack] |= 1 << node
        self.ids[node] = self.of_node[node] = rack

    def check(self) -> None:
        """Raise AssertionError where a node is not in exactly the rack that is stored for it."""
        for node, rack in enumerate(self.of_node):
            assert self.ids[node] == rack, f"rack of node {node} drifted"
            assert self.nodes[rack] >> node & 1, f"rack of node {node} drifted"
        assert sum(map(int.bit_count, self.nodes)) == len(self.of_node), "nodes of racks drifted"
