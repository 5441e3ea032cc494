"""Rings and chains over NVLink: how many of them fit beside each other, as NCCL searches them.

A ring visits every GPU once and comes back; a chain does not come back. NCCL sends one part of the
data over each of several rings (or reduces up and broadcasts down each of several chains), and may
give each only half of a lane: four GPUs with one lane between any two have three ring orders, each
lane is in two of them, and all three run at half the speed of a lane in both directions.

So the search packs tours into half lanes. It is cut off after a number of steps, as NCCL's is, and
then returns the best found.
"""

from collections.abc import Iterator, Sequence
from itertools import pairwise, permutations
from math import gcd
from typing import TypeAlias

Lanes: TypeAlias = tuple[tuple[int, ...], ...]  # [gpu, gpu]: lanes between two; 0 on the diagonal

MOST_GPUS = 8  # more are behind a switch wherever all have NVLink; orders of 9 would be too many
_MOST_STEPS = 4_000
_MOST_LOOKS = 60_000  # at tours, in all steps together; sets of a DGX-1V take 48,310 at most
_HALVES = 2

_Tour: TypeAlias = tuple[int, ...]  # indices of the edges that it uses


def ring_count(lanes: Lanes) -> float:
    """Return how many one-way rings of full lane speed fit; a multiple of one half times lanes.

    Args:
        lanes: of 2 to 8 GPUs. Each lane carries its full speed in both directions.

    Returns:
        0 where the lanes have no ring. Two GPUs with n lanes have n rings.
    """
    if len(lanes) == 2:  # the ring goes there and back on one lane
        return float(lanes[0][1])
    return _packed(lanes, is_ring=True) * 2 / _HALVES


def chain_count(lanes: Lanes) -> float:
    """Return how many chains of full lane speed fit beside each other, each used both ways."""
    return _packed(lanes, is_ring=False) / _HALVES


def has_ring(is_linked: Sequence[Sequence[bool]]) -> bool:
    """Return whether a ring over all GPUs uses linked pairs only. Exact, up to 16 GPUs.

    Held and Karp's dynamic program over subsets: `ends[mask]` are the GPUs, as bits, at which a
    chain can end that starts at GPU 0 and visits the GPUs of `mask`.
    """
    count = len(is_linked)
    if count <= 2:
        return all(is_linked[a][b] for a in range(count) for b in range(count) if a != b)
    near = [sum(1 << b for b in range(count) if b != a and is_linked[a][b]) for a in range(count)]
    if min(near) == 0:
        return False
    ends = {1: 1}
    for _ in range(count - 1):
        longer: dict[int, int] = {}
        for mask, reached in ends.items():
            for gpu in range(count):
                if mask >> gpu & 1 == 0 and near[gpu] & reached:
                    longer[mask | 1 << gpu] = longer.get(mask | 1 << gpu, 0) | 1 << gpu
        ends = longer
    return bool(ends.get((1 << count) - 1, 0) & near[0])


def _packed(lanes: Lanes, *, is_ring: bool) -> int:
    """Return how many tours of half a lane fit, times the common divisor of all lanes."""
    found = sorted({lane for row in lanes for lane in row if lane})
    if not found:
        return 0
    unit = gcd(*found)
    edges = {
        pair: number
        for number, pair in enumerate(
            (a, b) for a in range(len(lanes)) for b in range(a) if lanes[a][b]
        )
    }
    spare = [_HALVES * lanes[a][b] // unit for a, b in edges]
    tours = tuple(_tours(len(lanes), edges, is_ring=is_ring))
    return _Packing(tours, spare, _bound(lanes, unit, is_ring=is_ring)).best() * unit


def _bound(lanes: Lanes, unit: int, *, is_ring: bool) -> int:
    """Return more than which cannot fit: every ring needs two lanes at every GPU."""
    halves = [_HALVES * sum(row) // unit for row in lanes]
    if is_ring:
        return min(halves) // 2
    return min(min(halves), sum(halves) // 2 // (len(lanes) - 1))


def _tours(count: int, edges: dict[tuple[int, int], int], *, is_ring: bool) -> Iterator[_Tour]:
    """Yield every ring or chain over linked pairs once, as its edges; a direction is no other."""
    for order in permutations(range(1, count)) if is_ring else permutations(range(count)):
        if order[0] > order[-1]:
            continue
        stops = (0, *order, 0) if is_ring else order
        found = []
        for a, b in pairwise(stops):
            edge = edges.get((max(a, b), min(a, b)))
            if edge is None:
                break
            found.append(edge)
        else:
            yield tuple(found)


class _Packing:
    """A search for the most tours that fit; each tour takes one half lane of each of its edges."""

    def __init__(self, tours: Sequence[_Tour], spare: list[int], bound: int) -> None:
        self._tours, self._spare, self._bound = tours, spare, bound
        self._steps, self._looks, self._most = _MOST_STEPS, _MOST_LOOKS, 0

    def best(self) -> int:
        """Return the most tours found."""
        self._search(0, list(range(len(self._tours))))
        return self._most

    def _search(self, packed: int, open_: list[int]) -> None:
        self._most = max(self._most, packed)
        self._looks -= len(open_)
        open_ = [tour for tour in open_ if all(self._spare[edge] for edge in self._tours[tour])]
        # The tour that leaves most is first: it uses the edges of which most is spare.
        open_.sort(key=lambda tour: (-min(self._spare[edge] for edge in self._tours[tour]), tour))
        for position, tour in enumerate(open_):
            self._steps -= 1
            if self._most >= self._bound or self._steps < 0:
                return
            if position and self._looks < 0:  # the first way down is gone to its end
                return
            for edge in self._tours[tour]:
                self._spare[edge] -= 1
            self._search(packed + 1, open_[position:])
            for edge in self._tours[tour]:
                self._spare[edge] += 1
