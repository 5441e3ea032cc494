"""Dally's placement as coded: the first slot, then the first node, rack, anything."""

import pytest
from tests.simulator.placing import drawn, of_gpus, put, rule

from roost_engine.testing.builders import bridges

# GPUs 0-3 are one slot of a node, 4-7 the other.
NODES = "aa.aaa.. .aaaa... a......."


@pytest.mark.parametrize(
    ("gpu_count", "expected"),
    [
        (1, {"n0": (2,)}),
        (2, {"n0": (6, 7)}),  # the first slot with two
        (3, {"n1": (5, 6, 7)}),
        (4, {"n2": (4, 5, 6, 7)}),  # n1 has four as well, but in two slots
        (5, {"n2": (1, 2, 3, 4, 5)}),  # the first node with five, from its first GPU on
        (8, {"n0": (2, 6, 7), "n1": (0, 5, 6, 7), "n2": (1,)}),  # the rack
    ],
)
def test_the_smallest_kind_of_domain_comes_first(
    gpu_count: int, expected: dict[str, tuple[int, ...]]
) -> None:
    cluster = drawn(NODES, links=bridges())
    assert put(rule("first-found"), cluster, of_gpus(gpu_count)) == expected


def test_the_first_domain_that_fits_is_taken_not_the_tightest() -> None:
    assert put(rule("first-found"), drawn(".... aa.."), of_gpus(2, 4)) == {"n0": (0, 1)}


def test_a_rack_that_holds_a_job_goes_before_gpus_of_several() -> None:
    cluster = drawn("aaa.", ".... ....")
    assert put(rule("first-found"), cluster, of_gpus(5, 4)) == {"n1": (0, 1, 2, 3), "n2": (0,)}
    everything = {"n0": (3,), "n1": (0, 1, 2, 3), "n2": (0, 1, 2, 3)}
    assert put(rule("first-found"), cluster, of_gpus(9, 4)) == everything
