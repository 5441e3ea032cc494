"""Set search: the fastest and the slowest set of a size among a node's GPUs, in bounded time.

A node of 16 GPUs has 12,870 sets of 8, and the rings of each take a search of their own, of half a
second where most pairs have lanes. Bounds that need no search say which sets are promising, and
often that no other set can be better. A node of 8 GPUs has 70 sets at most: all are computed.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import TypeAlias

Gpus: TypeAlias = tuple[int, ...]
Value: TypeAlias = Callable[[Gpus], float]

ALL_SETS = 100  # of no more sets all are computed
PROMISING_SETS = 16  # of more sets so many are


@dataclass(frozen=True, slots=True)
class FoundSet:
    """A set of GPUs of a node.

    Attributes:
        gpus: ascending indices.
        value: of the set.
        is_exact: False: one of the sets that were not computed may be what was sought.
    """

    gpus: Gpus
    value: float
    is_exact: bool


def fastest(gpu_count: int, size: int, value: Value, most: Value) -> FoundSet:
    """Return the set with the highest value; of equal ones the first that was computed.

    Args:
        gpu_count: of the node.
        size: of the set.
        value: of a set.
        most: a bound: the value of a set is no higher.
    """
    found = _least_cost(
        list(combinations(range(gpu_count), size)),
        cost=lambda gpus: -value(gpus),
        least=lambda gpus: -most(gpus),
        rank=lambda gpus: 0.0,
    )
    return FoundSet(found.gpus, -found.value, found.is_exact)


def slowest(gpu_count: int, size: int, value: Value, least: Value, most: Value) -> FoundSet:
    """Return the set with the lowest value; of equal ones the first that was computed.

    Args:
        gpu_count: of the node.
        size: of the set.
        value: of a set.
        least: a bound: the value of a set is no lower.
        most: another: it is no higher.
    """
    return _least_cost(
        list(combinations(range(gpu_count), size)), cost=value, least=least, rank=most
    )


def _least_cost(sets: Sequence[Gpus], *, cost: Value, least: Value, rank: Value) -> FoundSet:
    """Return the set of the least cost, as far as it was looked for.

    Args:
        sets: to choose from.
        cost: of a set.
        least: a bound: the cost of a set is no lower.
        rank: of sets with the same bound those of the lowest rank are computed first.
    """
    if len(sets) <= ALL_SETS:
        best = min(sets, key=cost)
        return FoundSet(best, cost(best), True)
    bounds = {gpus: least(gpus) for gpus in sets}
    order = sorted(sets, key=lambda gpus: (bounds[gpus], rank(gpus), gpus))
    best, found = order[0], cost(order[0])
    for gpus in order[1:PROMISING_SETS]:
        if bounds[gpus] >= found:
            break
        if (own := cost(gpus)) < found:
            best, found = gpus, own
    return FoundSet(best, found, bounds[order[PROMISING_SETS]] >= found)
