"""Link bandwidth: sets of GPUs of known nodes."""

from itertools import combinations, islice
from math import inf

import numpy as np
import pytest

from roost_engine.domain.topology import Level, Link, LinkMatrix
from roost_sim.clusters.link_shapes import SHAPES
from roost_sim.worlds.links.link_bandwidth import LinkBandwidth
from roost_sim.worlds.links.link_constants import PASCAL, VOLTA

GB = 1e9


def node(shape: str, gpu_model: str = "v100") -> LinkBandwidth:
    return LinkBandwidth.of(SHAPES[shape], gpu_model)


@pytest.mark.parametrize(
    ("shape", "gpu_model", "gpus", "gbytes_per_s"),
    [
        ("pcie8", "v100", (0, 1), 12.0),
        ("pcie8", "v100", (0, 2), 10.0),
        ("pcie8", "v100", (0, 4), 9.0),
        ("bridges8", "a40", (0, 1), 48.0),
        ("bridges8", "a40", (0, 2), 20.0),
        ("bridges8", "a40", (0, 1, 2, 3), 20.0),
        ("bridges8", "a40", (0, 1, 4, 5), 16.0),
        ("cube8", "v100", (0, 3), 40.0),
        ("cube8", "v100", (0, 1), 20.0),
        ("cube8", "v100", (0, 5), 9.0),
        ("cube8", "v100", (0, 2, 5, 7), 9.0),
        ("cube8", "v100", tuple(range(8)), 120.0),
        ("a100x4", "a100", (0, 1), 80.0),
        ("a100x4", "a100", (0, 1, 2, 3), 240.0),
        ("a100x8", "a100", (2, 7), 240.0),
        ("v100x16", "v100", tuple(range(16)), 120.0),
    ],
)
def test_a_set_has_the_bandwidth_of_its_links(
    shape: str, gpu_model: str, gpus: tuple[int, ...], gbytes_per_s: float
) -> None:
    assert node(shape, gpu_model).bytes_per_s(gpus) == pytest.approx(gbytes_per_s * GB)


def test_one_gpu_sends_nothing() -> None:
    assert node("cube8").bytes_per_s((3,)) == inf
    assert node("cube8").stretch((3,)) == 1.0
    assert not node("cube8").is_on_nvlink((3,))


def test_lanes_to_a_switch_are_not_lanes_to_each_gpu() -> None:
    assert node("a100x8", "a100").is_switched
    assert not node("a100x4", "a100").is_switched
    assert not node("bridges8", "a40").is_switched
    assert not node("pcie8").is_switched


def test_stretch_is_against_the_best_set_of_the_size() -> None:
    bridged = node("bridges8", "a40")
    assert bridged.stretch((0, 1)) == 1.0
    assert bridged.stretch((0, 2)) == pytest.approx(48 / 20)
    assert node("cube8").stretch((5, 0)) == pytest.approx(40 / 9)


def test_a_port_that_is_slower_than_the_links_hides_them() -> None:
    bridged = node("bridges8", "a40")
    assert bridged.stretch((0, 2), limit_bytes_per_s=12.5 * GB) == 1.0
    assert bridged.stretch((0, 2), limit_bytes_per_s=25 * GB) == pytest.approx(25 / 20)


@pytest.mark.parametrize("shape", ["pcie8", "bridges8", "cube8", "a100x4", "a100x8"])
def test_no_set_beats_the_best_of_its_size(shape: str) -> None:
    kind = node(shape)
    for count in range(2, kind.links.gpu_count + 1):
        found = [
            kind.bytes_per_s(gpus) for gpus in combinations(range(kind.links.gpu_count), count)
        ]
        assert max(found) == kind.best_bytes_per_s(count)
        assert min(found) > 0


def irregular(gpu_count: int) -> LinkMatrix:
    """A node in two halves, whose pairs have no, one or two lanes without any pattern."""
    lanes = np.random.default_rng(1).choice([0, 0, 1, 1, 2], (gpu_count, gpu_count)).tolist()
    half = gpu_count / 2

    def link(a: int, b: int) -> Link | None:
        level = Level.NUMA_NODE if (a < half) == (b < half) else Level.SYSTEM
        return None if a == b else Link(level, lanes[min(a, b)][max(a, b)])

    rows = [tuple(link(a, b) for b in range(gpu_count)) for a in range(gpu_count)]
    return LinkMatrix(tuple(rows))


@pytest.mark.parametrize("count", [2, 3, 5, 6])
def test_the_search_among_many_sets_finds_what_all_sets_show(count: int) -> None:
    kind = LinkBandwidth(irregular(10), VOLTA)
    values = [kind.bytes_per_s(gpus) for gpus in combinations(range(10), count)]
    best, worst = kind.fastest(count), kind.slowest(count)
    assert (best.value, worst.value) == (max(values), min(values))
    assert kind.bytes_per_s(best.gpus) == best.value
    assert kind.bytes_per_s(worst.gpus) == worst.value


@pytest.mark.parametrize("shape", ["pcie8", "bridges8", "cube8", "a100x4", "a100x8"])
def test_bounds_hold_for_every_set(shape: str) -> None:
    kind = node(shape)
    for count in range(2, kind.links.gpu_count + 1):
        for gpus in combinations(range(kind.links.gpu_count), count):
            assert kind.least(gpus) <= kind.bytes_per_s(gpus) <= kind.most(gpus) * (1 + 1e-9)


def test_of_very_many_sets_the_promising_ones_are_searched() -> None:
    kind = LinkBandwidth(irregular(16), VOLTA)
    best = kind.fastest(6)
    others = islice(combinations(range(16), 6), 0, None, 40)
    assert best.value >= max(kind.bytes_per_s(gpus) for gpus in others)
    assert best.is_exact


def test_what_uses_nvlink_alone() -> None:
    cube = node("cube8")
    assert cube.is_on_nvlink((0, 1, 2, 3))
    assert cube.is_on_nvlink((0, 3, 4))  # by chains
    assert not cube.is_on_nvlink((0, 5))
    bridged = node("bridges8", "a40")
    assert bridged.is_on_nvlink((2, 3))
    assert not bridged.is_on_nvlink((0, 1, 2, 3))


def test_without_trees_a_chain_is_no_way() -> None:
    early = LinkBandwidth(SHAPES["cube8"], VOLTA, has_trees=False)
    assert early.bytes_per_s((0, 3, 4)) == 9 * GB


def test_nine_gpus_with_direct_lanes_count_as_one_ring() -> None:
    chain = tuple(
        tuple(
            None if a == b else Link(Level.SYSTEM, 1 if (a - b) % 9 in (1, 8) else 0)
            for b in range(9)
        )
        for a in range(9)
    )
    ring = LinkBandwidth(LinkMatrix(chain), PASCAL)
    assert ring.bytes_per_s(tuple(range(9))) == 18 * GB


def test_the_same_kind_is_computed_once() -> None:
    assert node("cube8") is node("cube8")
    assert node("cube8") is not node("cube8", "p100")
