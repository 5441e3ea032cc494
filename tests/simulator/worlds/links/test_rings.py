"""Rings and chains: known counts, and an exhaustive search for comparison."""

from itertools import pairwise, permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roost_sim.clusters.link_shapes import SHAPES
from roost_sim.worlds.links.rings import Lanes, chain_count, has_ring, ring_count


def lanes_of(count: int, lanes: dict[tuple[int, int], int]) -> Lanes:
    return tuple(
        tuple(lanes.get((min(a, b), max(a, b)), 0) if a != b else 0 for b in range(count))
        for a in range(count)
    )


def all_pairs(count: int, lanes: int) -> Lanes:
    return lanes_of(count, {(a, b): lanes for a in range(count) for b in range(a + 1, count)})


def cube_mesh(*gpus: int) -> Lanes:
    links = SHAPES["cube8"].links
    return tuple(
        tuple(0 if (link := links[a][b]) is None else link.nvlink_count for b in gpus) for a in gpus
    )


def test_two_gpus_have_a_ring_a_lane() -> None:
    assert ring_count(all_pairs(2, 4)) == 4.0
    assert ring_count(all_pairs(2, 0)) == 0.0


def test_a_triangle_has_a_ring_in_each_direction() -> None:
    assert ring_count(all_pairs(3, 1)) == 2.0


def test_four_gpus_share_lanes_among_three_orders() -> None:
    # Whole lanes give one order, two one-way rings. Half lanes give all three orders.
    assert ring_count(all_pairs(4, 1)) == 3.0
    assert ring_count(all_pairs(4, 4)) == 12.0


def test_the_cube_mesh_has_a_ring_for_every_lane_of_a_gpu() -> None:
    assert ring_count(cube_mesh(*range(8))) == 6.0
    assert ring_count(cube_mesh(0, 1, 2, 3)) == 4.0


def test_without_a_way_back_there_are_chains_and_no_ring() -> None:
    assert ring_count(cube_mesh(0, 3, 4)) == 0.0
    assert chain_count(cube_mesh(0, 3, 4)) == 2.0
    assert ring_count(cube_mesh(0, 2, 5, 7)) == chain_count(cube_mesh(0, 2, 5, 7)) == 0.0


def test_chains_use_what_rings_leave() -> None:
    # Lanes 2, 2 and 1: every ring needs the single lane; two and a half chains fit.
    uneven = lanes_of(3, {(0, 1): 2, (1, 2): 2, (0, 2): 1})
    assert (ring_count(uneven), chain_count(uneven)) == (2.0, 2.5)


matrices = st.integers(3, 5).flatmap(
    lambda count: st.lists(
        st.integers(0, 2), min_size=count * (count - 1) // 2, max_size=count * (count - 1) // 2
    ).map(
        lambda values: lanes_of(
            count,
            dict(
                zip(
                    ((a, b) for a in range(count) for b in range(a + 1, count)),
                    values,
                    strict=True,
                )
            ),
        )
    )
)


@given(lanes=matrices)
def test_has_ring_agrees_with_all_orders(lanes: Lanes) -> None:
    count = len(lanes)
    linked = [[lane > 0 for lane in row] for row in lanes]
    expected = any(
        all(linked[a][b] for a, b in pairwise((0, *order, 0)))
        for order in permutations(range(1, count))
    )
    assert has_ring(linked) == expected
    assert (ring_count(lanes) > 0) == expected


@given(lanes=matrices)
def test_never_more_tours_than_lanes_allow(lanes: Lanes) -> None:
    fewest = min(sum(row) for row in lanes)
    assert 0 <= ring_count(lanes) <= fewest
    total = sum(sum(row) for row in lanes) / 2
    assert 0 <= chain_count(lanes) <= total / (len(lanes) - 1)


@pytest.mark.parametrize("count", [1, 2, 9, 16])
def test_all_linked_gpus_have_a_ring(count: int) -> None:
    assert has_ring([[a != b for b in range(count)] for a in range(count)])
