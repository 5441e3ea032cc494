"""Shapes that a GPU count may take."""

import pytest

from roost_engine.domain.model import Shape
from roost_sim.traces.shapes import every_even_shape, tightest_shapes


def spelled(shapes: tuple[Shape, ...]) -> list[str]:
    return [f"{shape.node_count}x{shape.gpus_per_node}" for shape in shapes]


@pytest.mark.parametrize(
    ("gpu_count", "shapes"),
    [
        (1, ["1x1"]),
        (8, ["1x8"]),
        (9, ["3x3", "2x5"]),
        (12, ["2x6"]),
        (11, ["2x6"]),
        (64, ["8x8"]),
        (20, ["4x5", "3x7"]),
    ],
)
def test_the_fewest_nodes_that_divide_the_gpus(gpu_count: int, shapes: list[str]) -> None:
    assert spelled(tightest_shapes(gpu_count, 8)) == shapes


@pytest.mark.parametrize(
    ("gpu_count", "shapes"),
    [(1, ["1x1"]), (8, ["1x8", "2x4", "4x2", "8x1"]), (16, ["2x8", "4x4", "8x2", "16x1"])],
)
def test_every_wider_even_shape_after_the_tightest(gpu_count: int, shapes: list[str]) -> None:
    assert spelled(every_even_shape(gpu_count, 8)) == shapes


@pytest.mark.parametrize("gpu_count", range(1, 200))
def test_no_shape_holds_fewer_gpus_than_asked_for_or_more_than_a_node_has(gpu_count: int) -> None:
    for shape in every_even_shape(gpu_count, 8):
        assert gpu_count <= shape.gpu_count < gpu_count + shape.node_count
        assert shape.gpus_per_node <= 8
