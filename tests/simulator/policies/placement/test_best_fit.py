"""Consolidation as papers have it, on racks drawn by hand."""

import pytest
from tests.simulator.placing import drawn, of_gpus, put, rule

# Free: 1, 4, 2 in rack 0 (7), 4, 2 in rack 1 (6).
RACKS = ("aaa. .... aa..", ".... aa..")


@pytest.mark.parametrize(
    ("gpu_count", "expected"),
    [
        (1, {"n0": (3,)}),
        (2, {"n2": (2, 3)}),  # n2 and n4 are as tight, the first goes
        (3, {"n1": (0, 1, 2)}),
        # No node has five; rack 1 is the tighter one. n3 whole, and one of n4.
        (5, {"n3": (0, 1, 2, 3), "n4": (2,)}),
        (6, {"n3": (0, 1, 2, 3), "n4": (2, 3)}),
        # Rack 0: n1 whole, n2 whole, and n0.
        (7, {"n0": (3,), "n1": (0, 1, 2, 3), "n2": (2, 3)}),
        # No rack has eight: all of rack 0, and one of rack 1 from its tightest node.
        (8, {"n0": (3,), "n1": (0, 1, 2, 3), "n2": (2, 3), "n4": (2,)}),
    ],
)
def test_the_smallest_domain_and_of_those_the_tightest(
    gpu_count: int, expected: dict[str, tuple[int, ...]]
) -> None:
    assert put(rule("best-fit"), drawn(*RACKS), of_gpus(gpu_count, 4)) == expected


def test_the_last_node_is_the_tightest_that_holds_the_rest() -> None:
    # Five: the largest gives four, the rest comes from the node with one, not from that with two.
    cluster = drawn("..aa .... aaa.")
    assert put(rule("best-fit"), cluster, of_gpus(5, 4)) == {"n1": (0, 1, 2, 3), "n2": (3,)}
