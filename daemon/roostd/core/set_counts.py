"""On how many nodes each index set of one size is free, counted for all sets at once.

The counts stand side by side in one int, a lane of bits for each set in the order of their masks.
A node adds 1 to the lanes of all sets that are free on it: one addition, however many these are.
"""

from collections.abc import Iterable
from functools import cache, lru_cache
from math import comb

from roostd.core.links import MAX_GPUS, mask_of, subsets

_LANE_BITS = 24  # half of what they hold must exceed the number of nodes
_LANE = (1 << _LANE_BITS) - 1
_CACHE_LIMIT = 4096
LANE_LIMIT = 1 << 10  # for more sets the lanes grow too long


class SetCounts:
    """Counts of the index sets of one size.

    Attributes:
        size: GPUs in a set.
    """

    __slots__ = ("_lanes", "size")

    def __init__(self, size: int, nodes: Iterable[tuple[int, int]]) -> None:
        """Count.

        Args:
            size: GPUs in a set.
            nodes: free masks, none of which is too large to be counted, and how many nodes have
                each.
        """
        self.size = size
        self._lanes = 0
        for mask, count in nodes:
            self._lanes += count * _lanes_of(mask, size)

    def of(self, mask: int) -> int:
        """On how many nodes one set is free."""
        return self._lanes >> _LANE_BITS * _rank(mask) & _LANE

    def reach(self, count: int) -> bool:
        """Whether any set is free on so many nodes; count is above 0."""
        return bool(self._where(count))

    def reaching(self, count: int) -> list[int]:
        """The sets that are free on so many nodes, ascending; count is above 0."""
        where, found = self._where(count), list[int]()
        sets = _sets(self.size)
        while where:
            lowest = where & -where
            found.append(sets[(lowest.bit_length() - 1) // _LANE_BITS])
            where ^= lowest
        return found

    def _where(self, count: int) -> int:
        """The highest bit of each lane that holds as much."""
        ones = _ones(-(-self._lanes.bit_length() // _LANE_BITS))
        highest = 1 << _LANE_BITS - 1
        return self._lanes + ones * (highest - count) & ones * highest


def is_countable(mask: int, size: int) -> bool:
    """Whether a free mask's sets are few enough to be counted."""
    return comb(mask.bit_length(), size) <= LANE_LIMIT


@lru_cache(_CACHE_LIMIT)
def _lanes_of(mask: int, size: int) -> int:
    """1 in the lane of each set within a mask."""
    return sum(1 << _LANE_BITS * _rank(each) for each in subsets(mask, size))


@cache
def _rank(mask: int) -> int:
    """Its place among the sets of its size in the order of their masks."""
    gpus = (gpu for gpu in range(MAX_GPUS) if mask >> gpu & 1)
    return sum(comb(gpu, position) for position, gpu in enumerate(gpus, start=1))


@cache
def _sets(size: int) -> tuple[int, ...]:
    """The sets of one size, by rank, as far as they are counted."""
    width = max(width for width in range(MAX_GPUS + 1) if comb(width, size) <= LANE_LIMIT)
    return tuple(sorted(subsets(mask_of(tuple(range(width))), size)))


@cache
def _ones(lane_count: int) -> int:
    """1 in each of so many lanes."""
    return sum(1 << _LANE_BITS * lane for lane in range(lane_count))
