"""Scopes: the nodes from which a gang's nodes are chosen, a rack or the whole cluster.

A search asks a scope on how many nodes each index set is free, and which nodes suit one index set
best. There are two kinds, with the same answers: one for few nodes, which it looks at as groups and
sets, and one for many, which it looks at as arrays. On 1,800 nodes with 500 different sets of free
GPUs the arrays are five times quicker, on ten nodes the sets are.
"""

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from roost_engine.cluster.cluster import Cluster
from roost_engine.cluster.index_set_counts import ArrayCounts, IndexSetCounts, count_index_sets
from roost_engine.cluster.link_table import MAX_GPUS, POPCOUNT
from roost_engine.cluster.node_groups import NodeGroup
from roost_engine.cluster.node_sets import (
    NO_NODES,
    NodeSet,
    first_nodes,
    node_array,
    node_set,
)

_FEW_NODES = 64  # up to so many, groups and sets are quicker than arrays
_LOAD_STEPS = (1 << 10) - 1  # loads that differ by less than a thousandth count as the same
_NARROW_MASK = 0xFF  # the largest free mask for which counting in an array is always quick


class Scope(Protocol):
    """Nodes from which a gang's nodes are chosen."""

    @property
    def count_by_kind(self) -> Mapping[int, int]:
        """Number of nodes of each kind."""

    def count_with(self, free: int) -> int:
        """Return how many nodes have exactly this mask of free GPUs."""

    def has_alike(self, count: int) -> bool:
        """Return whether so many nodes of one kind have the same GPUs free."""

    def counts(self, size: int, kind: int | None = None) -> IndexSetCounts:
        """Count on how many nodes, of one kind or of all, each index set of a size is free."""

    def best(self, mask: int, count: int) -> NodeSet:
        """Choose the nodes that suit an index set best; all if no more have it free.

        The best linked first; of equals those of the rack that comes first, then those with the
        fewest free GPUs, then those with the least load, then those with the lower node index.
        """


def scope_of(cluster: Cluster, nodes: NodeSet, racks: Sequence[int]) -> Scope:
    """Return a scope.

    Args:
        cluster: the nodes.
        nodes: those in the scope.
        racks: ids of their racks, in the order in which they are preferred.
    """
    if nodes.bit_count() <= _FEW_NODES:
        return FewNodes(cluster, nodes, racks)
    return ManyNodes(cluster, nodes, racks)


class AlikeNodes(NamedTuple):
    """Some nodes of a group.

    Attributes:
        group: nodes of one kind with the same GPUs free.
        nodes: those of them that are in the scope; one or more.
        node_count: of `nodes`.
    """

    group: NodeGroup
    nodes: NodeSet
    node_count: int


class FewNodes:
    """A scope that looks at groups of nodes; see Scope and scope_of."""

    def __init__(self, cluster: Cluster, nodes: NodeSet, racks: Sequence[int]) -> None:
        self._cluster, self._racks = cluster, racks
        by_group = cluster.groups.within(nodes).items()
        self.alike = [AlikeNodes(group, some, some.bit_count()) for group, some in by_group]
        # Made when first asked for, and not cached_property, which takes a lock: a scope is asked
        # a few questions, and then thrown away.
        self._count_by_kind: dict[int, int] | None = None
        self._counts: dict[int, IndexSetCounts] = {}  # by size, of all kinds
        self._sorted: list[tuple[int, int, int, NodeSet]] | None = None

    @property
    def count_by_kind(self) -> Mapping[int, int]:
        """See Scope."""
        if self._count_by_kind is None:
            counts = self._count_by_kind = {}
            for group, _, count in self.alike:
                counts[group.kind] = counts.get(group.kind, 0) + count
        return self._count_by_kind

    def count_with(self, free: int) -> int:
        """See Scope."""
        return sum([count for group, _, count in self.alike if group.free == free])

    def has_alike(self, count: int) -> bool:
        """See Scope."""
        return any(alike.node_count >= count for alike in self.alike)

    def counts(self, size: int, kind: int | None = None) -> IndexSetCounts:
        """See Scope."""
        if kind is not None:
            of_kind = [one for one in self.alike if one.group.kind == kind]
            return count_index_sets(size, [(one.group.free, one.node_count) for one in of_kind])
        found = self._counts.get(size)
        if found is None:  # a search asks twice: is there any set, and which are the best
            every = [(group.free, count) for group, _, count in self.alike]
            found = self._counts[size] = count_index_sets(size, every)
        return found

    def best(self, mask: int, count: int) -> NodeSet:
        """See Scope."""
        if len(self.alike) == 1:  # often: whole idle nodes
            group, nodes, node_count = self.alike[0]
            if group.free & mask != mask:
                return NO_NODES
            return nodes if node_count <= count else self._rack_by_rack(nodes, (nodes,), count)
        chosen, tables = NO_NODES, self._cluster.tables
        by_score: dict[int, dict[int, NodeSet]] = {}  # nodes by score and number of free GPUs
        for free_count, kind, free, nodes in self._fullest_first:
            if free & mask == mask:
                level = by_score.setdefault(tables[kind].score_by_set[mask], {})
                level[free_count] = level.get(free_count, NO_NODES) | nodes
        for score in sorted(by_score, reverse=True):
            fullest_first = by_score[score].values()
            together = NO_NODES
            for nodes in fullest_first:
                together |= nodes
            found_count = together.bit_count()
            if found_count > count:
                return chosen | self._rack_by_rack(together, fullest_first, count)
            chosen |= together
            count -= found_count
        return chosen

    @property
    def _fullest_first(self) -> list[tuple[int, int, int, NodeSet]]:
        """Number of free GPUs, kind, free mask and nodes of each group; the fewest free first."""
        if self._sorted is None:
            self._sorted = sorted(
                [
                    (group.free.bit_count(), group.kind, group.free, nodes)
                    for group, nodes, _ in self.alike
                ]
            )
        return self._sorted

    def _rack_by_rack(
        self, together: NodeSet, fullest_first: Iterable[NodeSet], count: int
    ) -> NodeSet:
        """Choose among equally well linked nodes; there are more than wanted."""
        chosen, rack_nodes = NO_NODES, self._cluster.rack_nodes
        for rack in self._racks:
            if not count:
                break
            if not together & rack_nodes[rack]:
                continue
            for nodes in fullest_first:
                if count and (here := nodes & rack_nodes[rack]):
                    best = self._least_loaded(here, count)
                    chosen |= best
                    count -= best.bit_count()
        return chosen

    def _least_loaded(self, nodes: NodeSet, count: int) -> NodeSet:
        """Return the nodes of a set with the least load; ties go to the lower node index."""
        loads = self._cluster.loads
        if nodes.bit_count() <= count or not nodes & loads.reported:
            return first_nodes(nodes, count)
        listed = node_array(nodes)
        order = np.argsort(_load_steps(loads.mean[listed]), kind="stable")
        return node_set(listed[order[:count]].tolist())


class ManyNodes:
    """A scope that looks at nodes as arrays; see Scope and scope_of."""

    def __init__(self, cluster: Cluster, nodes: NodeSet, racks: Sequence[int]) -> None:
        self._cluster, self._racks = cluster, racks
        self._nodes = node_array(nodes)
        self._free, self._kind = cluster.free_mask[self._nodes], cluster.kind[self._nodes]

    @cached_property
    def count_by_kind(self) -> Mapping[int, int]:
        """See Scope."""
        counts = np.bincount(self._kind)
        return {kind: int(counts[kind]) for kind in np.flatnonzero(counts).tolist()}

    def count_with(self, free: int) -> int:
        """See Scope."""
        return int(np.count_nonzero(self._free == free))

    def has_alike(self, count: int) -> bool:
        """See Scope."""
        numbers = self._cluster.groups.number_of[self._nodes]
        return bool(np.bincount(numbers).max() >= count)

    def counts(self, size: int, kind: int | None = None) -> IndexSetCounts:
        """See Scope."""
        free = self._free if kind is None else self._free[self._kind == kind]
        node_counts = np.bincount(free)
        if len(node_counts) - 1 <= _NARROW_MASK:
            return ArrayCounts(size, node_counts)
        masks = np.flatnonzero(node_counts)
        return count_index_sets(
            size, list(zip(masks.tolist(), node_counts[masks].tolist(), strict=True))
        )

    def best(self, mask: int, count: int) -> NodeSet:
        """See Scope."""
        nodes, free, kind = self._by_preference
        fits = np.flatnonzero(free & mask == mask)
        if len(self.count_by_kind) == 1:
            return node_set(nodes[fits[:count]].tolist())
        tables = self._cluster.tables
        scores = [table.score_by_set[mask] if mask <= table.full_mask else 0 for table in tables]
        score = np.array(scores)[kind[fits]]
        chosen: list[int] = []
        levels = dict.fromkeys([scores[kind] for kind in self.count_by_kind])
        for level in sorted(levels, reverse=True):
            if len(chosen) == count:
                break
            chosen += nodes[fits[score == level][: count - len(chosen)]].tolist()
        return node_set(chosen)

    @cached_property
    def _by_preference(self) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
        """Nodes, their free masks and kinds, int64 [node], in the order of `best` but for links."""
        cluster, nodes = self._cluster, self._nodes
        place_of_rack = np.zeros(len(cluster.rack_nodes), dtype=np.int64)
        place_of_rack[list(self._racks)] = np.arange(len(self._racks))  # a tuple would be one index
        # One number to sort by, as hours, minutes and seconds make one number of seconds: the
        # second rack, 3 free GPUs and half of the load are (1 * 17 + 3) * 1024 + 512.
        place = place_of_rack[cluster.racks.ids[nodes]] * (MAX_GPUS + 1) + POPCOUNT[self._free]
        place = place * (_LOAD_STEPS + 1) + _load_steps(cluster.loads.mean[nodes])
        order = np.argsort(place, kind="stable")
        return nodes[order], self._free[order], self._kind[order]


def _load_steps(load: NDArray[np.float32]) -> NDArray[np.int64]:
    """Turn mean loads into steps of a thousandth: int64 [node], 0 where a node is idle."""
    idle: NDArray[np.int64] = ((1.0 - load) * _LOAD_STEPS).astype(np.int64)
    return _LOAD_STEPS - idle
