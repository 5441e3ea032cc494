import numpy as np
import pytest
from numpy.typing import NDArray

from roost_engine.cluster.link_table import LinkTable
from roost_engine.domain.topology import Level, Link, LinkMatrix
from roost_engine.scoring.graph_columns import LINK_TYPES
from roost_engine.scoring.graph_links import KindLinks
from roost_engine.testing.builders import bridges, nvswitch


def means_of(links: KindLinks, state: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return the means of a state [column, gpu, node]: [type, column, gpu, node]."""
    sums = np.zeros((len(LINK_TYPES), *state.shape), dtype=np.float32)
    links.add_means(state, sums)
    return sums


def test_a_switch_joins_all_pairs_by_nvlink() -> None:
    links = KindLinks.of(LinkTable(nvswitch()))
    assert links.is_nvlinked
    assert np.array_equal(links.pairs_frac, np.tile([[1], [0], [0]], (1, 8)))
    assert links.links_frac == 1.0


def test_means_are_over_the_neighbours_by_each_type_of_link() -> None:
    links = KindLinks.of(LinkTable(bridges()))
    state = np.arange(8, dtype=np.float32)[None, :, None]
    assert means_of(links, state)[0, 0, :, 0].tolist() == [
        1,
        0,
        3,
        2,
        5,
        4,
        7,
        6,
    ]  # the other GPU of each bridged pair
    assert links.pairs_frac[0] == pytest.approx(np.full(8, 1 / 7))
    assert not links.is_nvlinked


def test_a_type_without_neighbours_has_a_mean_of_zero() -> None:
    links = KindLinks.of(LinkTable(LinkMatrix.uniform(4, Link(Level.SYSTEM))))
    means = means_of(links, np.ones((1, 4, 1), dtype=np.float32))
    assert means[:, 0, :, 0].tolist() == [[0] * 4, [0] * 4, [1] * 4]


def test_one_gpu_has_no_pairs() -> None:
    links = KindLinks.of(LinkTable(LinkMatrix.uniform(1, Link(Level.SYSTEM))))
    assert links.is_nvlinked
    assert not links.pairs_frac.any()


@pytest.mark.parametrize("count", [1, 2, 5, 8, 16])
def test_means_are_those_of_the_matrix_of_each_type(count: int) -> None:
    rng = np.random.default_rng(count)
    kinds = [Link(Level.SYSTEM), Link(Level.SINGLE_SWITCH), Link(Level.SYSTEM, 2)]
    drawn = {(a, b): kinds[int(rng.integers(3))] for a in range(count) for b in range(a)}
    rows = tuple(
        tuple(None if a == b else drawn[max(a, b), min(a, b)] for b in range(count))
        for a in range(count)
    )
    links, state = KindLinks.of(LinkTable(LinkMatrix(rows))), rng.random((2, count, 3))
    found = means_of(links, state.astype(np.float32))
    for position, kind in enumerate((kinds[2], kinds[1], kinds[0])):
        near = np.array([[link == kind for link in row] for row in rows], dtype=float)
        wanted = near @ state / np.maximum(near.sum(axis=1), 1)[:, None]
        assert found[position] == pytest.approx(wanted, abs=5e-6)
        share = near.sum(axis=1) / max(count - 1, 1)
        assert links.pairs_frac[position] == pytest.approx(share)
