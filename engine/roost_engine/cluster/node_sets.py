"""Sets of nodes as Python ints: bit r stands for row r of the cluster.

Intersection, difference and size of such a set cost less than one numpy call, for ten thousand
nodes too, and an int never changes: who remembers one remembers what was true then.
"""

from bisect import bisect_right, insort
from collections.abc import Callable, Iterable, Mapping
from typing import TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

NodeSet: TypeAlias = int
NO_NODES: NodeSet = 0
EVERY_NODE: NodeSet = ~NO_NODES

_Scalar = TypeVar("_Scalar", bound=np.generic)
_FEW_NODES = 16  # up to so many, a loop is quicker than numpy
_LEVEL_LIMIT = 256  # each costs a bit a node


def node_set(rows: Iterable[int]) -> NodeSet:
    """Put rows into a set."""
    found = NO_NODES
    for row in rows:
        found |= 1 << row
    return found


def node_set_where(chosen: NDArray[np.bool_]) -> NodeSet:
    """The rows for which a bool [row] is true."""
    return int.from_bytes(np.packbits(chosen, bitorder="little").tobytes(), "little")


def nodes_in(rows: NodeSet) -> list[int]:
    """List the rows of a set, ascending."""
    if rows.bit_count() > _FEW_NODES:
        listed: list[int] = node_array(rows).tolist()
        return listed
    found = []
    while rows:
        lowest = rows & -rows
        found.append(lowest.bit_length() - 1)
        rows ^= lowest
    return found


def node_array(rows: NodeSet) -> NDArray[np.int64]:
    """List the rows of a set, ascending: int64 [row]."""
    if not rows:
        return np.zeros(0, dtype=np.int64)
    packed = np.frombuffer(rows.to_bytes((rows.bit_length() + 7) // 8, "little"), dtype=np.uint8)
    return np.flatnonzero(np.unpackbits(packed, bitorder="little"))


def first_nodes(rows: NodeSet, count: int) -> NodeSet:
    """The lowest rows of a set; all where there are no more than `count`, which is small."""
    if rows.bit_count() <= count:
        return rows
    left = rows
    for _ in range(count):
        left &= left - 1
    return rows ^ left


def doubled(array: NDArray[_Scalar]) -> NDArray[_Scalar]:
    """Make room for as many rows again: [2 * row, ...], the new ones 0."""
    return np.concatenate((array, np.zeros_like(array)))


class _SetsByLevel(dict[int, NodeSet]):
    """Makes the set of a level when it is first asked for; a dict, because lookups are many."""

    __slots__ = ("_make",)

    def __init__(self, make: Callable[[int], NodeSet]) -> None:
        self._make = make

    def __missing__(self, level: int) -> NodeSet:
        return self._make(level)


class Levels:
    """Which rows have at least so much of one thing, GPUs or bytes.

    A set is made for each level that was ever asked for and updated from then on: a change of a
    node touches only the sets of the levels it crosses.

    Attributes:
        at_least: by level, the rows that have that much or more.
    """

    def __init__(self) -> None:
        self._values: list[int] = []
        self._levels: list[int] = []  # ascending
        self._highest = 0  # of them, at least 0: who stays above it changes no set
        self._sets = _SetsByLevel(self._make)
        self.at_least: Mapping[int, NodeSet] = self._sets

    def add_node(self) -> None:
        """Begin the next row, which has 0."""
        self._values.append(0)
        row = len(self._values) - 1
        for level in self._levels[: bisect_right(self._levels, 0)]:
            self._sets[level] |= 1 << row

    def __getitem__(self, row: int) -> int:
        return self._values[row]

    def __setitem__(self, row: int, value: int) -> None:
        self.change(row, value - self._values[row])

    def change(self, row: int, amount: int) -> None:
        """Give a row so much more."""
        old = self._values[row]
        value = self._values[row] = old + amount
        levels = self._levels
        if old >= self._highest <= value:
            return
        begin, end = bisect_right(levels, old), bisect_right(levels, value)
        if begin == end:
            return
        bit = 1 << row
        for level in levels[begin:end] or levels[end:begin]:
            self._sets[level] ^= bit

    def of(self, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """How much some rows have: int64 [row]."""
        return np.array([self._values[row] for row in rows.tolist()], dtype=np.int64)

    def _make(self, level: int) -> NodeSet:
        if len(self._levels) >= _LEVEL_LIMIT:
            self._levels.clear()
            self._sets.clear()
            self._highest = 0
        found = node_set_where(np.array(self._values, dtype=np.int64) >= level)
        self._sets[level] = found
        insort(self._levels, level)
        self._highest = max(self._highest, level)
        return found

    def check(self, values: list[int], what: str) -> None:
        """Raise AssertionError where the values are not these or a set has drifted from them."""
        assert self._values == values, f"{what} drifted"
        for level, rows in self._sets.items():
            there = node_set(row for row, value in enumerate(values) if value >= level)
            assert rows == there, f"{what}: the rows with {level} or more drifted"
        assert self._levels == sorted(self._sets), f"{what}: the levels drifted"
        assert self._highest == max([0, *self._levels]), f"{what}: the highest level drifted"
