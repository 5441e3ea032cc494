"""Counts of the nodes on which each index set of one size is free, for all sets at once.

Two representations, with the same answers. `LaneCounts` keeps the counts side by side in one int, a
lane of 24 bits for each set in the order of their masks: with sets of 2 of 3 GPUs, 0b011, 0b101 and
0b110 have lanes 0, 1 and 2, and a node with all three GPUs free adds 1 << 0 | 1 << 24 | 1 << 48.
A node is one addition, however many sets are free on it. `ArrayCounts` is for sizes with more than
a thousand sets, such as 8 of 16 GPUs, for which the lanes would grow too long, and for many
different masks of a few GPUs.
"""

from collections.abc import Collection, Iterable, Sequence
from functools import cache, lru_cache
from math import comb
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from roost_engine.cluster.link_table import MAX_GPUS, popcounts, subsets
from roost_engine.cluster.node_groups import NodeGroup

_LANE_BITS = 24  # half of what a lane can hold must exceed the number of nodes
_LANE_BYTES = _LANE_BITS // 8
_LANE = (1 << _LANE_BITS) - 1
_CACHE_LIMIT = 4096
_STORED_LIMIT = 1 << 10  # changes that are stored
LANE_LIMIT = 1 << 10  # for more sets the lanes grow too long


class LaneCounts:
    """Counts of the index sets of one size.

    Attributes:
        size: GPUs in a set.
    """

    __slots__ = ("_lanes", "size")

    def __init__(self, size: int, nodes: Iterable[tuple[int, int]]) -> None:
        """Count.

        Args:
            size: GPUs in a set.
            nodes: free masks that are countable, see is_countable, and how many nodes have each.
        """
        self.size = size
        self._lanes = 0
        for mask, count in nodes:
            self._lanes += count * _lanes_of(mask, size)

    def move(self, changes: Iterable[tuple[int, int]]) -> None:
        """Count again the nodes whose free mask has changed, each given as before and after."""
        size, lanes = self.size, self._lanes
        for before, now in changes:
            lanes += _lanes_gained(before, now, size)
        self._lanes = lanes

    def of(self, masks: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return on how many nodes each of some sets is free."""
        lanes = self._lanes
        found = [lanes >> _LANE_BITS * _rank(mask) & _LANE for mask in masks.tolist()]
        return np.array(found, dtype=np.int64)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, LaneCounts):
            return NotImplemented
        return (self.size, self._lanes) == (other.size, other._lanes)

    __hash__ = None  # type: ignore[assignment]  # it changes

    def reach(self, count: int) -> bool:
        """Return whether any set is free on so many nodes; count is above 0."""
        return bool(self._where(count))

    def reaching(self, count: int) -> NDArray[np.int64]:
        """Return the sets that are free on so many nodes, ascending; count is above 0."""
        where = self._where(count)
        lane_count = -(-where.bit_length() // _LANE_BITS)
        lanes = np.frombuffer(where.to_bytes(lane_count * _LANE_BYTES, "little"), dtype=np.uint8)
        # Little-endian: the highest bit of a lane is in its last byte.
        return _sets(self.size)[np.flatnonzero(lanes[_LANE_BYTES - 1 :: _LANE_BYTES])]

    def first_reaching(self, count: int, ranked: Sequence[int], limit: int) -> list[int]:
        """Return the first of some sets that are free on so many nodes; count is above 0."""
        where, found = self._where(count), list[int]()
        limit = min(limit, where.bit_count())  # few sets suffice, or few reach it
        for mask in ranked if where else ():
            if where >> _highest_bit_of(mask) & 1:
                found.append(mask)
                if len(found) == limit:
                    break
        return found

    def _where(self, count: int) -> int:
        """Return the highest bit of each lane that holds at least `count`; it is above 0.

        Adding half a lane less `count` to each lane sets its highest bit just there. With lanes of
        4 bits, counts 3 and 1 and a `count` of 2: 0x31 + 0x66 = 0x97, of which 0x80 is left.
        """
        ones = _ones(-(-self._lanes.bit_length() // _LANE_BITS))
        highest = 1 << _LANE_BITS - 1
        return self._lanes + ones * (highest - count) & ones * highest


class ArrayCounts:
    """Counts of the index sets of one size, in an array over all masks.

    Args:
        size: GPUs in a set.
        node_counts: int64 [mask], how many nodes have exactly this mask free.
    """

    __slots__ = ("_free_on", "_sets")

    def __init__(self, size: int, node_counts: NDArray[np.int64]) -> None:
        width = (len(node_counts) - 1).bit_length()
        free_on = np.zeros(1 << width, dtype=np.int64)
        free_on[: len(node_counts)] = node_counts
        for gpu in range(width):  # superset sums: every set within a free set is free
            halves = free_on.reshape(-1, 2, 1 << gpu)
            halves[:, 0] += halves[:, 1]
        self._free_on, self._sets = free_on, _sets_in_array(width, size)

    def of(self, masks: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return on how many nodes each of some sets is free."""
        known = np.minimum(masks, len(self._free_on) - 1)
        return np.where(known == masks, self._free_on[known], 0)

    def reach(self, count: int) -> bool:
        """Return whether any set is free on so many nodes; count is above 0."""
        return bool((self._free_on[self._sets] >= count).any())

    def reaching(self, count: int) -> NDArray[np.int64]:
        """Return the sets that are free on so many nodes, ascending; count is above 0."""
        found: NDArray[np.int64] = self._sets[self._free_on[self._sets] >= count]
        return found

    def first_reaching(self, count: int, ranked: Sequence[int], limit: int) -> list[int]:
        """Return the first of some sets that are free on so many nodes; count is above 0."""
        masks = np.array(ranked, dtype=np.int64)
        found: list[int] = masks[self.of(masks) >= count][:limit].tolist()
        return found


IndexSetCounts: TypeAlias = LaneCounts | ArrayCounts


def count_index_sets(size: int, nodes: Sequence[tuple[int, int]]) -> IndexSetCounts:
    """Count on how many nodes each index set is free.

    Args:
        size: GPUs in a set.
        nodes: free masks, and how many nodes have each.
    """
    widest = max([mask for mask, _ in nodes], default=0)
    if is_countable(widest, size):
        return LaneCounts(size, nodes)
    node_counts = np.zeros(widest + 1, dtype=np.int64)
    for mask, count in nodes:
        node_counts[mask] += count
    return ArrayCounts(size, node_counts)


class ClusterSetCounts:
    """Counts of the nodes of a cluster on which each index set is free, usable or not.

    A size is counted when it is first asked for. Changes are stored, and applied to a size at the
    next question about it, so that a change without a question costs next to nothing.
    """

    def __init__(self, groups: Collection[NodeGroup]) -> None:
        """Count nothing yet.

        Args:
            groups: those that have nodes; the caller changes it. `change` must be called for each
                node that moves from one group to another.
        """
        self._groups = groups
        self._counts: dict[int, LaneCounts] = {}  # by size
        self._changes: list[tuple[int, int]] = []  # free masks of a node: before and after
        self._applied: dict[int, int] = {}  # by size, how many of the changes its counts have
        self._widest = 0  # the largest free mask that there ever was

    def change(self, before: int, now: int) -> None:
        """Note that the free mask of one node has changed."""
        if now > self._widest:
            self._widest = now
            self._counts.clear()  # their sizes may have too many sets now
        changes = self._changes
        changes.append((before, now))
        if len(changes) > _STORED_LIMIT:
            changes.clear()
            self._counts.clear()

    def reach(self, size: int, count: int) -> bool:
        """Return whether any set of a size is free on so many nodes; count is above 0.

        True also where counting would cost too much.
        """
        counts = self._counts.get(size)
        if counts is None or self._applied[size] != len(self._changes):
            if not is_countable(self._widest, size):
                return True
            counts = self._up_to_date(size)
        return counts.reach(count)

    def check(self) -> None:
        """Raise AssertionError where a count has drifted from the nodes."""
        for size in tuple(self._counts):
            fresh = self._count(size)
            assert self._up_to_date(size) == fresh, f"counts of sets of {size} GPUs drifted"

    def _up_to_date(self, size: int) -> LaneCounts:
        counts, stored_count = self._counts.get(size), len(self._changes)
        missing = 0 if counts is None else stored_count - self._applied[size]
        if counts is None or missing > len(self._groups):  # quicker than to apply each change
            counts = self._counts[size] = self._count(size)
        elif missing:
            counts.move(self._changes[-missing:])
        self._applied[size] = stored_count
        return counts

    def _count(self, size: int) -> LaneCounts:
        return LaneCounts(size, [(group.free, group.nodes.bit_count()) for group in self._groups])


@lru_cache(_CACHE_LIMIT)
def is_countable(mask: int, size: int) -> bool:
    """Return whether the sets within a free mask are few enough to be counted in lanes."""
    return comb(mask.bit_length(), size) <= LANE_LIMIT


@lru_cache(_CACHE_LIMIT)
def _lanes_of(mask: int, size: int) -> int:
    """Return a number with 1 in the lane of each set within a mask."""
    return sum(1 << _LANE_BITS * _rank(each) for each in subsets(mask, size))


@lru_cache(_CACHE_LIMIT)
def _lanes_gained(before: int, now: int, size: int) -> int:
    """Return what to add to the lanes when the free mask of a node changes."""
    return _lanes_of(now, size) - _lanes_of(before, size)


@cache
def _highest_bit_of(mask: int) -> int:
    """Return the place of the highest bit in the lane of a set."""
    return _LANE_BITS * (_rank(mask) + 1) - 1


@cache
def _rank(mask: int) -> int:
    """Return the place of a set among the sets of its size, in the order of their masks.

    The place is its number in the combinatorial number system: 0b110, GPUs 1 and 2, comes after
    C(1, 1) + C(2, 2) = 2 others.
    """
    gpus = (gpu for gpu in range(MAX_GPUS) if mask >> gpu & 1)
    return sum(comb(gpu, position) for position, gpu in enumerate(gpus, start=1))


@cache
def _sets(size: int) -> NDArray[np.int64]:
    """Return the sets of one size, by rank, as far as they are counted in lanes: int64 [set]."""
    width = max(width for width in range(MAX_GPUS + 1) if comb(width, size) <= LANE_LIMIT)
    return _sets_in_array(width, size)


@cache
def _sets_in_array(width: int, size: int) -> NDArray[np.int64]:
    """Return the sets of one size among so many GPUs, ascending: int64 [set]."""
    return np.flatnonzero(popcounts(width) == size)


@cache
def _ones(lane_count: int) -> int:
    """Return a number with 1 in each of so many lanes."""
    return sum(1 << _LANE_BITS * lane for lane in range(lane_count))
