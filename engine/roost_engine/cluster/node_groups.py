"""Groups of nodes that a search cannot tell apart but for their load.

Nodes of one kind with the same GPUs free form a group. A search looks at groups, not at nodes: a
cluster of ten thousand nodes has a few hundred.
"""

from collections.abc import Iterator, Sequence

import numpy as np

from roost_engine.cluster.node_sets import NO_NODES, NodeSet, doubled, nodes_in

_NODES_PER_GROUP = 4  # so much longer than at a group takes a look at a node


class NodeGroup:
    """The nodes of one kind with the same GPUs free.

    Attributes:
        number: groups are numbered in the order in which they first had a node.
        kind: of the nodes.
        free: mask of the free GPUs.
        nodes: the nodes; may be none.
    """

    __slots__ = ("free", "kind", "nodes", "number")

    def __init__(self, number: int, kind: int, free: int) -> None:
        self.number, self.kind, self.free = number, kind, free
        self.nodes: NodeSet = NO_NODES


class NodeGroups:
    """The group of each node.

    A group that has lost its nodes stays: nodes come back to it. There are at most as many groups
    as a kind of node has sets of GPUs, 256 for 8 GPUs; one without nodes takes about 100 bytes.

    Attributes:
        groups: every group that ever had a node, by number.
        occupied: those that have nodes now.
        number_of: int64 [node], the number of its group; longer than there are nodes.
        of_node: by node, its group.
    """

    def __init__(self) -> None:
        self.groups: list[NodeGroup] = []
        self.occupied: dict[NodeGroup, None] = {}
        self.number_of = np.zeros(64, dtype=np.int64)
        self.of_node: list[NodeGroup] = []
        self._by_free: list[dict[int, NodeGroup]] = []  # by kind

    def add_node(self) -> None:
        """Append a node: of kind 0, with no GPU free."""
        node = len(self.of_node)
        if node == len(self.number_of):
            self.number_of = doubled(self.number_of)
        group = self._group(0, 0)
        group.nodes |= 1 << node
        self.occupied[group] = None
        self.of_node.append(group)
        self.number_of[node] = group.number

    def __getitem__(self, node: int) -> NodeGroup:
        return self.of_node[node]

    def __iter__(self) -> Iterator[NodeGroup]:
        """Yield the groups that have nodes."""
        return iter(self.occupied)

    def among(self, nodes: NodeSet) -> dict[NodeGroup, NodeSet]:
        """Return the groups of some nodes, which are few, and which of the nodes each has."""
        found: dict[NodeGroup, NodeSet] = {}
        group_of = self.of_node
        for node in nodes_in(nodes):
            group = group_of[node]
            found[group] = found.get(group, NO_NODES) | 1 << node
        return found

    def within(self, nodes: NodeSet) -> dict[NodeGroup, NodeSet]:
        """Return the same in another order, by whatever are fewer: these nodes, or all groups."""
        if len(self.occupied) > _NODES_PER_GROUP * nodes.bit_count():
            return self.among(nodes)
        return {group: here for group in self.occupied if (here := group.nodes & nodes)}

    def move(self, node: int, kind: int, free: int) -> None:
        """Move a node to another group than its own."""
        before, bit = self.of_node[node], 1 << node
        # Nearly always the node's kind stays, and the group is known.
        group = self._by_free[kind].get(free) if kind == before.kind else None
        if group is None:
            group = self._group(kind, free)
        before.nodes ^= bit
        if not before.nodes:
            del self.occupied[before]
        if not group.nodes:
            self.occupied[group] = None
        group.nodes |= bit
        self.of_node[node] = group
        self.number_of[node] = group.number

    def _group(self, kind: int, free: int) -> NodeGroup:
        while len(self._by_free) <= kind:
            self._by_free.append({})
        group = self._by_free[kind].get(free)
        if group is None:
            group = self._by_free[kind][free] = NodeGroup(len(self.groups), kind, free)
            self.groups.append(group)
        return group

    def check(self, kinds: Sequence[int], free_masks: Sequence[int]) -> None:
        """Raise AssertionError where a node is in another group than its kind and free GPUs say."""
        there: dict[tuple[int, int], NodeSet] = {}
        for node, key in enumerate(zip(kinds, free_masks, strict=True)):
            there[key] = there.get(key, NO_NODES) | 1 << node
            group = self.of_node[node]
            assert (group.kind, group.free) == key, f"group of node {node} drifted"
            assert self.number_of[node] == group.number, f"group of node {node} drifted"
        found = {(group.kind, group.free): group.nodes for group in self.groups if group.nodes}
        assert found == there, "sets of nodes with the same GPUs free drifted"
        occupied = {group for group in self.groups if group.nodes}
        assert self.occupied.keys() == occupied, "groups that have nodes drifted"
