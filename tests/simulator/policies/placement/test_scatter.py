"""Scattered placements: CPUs, required nodes, shapes, tiers and features."""

from dataclasses import replace

import pytest
from tests.engine.placement.listed import explained
from tests.simulator.placing import drawn, of_gpus, put, rule

from roost_engine.cluster.features import COLUMN
from roost_engine.cluster.node_sets import NO_NODES
from roost_engine.domain.model import NodeName
from roost_engine.domain.tier import Tier
from roost_engine.job_record import shares_of
from roost_engine.placement.eligibility import RESERVED
from roost_engine.testing.builders import bridges, job, shape
from roost_sim.traces.shapes import every_even_shape

RULES = (
    *("first-fit", "random", "load-balance", "load-balance-tree", "knn"),
    *("tetris-scattered", "lif-scattered"),
)


@pytest.mark.parametrize("name", RULES)
def test_a_node_gives_no_more_gpus_than_it_has_cpus_for(name: str) -> None:
    # 64 CPUs a node, 16 a GPU: four GPUs on each node.
    cluster = drawn("........ ........")
    found = put(rule(name), cluster, job("new", shape(8, cpus_per_node=128)))
    assert found is not None
    assert {node: len(gpus) for node, gpus in found.items()} == {"n0": 4, "n1": 4}
    assert put(rule(name), cluster, job("new", shape(9, cpus_per_node=144))) is None


@pytest.mark.parametrize("name", RULES)
def test_a_required_node_gives_at_least_one_gpu(name: str) -> None:
    cluster = drawn("........ ........", "aaaaaa.. ........")
    for gpu_count in (1, 2, 5, 9):
        spec = replace(of_gpus(gpu_count), required_nodes=(NodeName("n2"),))
        found = put(rule(name), cluster, spec)
        assert found is not None
        assert "n2" in found
        assert sum(map(len, found.values())) == gpu_count


@pytest.mark.parametrize("name", RULES)
def test_there_is_nothing_for_more_gpus_than_are_free(name: str) -> None:
    cluster = drawn("aa.. a...")
    assert put(rule(name), cluster, of_gpus(5, 4)) is not None
    found = rule(name).propose(cluster, of_gpus(6, 4), NO_NODES, 0.0)
    assert not len(found)
    reserved = rule(name).propose(cluster, of_gpus(5, 4), 0b10, 0.0)
    assert not len(reserved)
    assert dict(reserved.exclusions)[RESERVED] == 1
    assert [chance.nodes for chance in reserved.hints] == [0b10]


def test_the_shape_that_rounds_nothing_up_is_what_a_job_holds() -> None:
    # Nine GPUs on nodes of 8 are 3 x 3 at the tightest; 17 are rounded up to 3 x 6.
    assert every_even_shape(17, 8)[0].gpu_count == 18
    cluster = drawn("........ ........", "........")
    found = rule("first-fit").propose(cluster, of_gpus(17), NO_NODES, 0.0)
    assert found.shape.gpu_count == 17
    shares = shares_of(found.placement(0))
    assert [(len(share.gpu_indices), share.cpu_count) for share in shares] == [
        (8, 8),
        (8, 8),
        (1, 1),
    ]


@pytest.mark.parametrize(("gpu_count", "tier"), [(4, Tier.NODE), (8, Tier.RACK), (9, Tier.CLUSTER)])
def test_the_tier_is_that_of_the_farthest_gpus(gpu_count: int, tier: Tier) -> None:
    cluster = drawn(".... ....", "....")
    found = rule("first-fit").propose(cluster, of_gpus(gpu_count, 4), NO_NODES, 0.0)
    assert found.tier == tier
    assert found.features[0, COLUMN["tier_frac"]] == tier / 2


def test_features_say_how_the_gpus_are_linked() -> None:
    # Bridges of four lanes, 400 points each, 0-1 and 2-3 and so on. Taken: 0, 1 and 2 of n0, which
    # is one bridge and two pairs on one socket (20 each): 440; the best three GPUs have as much.
    cluster = drawn("........", links=bridges())
    found = rule("first-fit").propose(cluster, of_gpus(3), NO_NODES, 0.0)
    assert found.link_scores.tolist() == [440]
    assert explained(found).best_link_score == 440
    assert found.features[0, COLUMN["link_best_frac"]] == 1.0
    assert found.features[0, COLUMN["leftover_frac"]] == 5 / 8
