"""search: single nodes are those that looking at every node finds, with load and without."""

from dataclasses import replace
from random import Random

import numpy as np
import pytest
from tests.engine.placement import every_node
from tests.engine.placement.listed import masks_of, nodes_of
from tests.engine.placement.test_gangs import KINDS, random_cluster

from roost_engine.cluster.cluster import Cluster
from roost_engine.cluster.features import HEURISTIC_WEIGHTS
from roost_engine.cluster.link_table import STATIC_COLUMNS, indices_of, mask_of
from roost_engine.domain.model import JobId, NodeSpec, Shape
from roost_engine.domain.topology import LinkMatrix
from roost_engine.placement.search import NODE_COUNT, find_candidates, first_candidates
from roost_engine.testing.builders import bridges, job, node, nvswitch, shape, share


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


def cluster_of(*nodes: tuple[NodeSpec, LinkMatrix]) -> Cluster:
    cluster = Cluster()
    for spec, links in nodes:
        cluster.apply_node(spec)
        cluster.apply_topology(spec.name, links, ())
    return cluster


def named(cluster: Cluster, *shapes: Shape) -> set[str]:
    found = find_candidates(cluster, job("1", *shapes), shapes[0])
    return {cluster.names[node] for nodes in nodes_of(found) for node in nodes}


def test_an_awake_node_comes_before_one_that_has_to_boot() -> None:
    asleep, awake = node("a", asleep=True), node("b")
    cluster = cluster_of((asleep, nvswitch()), (awake, nvswitch()))
    assert named(cluster, shape(2)) == {"b"}
    cluster.hold(JobId("1"), (share("b", *range(7)),))
    assert named(cluster, shape(2)) == {"a"}
    cluster.release(JobId("1"))
    cluster.apply_node(replace(asleep, asleep=False))
    assert named(cluster, shape(2)) == {"a", "b"}


def test_a_node_that_has_to_boot_stays_a_candidate_where_its_links_are_better() -> None:
    awake = node("b")
    cluster = cluster_of((node("a", asleep=True), nvswitch()), (awake, bridges(lane_count=0)))
    assert named(cluster, shape(4)) == {"a", "b"}


def test_gangs_are_of_awake_nodes_unless_others_are_closer() -> None:
    racks = {"a": "r1", "b": "r1", "c": "r2", "d": "r2"}
    for asleep, expected in (("ab", set("cd")), ("bd", set("abcd")), ("abcd", set("abcd"))):
        specs = (node(name, rack=rack, asleep=name in asleep) for name, rack in racks.items())
        cluster = cluster_of(*((spec, nvswitch()) for spec in specs))
        assert named(cluster, shape(8, 2)) <= expected
        assert named(cluster, shape(8, 2)).isdisjoint(asleep) == (asleep == "ab")


def test_the_first_shape_with_capacity_is_taken() -> None:
    cluster = random_cluster(Random(1), KINDS["one kind"])
    wanted = job("1", shape(8, 40), shape(1), shape(2))
    assert first_candidates(cluster, wanted).shape == shape(1)


@pytest.mark.parametrize("loaded_frac", [0.0, 0.5])
@pytest.mark.parametrize("kinds", KINDS.values(), ids=KINDS)
def test_a_job_with_fixed_indices_is_offered_these_on_all_nodes_that_have_them(
    kinds: list[LinkMatrix], loaded_frac: float
) -> None:
    found_count = 0
    for seed in range(40):
        random = Random(seed)
        cluster = random_cluster(random, kinds, loaded_frac=loaded_frac, most_nodes=60)
        mask = mask_of(tuple(sorted(random.sample(range(4), random.choice((1, 2, 3))))))
        size = mask.bit_count()
        spec = replace(job("1", shape(size), shape(size + 1)), fixed_indices=indices_of(mask))
        able = [node for node in range(len(cluster)) if cluster.free_as(node)[1] & mask == mask]
        found = first_candidates(cluster, spec)
        assert {each for (each,) in nodes_of(found)} <= set(able)
        assert len(nodes_of(found)) == min(len(able), NODE_COUNT)
        assert set(masks_of(found)) <= {mask}
        if found:
            found_count += 1
            assert np.isfinite(found.features).all()
            columns = found.features[:, STATIC_COLUMNS] @ HEURISTIC_WEIGHTS[STATIC_COLUMNS]
            worst = float(columns.min())
            left_out = set(able) - {each for (each,) in nodes_of(found)}
            for node in left_out:
                kind, free = cluster.free_as(node)
                choice = cluster.tables[kind].only(free, mask)
                assert choice.best_static_score <= worst + 1e-6
    assert found_count > 10


def test_no_shape_with_another_number_of_gpus_meets_fixed_indices() -> None:
    cluster = random_cluster(Random(1), KINDS["one kind"])
    assert not first_candidates(cluster, replace(job("1", shape(1)), fixed_indices=(0, 1)))
