"""roostd.core.set_counts: all index sets of one size counted at once, against counting each."""

from itertools import combinations

from hypothesis import given
from hypothesis import strategies as st

from roostd.core.links import mask_of
from roostd.core.set_counts import SetCounts, is_countable

NODES = st.lists(st.tuples(st.integers(0, 255), st.integers(1, 20_000)), max_size=6)


@given(NODES, st.integers(1, 8), st.integers(1, 50_000))
def test_counts_are_those_of_each_set(nodes: list[tuple[int, int]], size: int, wanted: int) -> None:
    counts = SetCounts(size, nodes)
    sets = sorted(mask_of(chosen) for chosen in combinations(range(8), size))
    each = {mask: sum(count for free, count in nodes if free & mask == mask) for mask in sets}
    assert {mask: counts.of(mask) for mask in sets} == each
    enough = [mask for mask in sets if each[mask] >= wanted]
    assert counts.reaching(wanted) == enough
    assert counts.reach(wanted) == bool(enough)


def test_sets_of_sixteen_gpus_are_counted_where_they_are_few() -> None:
    """C(16, 2) = 120, C(16, 8) = 12,870."""
    assert is_countable(0xFFFF, 2)
    assert not is_countable(0xFFFF, 8)
    assert is_countable(0xFF, 8)
    counts = SetCounts(2, [(0xFFFF, 3), (0x8001, 2)])
    assert counts.reaching(5) == [0x8001]
    assert len(counts.reaching(3)) == 120
