"""index_set_counts: all index sets of one size counted at once, against counting each."""

from itertools import combinations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from roost_engine.cluster.index_set_counts import ClusterSetCounts, LaneCounts, is_countable
from roost_engine.cluster.link_table import mask_of
from roost_engine.cluster.node_groups import NodeGroups

NODES = st.lists(st.tuples(st.integers(0, 255), st.integers(1, 20_000)), max_size=6)


@given(NODES, st.integers(1, 8), st.integers(1, 50_000))
def test_counts_are_those_of_each_set(nodes: list[tuple[int, int]], size: int, wanted: int) -> None:
    counts = LaneCounts(size, nodes)
    sets = sorted(mask_of(chosen) for chosen in combinations(range(8), size))
    each = {mask: sum(count for free, count in nodes if free & mask == mask) for mask in sets}
    assert counts.of(np.array(sets)).tolist() == list(each.values())
    enough = [mask for mask in sets if each[mask] >= wanted]
    assert counts.reaching(wanted).tolist() == enough
    assert counts.reach(wanted) == bool(enough)


def test_sets_of_sixteen_gpus_are_counted_where_they_are_few() -> None:
    """C(16, 2) = 120, C(16, 8) = 12,870."""
    assert is_countable(0xFFFF, 2)
    assert not is_countable(0xFFFF, 8)
    assert is_countable(0xFF, 8)
    counts = LaneCounts(2, [(0xFFFF, 3), (0x8001, 2)])
    assert counts.reaching(5) == [0x8001]
    assert len(counts.reaching(3)) == 120


def test_the_first_of_a_ranking_are_found_whatever_their_number() -> None:
    counts = LaneCounts(2, [(0b1111, 1), (0b0111, 1)])
    ranked = [0b1100, 0b0110, 0b0101, 0b0011]
    assert counts.first_reaching(1, ranked, 2) == [0b1100, 0b0110]
    assert counts.first_reaching(2, ranked, 4) == [0b0110, 0b0101, 0b0011]
    assert counts.first_reaching(3, ranked, 4) == []


CHANGES = st.lists(
    st.tuples(st.integers(0, 5), st.integers(0, 255), st.booleans(), st.integers(1, 8)),
    max_size=80,  # more than are remembered
)


@given(CHANGES)
def test_sets_of_a_cluster_are_those_that_its_nodes_have_now(
    changes: list[tuple[int, int, bool, int]],
) -> None:
    masks, groups = [0] * 6, node_groups(6)
    free = ClusterSetCounts(groups.occupied)
    for node, mask, is_asked, size in changes:
        before, masks[node] = masks[node], mask
        groups.move(node, 0, mask)
        free.change(before, mask)
        if is_asked:
            fresh = LaneCounts(size, [(each, 1) for each in masks])
            for count in range(1, 8):
                assert free.reach(size, count) == fresh.reach(count)
            free.check()


def test_sets_of_wide_nodes_may_be_anything_once_there_are_some() -> None:
    """Eight of sixteen GPUs are not counted; two of them are."""
    groups = node_groups(2)
    free = ClusterSetCounts(groups.occupied)
    groups.move(0, 0, 0xFF)
    free.change(0, 0xFF)
    assert free.reach(8, 1)
    assert not free.reach(8, 2)
    groups.move(1, 0, 0xFFFF)
    free.change(0, 0xFFFF)
    assert free.reach(8, 5), "counted before there were such nodes"
    assert free.reach(2, 2)
    assert not free.reach(2, 3)
    free.check()


def node_groups(node_count: int) -> NodeGroups:
    """Nodes without a free GPU."""
    groups = NodeGroups()
    for _ in range(node_count):
        groups.add_node()
    return groups
