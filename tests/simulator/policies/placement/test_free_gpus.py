"""The free GPUs of a job, on nodes drawn by hand."""

import numpy as np
from tests.simulator.placing import drawn, of_gpus

from roost_engine.cluster.node_sets import NO_NODES
from roost_engine.domain.model import Shape
from roost_engine.testing.builders import job, shape
from roost_sim.policies.placement.free_gpus import (
    exact_shape,
    find_free_gpus,
    lowest_of,
    one_gpu_of,
)


def test_free_gpus_by_node_and_rack() -> None:
    cluster = drawn("aa.. aaaa", ".... .b..")
    free, capacity = find_free_gpus(cluster, of_gpus(5, 4), NO_NODES)
    assert free is not None
    assert free.nodes.tolist() == [0, 2, 3]
    assert free.masks.tolist() == [0b1100, 0b1111, 0b1101]
    assert free.counts.tolist() == [2, 4, 3]
    assert free.rack_counts().tolist() == [2, 7]
    assert capacity.node_count == 3


def test_too_few_free_gpus_are_none() -> None:
    free, capacity = find_free_gpus(drawn("aa.. aaaa"), of_gpus(3, 4), NO_NODES)
    assert free is None
    assert capacity.node_count == 1


def test_what_is_left_after_some_were_taken() -> None:
    free, _ = find_free_gpus(drawn("aa.. ...."), of_gpus(5, 4), NO_NODES)
    assert free is not None
    left = free.without(np.array([0b1100, 0b0001]))
    assert (left.wanted, left.nodes.tolist(), left.masks.tolist()) == (2, [1], [0b1110])


def test_a_node_gives_no_more_gpus_than_it_has_cpus_for() -> None:
    # 64 CPUs a node: two GPUs of 24 CPUs each fit, a third does not.
    asked = job("new", Shape(node_count=1, gpus_per_node=4, cpus_per_node=96))
    free, _ = find_free_gpus(drawn(".... ...."), asked, NO_NODES)
    assert free is not None
    assert free.counts.tolist() == [2, 2]


def test_the_lowest_gpus_of_a_mask() -> None:
    chosen = lowest_of(np.array([0b101101, 0b11, 0b1000]), np.array([3, 0, 1]))
    assert chosen.tolist() == [0b001101, 0, 0b1000]


def test_the_exact_shape_has_the_fewest_gpus_and_splits_into_single_ones() -> None:
    asked = job("new", shape(4, 3), shape(5, 2))
    assert exact_shape(asked) == shape(5, 2)
    each = one_gpu_of(Shape(node_count=2, gpus_per_node=4, cpus_per_node=10))
    assert (each.node_count, each.gpus_per_node, each.cpus_per_node) == (8, 1, 3)
