"""model: sizes of requests, and the GPUs of a placement node by node."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roost_engine.domain.model import NodeName, Placement, Shape
from roost_engine.domain.tier import Tier
from roost_engine.testing.builders import job, shape

A, B = NodeName("a"), NodeName("b")

shapes = st.builds(
    Shape,
    node_count=st.integers(1, 3),
    gpus_per_node=st.integers(1, 3),
    cpus_per_node=st.integers(1, 2),
    memory_per_node_bytes=st.integers(0, 1),
)


def test_the_gpus_of_a_shape_are_those_of_all_its_nodes() -> None:
    assert shape(4, 3).gpu_count == 12


def test_the_gpus_of_a_job_are_those_of_its_preferred_shape() -> None:
    assert job("1", shape(2, 1), shape(8, 4)).gpu_count == 2


def test_another_place_in_the_queue_is_the_same_request_and_another_size_is_not() -> None:
    asked = job("1", shape(2, 1))
    assert asked.asks_the_same(replace(asked, priority=7, precedence=1, fixed_indices=(0, 1)))
    assert not asked.asks_the_same(replace(asked, shapes=(shape(4, 1),)))


@given(shapes, shapes)
def test_equal_shapes_have_equal_hashes(one: Shape, other: Shape) -> None:
    """A shape has a hash of its own, and is a key of caches."""
    if one == other:
        assert hash(one) == hash(other)
    assert len({one, other}) == (1 if one == other else 2)


def test_shapes_of_different_sizes_have_different_hashes() -> None:
    sizes = [shape(gpus, nodes) for gpus in range(1, 17) for nodes in range(1, 200)]
    assert len({hash(one) for one in sizes}) == len(sizes)


def test_each_node_of_a_placement_gives_the_same_gpus() -> None:
    placement = Placement((A, B), (0, 3), shape(2, 2), Tier.RACK)
    assert list(placement.by_node()) == [(A, (0, 3)), (B, (0, 3))]


def test_each_node_of_a_scattered_placement_gives_its_own_gpus() -> None:
    scattered = Placement((A, B), (), shape(3), Tier.RACK, indices_by_node=((5,), (1, 2)))
    assert list(scattered.by_node()) == [(A, (5,)), (B, (1, 2))]


def test_a_scattered_placement_without_gpus_for_every_node_is_refused() -> None:
    scattered = Placement((A, B), (), shape(3), Tier.RACK, indices_by_node=((5,),))
    with pytest.raises(ValueError, match="shorter"):
        list(scattered.by_node())
