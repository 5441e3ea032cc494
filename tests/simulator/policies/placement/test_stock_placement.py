"""Plain Slurm's nodes and GPUs, and its own wait for a leaf switch."""

import pytest
from tests.simulator.placing import drawn, put, rule

from roost_engine.domain.model import Shape
from roost_engine.testing.builders import bridges, job, shape
from roost_sim.traces.shapes import tightest_shapes

WHOLE = tuple(range(8))
# 64 CPUs a node less one a busy GPU. A job of 4 GPUs fits on n1, n2 and n4, n5.
LINE = "aaaaaaa. ........ ........ aaaaaaaa aaaa.... ........"


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        # Runs of 128 and of 124 CPUs: the second, and of its nodes the one with 60.
        (shape(4), {"n4": (4, 5, 6, 7)}),
        # n0 makes the first run longer, 185 CPUs: still the second.
        (shape(1), {"n4": (4,)}),
        # Whole nodes: n1, n2 (128 CPUs) and n5 (64).
        (shape(8), {"n5": WHOLE}),
        (shape(4, 2), {"n4": (4, 5, 6, 7), "n5": (0, 1, 2, 3)}),
        (shape(8, 2), {"n1": WHOLE, "n2": WHOLE}),
        # No run has three: the largest first.
        (shape(8, 3), {"n1": WHOLE, "n2": WHOLE, "n5": WHOLE}),
        (shape(8, 4), None),
    ],
)
def test_the_best_fitting_run_of_consecutive_nodes(
    asked: Shape, expected: dict[str, tuple[int, ...]] | None
) -> None:
    assert put(rule("slurm-24.05"), drawn(LINE), job("new", asked)) == expected


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        # The job fits on three nodes of the first leaf, and on two of the second.
        (shape(4), {"n3": (4, 5, 6, 7)}),
        (shape(4, 2), {"n3": (4, 5, 6, 7), "n4": (0, 1, 2, 3)}),
        # Of the second leaf only n4 is whole.
        (shape(8), {"n4": WHOLE}),
        (shape(8, 2), {"n0": WHOLE, "n1": WHOLE}),
        # No leaf has four: the larger one first.
        (shape(4, 4), {**{f"n{i}": (0, 1, 2, 3) for i in range(3)}, "n3": (4, 5, 6, 7)}),
    ],
)
def test_the_best_fitting_leaf_switch(
    asked: Shape, expected: dict[str, tuple[int, ...]] | None
) -> None:
    nodes = drawn("........ ........ ........", "aaaa.... ........")
    assert put(rule("slurm-switches"), nodes, job("new", asked)) == expected


def test_since_24_05_the_gpus_without_a_bridge_are_taken() -> None:
    nodes = drawn("........", links=bridges())
    assert put(rule("slurm-22.05"), nodes, job("new", shape(2))) == {"n0": (0, 1)}
    assert put(rule("slurm-24.05"), nodes, job("new", shape(2))) == {"n0": (0, 2)}


def test_required_nodes_come_first() -> None:
    asked = job("new", shape(8, 2), required=["n5"])
    assert put(rule("slurm-24.05"), drawn(LINE), asked) == {"n1": WHOLE, "n5": WHOLE}
    asked = job("new", shape(8), required=["n5"], excluded=["n1"])
    assert put(rule("slurm-switches"), drawn(LINE), asked) == {"n5": WHOLE}


def test_slurm_takes_what_was_asked_for_and_nothing_wider() -> None:
    nodes = drawn("a....... b.......")
    assert put(rule("slurm-24.05"), nodes, job("new", *tightest_shapes(8, 8))) is None
