"""The fastest and the slowest set of a size, of nodes with many sets."""

from itertools import combinations

import pytest

from roost_sim.worlds.links.set_search import (
    ALL_SETS,
    PROMISING_SETS,
    FoundSet,
    Gpus,
    fastest,
    slowest,
)


class Sums:
    """Values a set by the sum of its indices, and counts what was asked."""

    def __init__(self) -> None:
        self.asked = 0

    def __call__(self, gpus: Gpus) -> float:
        self.asked += 1
        return float(sum(gpus))


def total(gpus: Gpus) -> float:
    return float(sum(gpus))


def nothing(gpus: Gpus) -> float:
    return 0.0


def a_lot(gpus: Gpus) -> float:
    return 1_000.0


def test_of_few_sets_all_are_computed_and_the_first_of_equal_ones_is_found() -> None:
    assert len(list(combinations(range(8), 4))) <= ALL_SETS
    assert fastest(8, 4, total, nothing) == FoundSet((4, 5, 6, 7), 22.0, True)
    assert slowest(8, 4, total, a_lot, nothing) == FoundSet((0, 1, 2, 3), 6.0, True)
    assert fastest(8, 4, lambda gpus: 1.0, nothing).gpus == (0, 1, 2, 3)


def test_tight_bounds_find_the_set_among_many_and_prove_it() -> None:
    value = Sums()
    assert fastest(16, 8, value, total) == FoundSet(tuple(range(8, 16)), 92.0, True)
    assert value.asked == 1
    assert slowest(16, 8, value, total, total) == FoundSet(tuple(range(8)), 28.0, True)
    assert value.asked == 2


def test_loose_bounds_end_after_the_promising_sets_and_say_so() -> None:
    value = Sums()
    found = fastest(16, 8, value, a_lot)
    assert value.asked == PROMISING_SETS
    assert not found.is_exact
    assert found.value == total(found.gpus)
    assert not slowest(16, 8, total, nothing, a_lot).is_exact


def test_of_sets_with_one_bound_the_least_promising_are_tried_for_the_slowest() -> None:
    found = slowest(16, 8, total, nothing, total)
    assert found == FoundSet(tuple(range(8)), 28.0, False)


@pytest.mark.parametrize("size", [1, 16])
def test_the_smallest_and_the_largest_set(size: int) -> None:
    assert fastest(16, size, total, total).is_exact
