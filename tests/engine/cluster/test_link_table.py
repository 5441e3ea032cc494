"""link_table: every lookup against an exhaustive search over the same matrix."""

from collections.abc import Iterable
from functools import cache
from itertools import combinations
from pathlib import Path
from random import Random
from weakref import ref

import numpy as np
import pytest

from roost_engine.cluster.features import HEURISTIC_WEIGHTS
from roost_engine.cluster.link_table import (
    MAX_GPUS,
    STATIC_COLUMNS,
    LinkTable,
    indices_of,
    mask_of,
    popcounts,
)
from roost_engine.domain.topology import Level, Link, LinkMatrix, parse_topo_matrix
from roost_engine.testing.builders import bridges, nvswitch

LARGEST_GANG = 8
EXHAUSTIVE_GPUS = 10  # beyond it there are too many free sets for a Python loop
SAMPLED_CASES = 40


def free_sets(gpu_count: int) -> Iterable[tuple[int, ...]]:
    every = range(gpu_count)
    return (chosen for size in range(gpu_count + 1) for chosen in combinations(every, size))


def cases(gpu_count: int) -> Iterable[tuple[tuple[int, ...], int]]:
    """Free sets, each with the gang sizes to ask it for."""
    if gpu_count <= EXHAUSTIVE_GPUS:
        for free in free_sets(gpu_count):
            for size in range(1, min(len(free), LARGEST_GANG) + 1):
                yield free, size
        return
    random = Random(gpu_count)
    for _ in range(SAMPLED_CASES):
        free = tuple(sorted(random.sample(range(gpu_count), random.randint(1, gpu_count))))
        yield free, random.randint(1, min(len(free), LARGEST_GANG))


def check_against_exhaustive_search(links: LinkMatrix) -> None:
    table, score = LinkTable(links), cache(links.score)
    for free, size in cases(links.gpu_count):
        free_mask = mask_of(free)
        optimum = max(score(subset) for subset in combinations(free, size))
        assert table.best_score(free_mask, size) == optimum
        choice = table.choice(free_mask, size)
        assert choice.link_score == optimum
        assert len(choice.masks)
        for mask in choice.masks.tolist():
            chosen = indices_of(mask)
            assert set(chosen) <= set(free)
            assert len(chosen) == size
            assert score(chosen) == optimum


def test_choice_is_the_exhaustive_optimum_on_every_sample(sample_matrix: LinkMatrix) -> None:
    check_against_exhaustive_search(sample_matrix)


@pytest.mark.data
def test_choice_is_the_exhaustive_optimum_on_every_public_matrix(public_topology_dir: Path) -> None:
    paths = sorted((public_topology_dir / "nvidia_smi_topo").glob("*.txt"))
    assert len(paths) == 25
    for path in paths:
        check_against_exhaustive_search(parse_topo_matrix(path.read_text(), path.name))


@pytest.mark.parametrize("gpu_count", [1, 4, 6, 8, 10, 16])
def test_choice_is_the_exhaustive_optimum_where_no_two_links_are_alike(gpu_count: int) -> None:
    random = Random(gpu_count)
    lanes = {pair: random.randint(0, 18) for pair in combinations(range(gpu_count), 2)}
    every = range(gpu_count)
    links = LinkMatrix(
        tuple(
            tuple(
                None if a == b else Link(Level.SYSTEM, lanes[min(a, b), max(a, b)]) for b in every
            )
            for a in every
        )
    )
    check_against_exhaustive_search(links)


def test_set_scores_are_those_of_the_matrix(sample_matrix: LinkMatrix) -> None:
    table = LinkTable(sample_matrix)
    for mask in Random(7).sample(range(table.full_mask + 1), min(table.full_mask + 1, 300)):
        assert table.set_scores[mask] == sample_matrix.score(indices_of(mask))


def test_too_few_free_gpus_score_minus_one() -> None:
    table = LinkTable(bridges())
    assert table.best_score(0b0111, 4) == -1
    assert table.best_score(0xFF, 9) == -1
    assert table.best_score(0, 1) == -1
    assert table.best_score(0, 0) == 0


@pytest.mark.parametrize("gpu_count", [0, MAX_GPUS + 1])
def test_refuses_a_node_of_impossible_size(gpu_count: int) -> None:
    with pytest.raises(ValueError, match="want 1 to 16"):
        LinkTable(LinkMatrix.uniform(gpu_count, Link(Level.SYSTEM)))


def broken_pairs(free: tuple[int, ...], chosen: tuple[int, ...]) -> int:
    """How many whole free bridges lose one of their two GPUs."""
    whole = [gpu for gpu in free if gpu % 2 == 0 and gpu + 1 in free]
    return sum((gpu in chosen) != (gpu + 1 in chosen) for gpu in whole)


@pytest.mark.parametrize("lane_count", [1, 4, 12])
@pytest.mark.parametrize("gpu_count", [4, 8, 10])
def test_no_bridge_is_broken_while_a_gpu_without_a_partner_is_free(
    gpu_count: int, lane_count: int
) -> None:
    table = LinkTable(bridges(gpu_count, lane_count))
    for free in free_sets(gpu_count):
        for size in range(1, len(free) + 1):
            choice = table.choice(mask_of(free), size)
            broken = [broken_pairs(free, indices_of(mask)) for mask in choice.masks.tolist()]
            assert broken[0] == min(broken)
            scores = (choice.static * HEURISTIC_WEIGHTS[STATIC_COLUMNS]).sum(axis=-1)
            assert (scores[np.array(broken) > broken[0]] < scores[0]).all()


def test_no_neighbour_is_loud_enough_to_break_a_bridge() -> None:
    table, loudest = LinkTable(bridges()), -float(HEURISTIC_WEIGHTS[STATIC_COLUMNS.stop :].sum())
    for free in free_sets(8):
        for size in range(1, len(free) + 1):
            choice = table.choice(mask_of(free), size)
            broken = [broken_pairs(free, indices_of(mask)) for mask in choice.masks.tolist()]
            scores = (choice.static * HEURISTIC_WEIGHTS[STATIC_COLUMNS]).sum(axis=-1)
            assert (scores[np.array(broken) > broken[0]] < scores[0] - loudest).all()


def test_a_single_gpu_leaves_the_island_whole() -> None:
    """Four GPUs of one switch and two loose ones: the loose ones go first."""
    island, loose = Link(Level.NUMA_NODE, 6), Link(Level.SYSTEM)
    every = range(6)
    links = LinkMatrix(
        tuple(
            tuple(None if a == b else island if a < 4 and b < 4 else loose for b in every)
            for a in every
        )
    )
    assert int(LinkTable(links).choice(0b111111, 1).masks[0]) in (0b010000, 0b100000)


def test_the_least_fragmenting_subset_comes_first(sample_matrix: LinkMatrix) -> None:
    table = LinkTable(sample_matrix)
    for free, size in list(cases(sample_matrix.gpu_count))[:2000]:
        choice = table.choice(mask_of(free), size)
        lost = table.fragmentation(mask_of(free), choice.masks)
        assert (lost >= lost[0]).all()
        assert ((lost >= 0) & (lost <= 1)).all()


def test_potential_grows_with_the_free_set(sample_matrix: LinkMatrix) -> None:
    table = LinkTable(sample_matrix)
    assert table.potential[0] == 0
    for gpu in range(table.gpu_count):
        without = np.flatnonzero(~np.arange(table.full_mask + 1) >> gpu & 1)
        assert (table.potential[without | 1 << gpu] >= table.potential[without]).all()


def test_many_equal_subsets_are_thinned_out_over_the_node() -> None:
    choice = LinkTable(nvswitch(16)).choice(0xFFFF, 8)
    assert len(choice.masks) == 32
    assert len(set(choice.masks.tolist())) == 32
    assert int(np.bitwise_or.reduce(choice.masks)) == 0xFFFF


def test_neighbours_are_the_gpus_around_and_not_in_the_subset() -> None:
    """bridges(8): GPUs 0-3 on one socket; a bridge says nothing of a common switch."""
    weights = LinkTable(bridges()).choice(0b00001111, 2).neighbours.reshape(-1, 3, 8)
    switch, root, node = weights[0]  # of GPUs 0 and 1
    assert switch.sum() == 0
    np.testing.assert_allclose(root, np.array([0, 0, 1, 1, 0, 0, 0, 0]) / 2)
    np.testing.assert_allclose(node, np.array([0, 0, 1, 1, 1, 1, 1, 1]) / 6)


def test_neighbour_weights_add_up_to_one_or_nothing(sample_matrix: LinkMatrix) -> None:
    table = LinkTable(sample_matrix)
    masks = np.arange(1, min(table.full_mask + 1, 500))
    total = table.neighbour_weights(masks).sum(axis=1)
    assert (np.isclose(total, 1) | (total == 0)).all()


def test_forgets_choices_before_they_fill_the_memory() -> None:
    table = LinkTable(nvswitch(16, 1))
    first = table.choice(0b11, 2)
    for free_mask in range(3, 6000):
        if table.popcount[free_mask] >= 2:
            table.choice(free_mask, 2)
    assert len(table._choices) <= 4096
    assert table.choice(0b11, 2).link_score == first.link_score


def test_masks_and_indices_are_each_others_inverse() -> None:
    for mask in (0, 1, 0b1010, 0xFFFF):
        assert mask_of(indices_of(mask)) == mask
    assert popcounts(4).tolist() == [bin(mask).count("1") for mask in range(16)]


def test_listed_scores_and_losses_are_those_of_the_arrays() -> None:
    table = LinkTable(bridges(4))
    assert table.score_by_set == table.set_scores.tolist()
    every_set = np.arange(16)
    assert table.idle_losses.tolist() == table.fragmentation(0b1111, every_set).tolist()


def test_one_subset_as_a_choice_is_the_choice_of_a_free_set_that_holds_no_other() -> None:
    table = LinkTable(bridges())
    mask = mask_of((1, 2, 6))
    only, choice = table.only(mask, mask), table.choice(mask, 3)
    assert only.masks.tolist() == choice.masks.tolist() == [mask]
    assert (only.link_score, only.ideal_link_score) == (choice.link_score, choice.ideal_link_score)
    assert only.best_static_score == choice.best_static_score
    assert only.static.tolist() == choice.static.tolist()
    assert only.neighbours.tolist() == choice.neighbours.tolist()


def test_one_subset_of_a_larger_free_set_scores_no_better_than_the_best() -> None:
    table = LinkTable(bridges())
    only = table.only(table.full_mask, mask_of((0, 3)))
    best = table.choice(table.full_mask, 2)
    assert only.link_score < best.link_score
    assert only.best_static_score < best.best_static_score


def test_clusters_of_the_same_nodes_share_a_table_until_the_last_of_them_is_gone() -> None:
    table, other = (LinkTable.of(LinkMatrix.uniform(n, Link(Level.SYSTEM))) for n in (3, 4))
    chosen = table.choice(0b111, 2)
    again = LinkTable.of(LinkMatrix.uniform(3, Link(Level.SYSTEM)))
    assert again.choice(0b111, 2) is chosen
    assert other is not table
    gone = ref(table)
    del table, again
    assert gone() is None
