"""search: single nodes are those that looking at every node finds, with load and without."""

from random import Random

import pytest
from tests.engine.placement import every_node
from tests.engine.placement.listed import masks_of, nodes_of
from tests.engine.placement.test_gangs import KINDS, random_cluster

from roost_engine.domain.topology import LinkMatrix
from roost_engine.placement.search import find_candidates, first_candidates
from roost_engine.testing.builders import job, shape


@pytest.mark.parametrize("loaded_frac", [0.0, 0.3, 1.0])
@pytest.mark.parametrize("kinds", KINDS.values(), ids=KINDS)
def test_single_nodes_are_those_found_by_looking_at_every_node(
    kinds: list[LinkMatrix], loaded_frac: float
) -> None:
    for seed in range(40):
        random = Random(seed)
        cluster = random_cluster(random, kinds, loaded_frac=loaded_frac, most_nodes=60)
        for size in (1, 2, 3, 4):
            capacity = cluster.gpu_free.at_least[size]
            found = find_candidates(cluster, job("1", shape(size)), shape(size))
            listed = [
                (nodes[0], mask)
                for nodes, mask in zip(nodes_of(found), masks_of(found), strict=True)
            ]
            expected = every_node.nodes_and_masks(cluster, size, capacity) if capacity else []
            assert listed == expected


def test_the_first_shape_with_capacity_is_taken() -> None:
    cluster = random_cluster(Random(1), KINDS["one kind"])
    wanted = job("1", shape(8, 40), shape(1), shape(2))
    assert first_candidates(cluster, wanted).shape == shape(1)
