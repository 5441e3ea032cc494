"""gangs: the same gangs, in the same order, as looking at every node finds."""

from dataclasses import replace
from random import Random

import numpy as np
import pytest
from tests.engine.placement import every_node
from tests.engine.placement.listed import masks_of, nodes_of

from roost_engine.cluster.cluster import Cluster
from roost_engine.cluster.features import COLUMN
from roost_engine.cluster.link_table import subsets
from roost_engine.cluster.node_sets import NO_NODES, nodes_in
from roost_engine.domain.model import JobId, NodeName, NodeShare
from roost_engine.domain.tier import Tier
from roost_engine.domain.topology import LinkMatrix
from roost_engine.placement.gang_scopes import FewNodes, ManyNodes
from roost_engine.placement.gangs import find_gangs
from roost_engine.placement.search import find_candidates, first_candidates
from roost_engine.policies.heuristics import ShapeByShape
from roost_engine.testing.builders import bridges, job, node, nvswitch, shape, topology

KINDS = {
    "one kind": [bridges(8)],
    "two kinds": [bridges(8), nvswitch(8)],
    "three sizes": [bridges(4), bridges(8), bridges(10, 2)],
}


def random_cluster(
    random: Random, kinds: list[LinkMatrix], *, loaded_frac: float = 0.0, most_nodes: int = 30
) -> Cluster:
    """Up to 30 nodes in up to 4 racks; a third of them idle, as many with half of it taken."""
    cluster = Cluster()
    for number in range(random.randint(3, most_nodes)):
        links, name = random.choice(kinds), f"n{number}"
        cluster.apply_node(node(name, links.gpu_count, rack=f"r{random.randint(0, 3)}"))
        seen = topology(name, links)
        cluster.apply_topology(seen.name, seen.links, seen.gpu_uuids)
        taken = random.choice([0, 0b1111, random.getrandbits(links.gpu_count)])
        indices = tuple(gpu for gpu in range(links.gpu_count) if taken >> gpu & 1)
        cluster.hold(JobId(name), [NodeShare(seen.name, indices)])
        if random.random() < loaded_frac:
            load = [[random.random() for _ in range(4)] for _ in range(links.gpu_count)]
            cluster.apply_loads((seen.name,), np.array(load, dtype=np.float32)[None])
    return cluster


@pytest.mark.parametrize("loaded_frac", [0.0, 0.5, 1.0])
@pytest.mark.parametrize("kinds", KINDS.values(), ids=KINDS)
@pytest.mark.parametrize("size", [1, 2, 3, 4, 8])
def test_gangs_are_those_found_by_looking_at_every_node(
    kinds: list[LinkMatrix], size: int, loaded_frac: float
) -> None:
    found_count = 0
    for seed in range(25):
        random = Random(seed)
        cluster = random_cluster(random, kinds, loaded_frac=loaded_frac)
        wanted = shape(size, random.randint(2, 5))
        capacity = cluster.gpu_free.at_least[size]
        if capacity.bit_count() < wanted.node_count:
            continue
        required = NO_NODES
        if seed % 3 == 0:
            for index in random.sample(nodes_in(capacity), random.randint(1, wanted.node_count)):
                required |= 1 << index
        expected = every_node.gangs(cluster, wanted, capacity, required)
        found = find_gangs(cluster, wanted, capacity, required)
        assert [(gang.nodes, gang.parts[0][2]) for gang in found] == expected
        found_count += bool(found)
        for gang in found:
            racks = {int(cluster.racks.ids[index]) for index in gang.nodes}
            assert gang.tier == (1 if len(racks) == 1 else 2)
    assert found_count > 5


@pytest.mark.parametrize("loaded_frac", [0.0, 0.5])
def test_the_features_of_a_gang_are_those_of_its_nodes(loaded_frac: float) -> None:
    for seed in range(20):
        random = Random(seed)
        cluster = random_cluster(random, KINDS["three sizes"], loaded_frac=loaded_frac)
        wanted = shape(2, 2)
        found = find_candidates(cluster, job("1", wanted), wanted)
        tier = COLUMN["tier_frac"]
        each = zip(nodes_of(found), masks_of(found), found.features, strict=True)
        for nodes, mask, features in each:
            expected = every_node.gang_features(cluster, tuple(nodes), mask)
            assert np.delete(features, tier).tolist() == np.delete(expected, tier).tolist()


def test_sizes_with_many_index_sets_are_counted_in_arrays() -> None:
    """C(16, 8) = 12,870 sets to compare."""
    cluster = Cluster()
    for name in ("a", "b"):
        cluster.apply_node(node(name, 16))
    cluster.hold(JobId("1"), [NodeShare(node("a").name, (0,))])
    capacity = cluster.gpu_free.at_least[8]
    found = find_gangs(cluster, shape(8, 2), capacity, NO_NODES)
    expected = every_node.gangs(cluster, shape(8, 2), capacity, NO_NODES)
    assert [(gang.nodes, gang.parts[0][2]) for gang in found] == expected
    assert expected


@pytest.mark.parametrize("kinds", KINDS.values(), ids=KINDS)
@pytest.mark.parametrize("loaded_frac", [0.0, 0.5])
def test_few_and_many_nodes_are_searched_alike(kinds: list[LinkMatrix], loaded_frac: float) -> None:
    for seed in range(8):
        random = Random(seed)
        cluster = random_cluster(random, kinds, loaded_frac=loaded_frac, most_nodes=200)
        nodes = cluster.gpu_free.at_least[2]
        racks = random.sample(range(len(cluster.rack_nodes)), len(cluster.rack_nodes))
        few, many = FewNodes(cluster, nodes, racks), ManyNodes(cluster, nodes, racks)
        assert dict(few.count_by_kind) == dict(many.count_by_kind)
        assert few.count_with(0xFF) == many.count_with(0xFF)
        masks = np.array(subsets(0xFF, 2))
        for kind in (None, *few.count_by_kind):
            ours, theirs = few.counts(2, kind), many.counts(2, kind)
            assert ours.of(masks).tolist() == theirs.of(masks).tolist()
            assert ours.reaching(2).tolist() == theirs.reaching(2).tolist()
        for mask in (*masks.tolist(), *subsets(0xFF, 1)):
            for count in (1, 3, 70, 150):
                assert few.best(mask, count) == many.best(mask, count)
        for count in range(1, 60):
            assert few.has_alike(count) == many.has_alike(count)


@pytest.mark.parametrize("most_nodes", [30, 200])
def test_whole_nodes_are_those_that_a_search_finds(most_nodes: int) -> None:
    """A job that can have all indices of a node and no others is searched for."""
    crossing_count = 0
    for seed in range(30):
        random = Random(seed)
        cluster = random_cluster(random, KINDS["one kind"], most_nodes=most_nodes)
        nodes = cluster.gpu_free.at_least[8]
        for count in range(1, nodes.bit_count() + 1):
            found = find_gangs(cluster, shape(8, count), nodes, NO_NODES)
            searched = find_gangs(cluster, shape(8, count), nodes, NO_NODES, tuple(range(8)))
            assert [gang.key for gang in found] == [gang.key for gang in searched]
            assert [gang.nodes for gang in found] == [gang.nodes for gang in searched]
            crossing_count += found[-1].tier is Tier.CLUSTER
    assert crossing_count > 5


def test_nodes_with_the_same_gpus_free_are_grouped() -> None:
    cluster = Cluster()
    for name in ("a", "b", "c"):
        cluster.apply_node(node(name))
    cluster.hold(JobId("1"), [NodeShare(node("b").name, (0,))])
    found = {
        alike.group.free: nodes_in(alike.nodes) for alike in FewNodes(cluster, 0b111, (0,)).alike
    }
    assert found == {0xFF: [0, 2], 0xFE: [1]}


def test_a_gang_is_found_in_one_rack_of_more_than_64_nodes() -> None:
    """The search looks at so many nodes as arrays."""
    cluster = Cluster()
    for number in range(70):
        cluster.apply_node(node(f"n{number}", rack="r"))
    cluster.hold(JobId("1"), [NodeShare(node("n68").name, (6, 7))])
    nodes, wanted = cluster.gpu_free.at_least[2], shape(2, 3)
    found = find_gangs(cluster, wanted, nodes, NO_NODES)
    expected = every_node.gangs(cluster, wanted, nodes, NO_NODES)
    assert [(gang.nodes, gang.parts[0][2]) for gang in found] == expected
    assert (0, 1, 68) in [gang.nodes for gang in found]  # the fullest node goes first


# -- gangs without an index set in common ------------------------------------------------------


def halves(*names: str) -> Cluster:
    """Nodes with bridges 0-1, 2-3, ...: GPUs 0-3 are taken on every second one, 4-7 on the rest."""
    cluster = Cluster()
    for number, name in enumerate(names):
        cluster.apply_node(node(name, rack=name[0]))
        seen = topology(name, bridges())
        cluster.apply_topology(seen.name, seen.links, seen.gpu_uuids)
        taken = (0, 1, 2, 3) if number % 2 else (4, 5, 6, 7)
        cluster.hold(JobId(name), [NodeShare(seen.name, taken)])
    return cluster


def test_without_a_set_in_common_only_the_nodes_are_chosen() -> None:
    cluster = halves("a1", "a2")
    asked = job("1", gpus=2, nodes=2)
    assert not first_candidates(cluster, asked)
    (placement,) = [first_candidates(cluster, asked, any_gpus=True).placement(0)]
    assert not placement.is_exact
    assert list(placement.by_node()) == [("a1", (0, 1)), ("a2", (4, 5))]
    assert placement.tier is Tier.RACK


def test_an_index_set_in_common_is_used_where_there_is_one() -> None:
    cluster = halves("a1", "a2", "a3")
    placement = first_candidates(cluster, job("1", gpus=2, nodes=2), any_gpus=True).placement(0)
    assert placement.is_exact
    assert placement.nodes == ("a1", "a3")


def test_nodes_without_a_set_in_common_are_of_one_rack_where_it_suffices() -> None:
    cluster = halves("a1", "b1", "a2", "b2")
    cluster.hold(JobId("a2"), [NodeShare(NodeName("a2"), (0, 1, 2, 3))])
    cluster.hold(JobId("b1"), [NodeShare(NodeName("b1"), (0, 1, 4, 5))])
    cluster.hold(JobId("b2"), [NodeShare(NodeName("b2"), (0, 1, 2, 3, 4))])
    placement = first_candidates(cluster, job("1", gpus=4, nodes=2), any_gpus=True).placement(0)
    assert placement.nodes == ("a1", "a2")


def test_a_required_node_is_in_a_gang_without_a_set_in_common() -> None:
    cluster = halves("a1", "a2", "b1")
    asked = job("1", gpus=4, nodes=2, required=["a2"])
    placement = first_candidates(cluster, asked, any_gpus=True).placement(0)
    assert "a2" in placement.nodes


def test_a_job_with_other_shapes_or_fixed_indices_waits_for_gpus_in_common() -> None:
    single = job("1", gpus=2, nodes=2)
    cluster, policy = halves("a1", "a2"), ShapeByShape(any_gpus=True)
    assert policy.propose(cluster, single, NO_NODES, 0.0)
    assert not policy.propose(cluster, replace(single, fixed_indices=(0, 1)), NO_NODES, 0.0)
    several = replace(single, shapes=(shape(8), shape(4, 2)))
    assert not policy.propose(halves("a1", "a2"), several, NO_NODES, 0.0)
