"""Sets of nodes as Python ints: bit i stands for the node with index i.

Nodes 0 and 3 are the set 0b1001. Intersection, difference and size of such a set cost less than one
numpy call, for ten thousand nodes too. An int never changes: a set that is stored stays what it was
when it was stored.
"""

from bisect import bisect_right, insort
from collections.abc import Callable, Iterable, Mapping
from typing import TypeAlias, TypeVar
from weakref import WeakMethod

import numpy as np
from numpy.typing import NDArray

NodeSet: TypeAlias = int
NO_NODES: NodeSet = 0
EVERY_NODE: NodeSet = ~NO_NODES

_Scalar = TypeVar("_Scalar", bound=np.generic)
_FEW_NODES = 16  # up to so many, a loop is quicker than numpy
_CROSSED_LIMIT = 4096  # pairs of values, of which few are met: about 200 bytes each
_LEVEL_LIMIT = 256  # each costs a bit a node: at most 320 kB for ten thousand nodes


def node_set(nodes: Iterable[int]) -> NodeSet:
    """Return the set of some node indices."""
    found = NO_NODES
    for node in nodes:
        found |= 1 << node
    return found


def node_set_where(chosen: NDArray[np.bool_]) -> NodeSet:
    """Return the set of nodes for which a bool [node] is true."""
    return int.from_bytes(np.packbits(chosen, bitorder="little").tobytes(), "little")


def nodes_in(nodes: NodeSet) -> list[int]:
    """List the nodes of a set, ascending."""
    if nodes.bit_count() > _FEW_NODES:
        listed: list[int] = node_array(nodes).tolist()
        return listed
    found = []
    while nodes:
        lowest = nodes & -nodes  # of 0b1010: 0b0010
        found.append(lowest.bit_length() - 1)
        nodes ^= lowest
    return found


def node_array(nodes: NodeSet) -> NDArray[np.int64]:
    """List the nodes of a set, ascending: int64 [node]."""
    if not nodes:
        return np.zeros(0, dtype=np.int64)
    packed = np.frombuffer(nodes.to_bytes((nodes.bit_length() + 7) // 8, "little"), dtype=np.uint8)
    return np.flatnonzero(np.unpackbits(packed, bitorder="little"))


def first_nodes(nodes: NodeSet, count: int) -> NodeSet:
    """Return the lowest nodes of a set; all where there are no more than `count`.

    Each of them costs an operation on the whole set: meant for a small count.
    """
    if nodes.bit_count() <= count:
        return nodes
    others = nodes
    for _ in range(count):
        others &= others - 1  # clears the lowest bit
    return nodes ^ others


def doubled(array: NDArray[_Scalar]) -> NDArray[_Scalar]:
    """Return an array twice as long, the new entries 0: [2 * node, ...]."""
    return np.concatenate((array, np.zeros_like(array)))


class _SetsByLevel(dict[int, NodeSet]):
    """Makes the set of a level when it is first asked for; a dict, because lookups are many."""

    __slots__ = ("_make",)

    def __init__(self, make: Callable[[int], NodeSet]) -> None:
        self._make = WeakMethod(make)  # its object has this dict: no reference cycle

    def __missing__(self, level: int) -> NodeSet:
        make = self._make()
        assert make is not None, "asked after its Levels are gone"
        found: NodeSet = make(level)
        return found


class Levels:
    """An amount of one thing, GPUs, CPUs or bytes, on each node, and the nodes with enough of it.

    The set of a level is made when it is first asked for and updated from then on: a change of a
    node touches only the sets of the levels that its amount crosses.

    Attributes:
        at_least: by level, the nodes that have that much or more.
    """

    def __init__(self) -> None:
        self._values: list[int] = []
        self._levels: list[int] = []  # ascending
        self._crossed: dict[tuple[int, int], tuple[int, ...]] = {}  # levels, by old and new value
        self._highest = 0  # of the levels, at least 0: an amount that stays above crosses none
        self._sets = _SetsByLevel(self._make)
        self.at_least: Mapping[int, NodeSet] = self._sets

    def add_node(self) -> None:
        """Append a node that has 0."""
        self._values.append(0)
        node = len(self._values) - 1
        for level in self._levels[: bisect_right(self._levels, 0)]:
            self._sets[level] |= 1 << node

    def __getitem__(self, node: int) -> int:
        return self._values[node]

    def __setitem__(self, node: int, value: int) -> None:
        self.change(node, value - self._values[node])

    def change(self, node: int, amount: int) -> None:
        """Give a node that much more, or less where the amount is negative."""
        values = self._values
        old = values[node]
        value = values[node] = old + amount
        if old >= self._highest <= value:
            return
        crossed = self._crossed.get((old, value))
        if crossed is None:
            crossed = self._find_crossed(old, value)
        if crossed:
            sets, bit = self._sets, 1 << node
            for level in crossed:
                sets[level] ^= bit

    def _find_crossed(self, old: int, value: int) -> tuple[int, ...]:
        """Return the levels that an amount crosses when it changes from one value to another."""
        if len(self._crossed) >= _CROSSED_LIMIT:
            self._crossed.clear()
        begin, end = sorted((bisect_right(self._levels, old), bisect_right(self._levels, value)))
        crossed = self._crossed[old, value] = tuple(self._levels[begin:end])
        return crossed

    def of(self, nodes: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return how much some nodes have: int64 [node]."""
        return np.array([self._values[node] for node in nodes.tolist()], dtype=np.int64)

    def _make(self, level: int) -> NodeSet:
        if len(self._levels) >= _LEVEL_LIMIT:
            self._levels.clear()
            self._sets.clear()
            self._highest = 0
        self._crossed.clear()
        found = node_set_where(np.array(self._values, dtype=np.int64) >= level)
        self._sets[level] = found
        insort(self._levels, level)
        self._highest = max(self._highest, level)
        return found

    def check(self, values: list[int], what: str) -> None:
        """Raise AssertionError where the values are not these or a set has drifted from them."""
        assert self._values == values, f"{what} drifted"
        for level, nodes in self._sets.items():
            there = node_set(node for node, value in enumerate(values) if value >= level)
            assert nodes == there, f"{what}: the nodes with {level} or more drifted"
        assert self._levels == sorted(self._sets), f"{what}: the levels drifted"
        assert self._highest == max([0, *self._levels]), f"{what}: the highest level drifted"
