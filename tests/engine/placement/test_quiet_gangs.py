"""quiet_gangs: the same gangs, in the same order, as looking at every node finds."""

from random import Random

import numpy as np
import pytest

from roost_engine.cluster.cluster import Cluster
from roost_engine.cluster.features import HeuristicScore
from roost_engine.cluster.node_sets import NO_ROWS, rows_in
from roost_engine.domain.model import JobId, NodeShare
from roost_engine.domain.topology import LinkMatrix
from roost_engine.placement.candidates import find_candidates
from roost_engine.placement.gangs import gang_parts, gangs
from roost_engine.placement.quiet_gangs import (
    alike_in,
    have_a_set_in_common,
    quiet_gang_features,
    quiet_gangs,
)
from roost_engine.scoring.scorer import Chooser
from roost_engine.testing.builders import bridges, job, node, nvswitch, shape, topology

KINDS = {
    "one kind": [bridges(8)],
    "two kinds": [bridges(8), nvswitch(8)],
    "three sizes": [bridges(4), bridges(8), bridges(10, 2)],
}


def random_cluster(random: Random, kinds: list[LinkMatrix]) -> Cluster:
    """Up to 30 nodes in up to 4 racks; a third of them idle, as many with half of it taken."""
    cluster = Cluster()
    for number in range(random.randint(3, 30)):
        links, name = random.choice(kinds), f"n{number}"
        cluster.see_node(node(name, links.gpu_count, rack=f"r{random.randint(0, 3)}"))
        seen = topology(name, links)
        cluster.see_topology(seen.name, seen.links, seen.gpu_uuids)
        taken = random.choice([0, 0b1111, random.getrandbits(links.gpu_count)])
        indices = tuple(gpu for gpu in range(links.gpu_count) if taken >> gpu & 1)
        cluster.hold(JobId(name), [NodeShare(seen.name, indices)])
    return cluster


@pytest.mark.parametrize("kinds", KINDS.values(), ids=KINDS)
@pytest.mark.parametrize("size", [1, 2, 3, 4, 8])
def test_they_are_those_found_by_looking_at_every_node(kinds: list[LinkMatrix], size: int) -> None:
    found_count = 0
    for seed in range(25):
        random = Random(seed)
        cluster, wanted = random_cluster(random, kinds), shape(size, random.randint(2, 5))
        room = cluster.gpu_free.at_least[size]
        alike = alike_in(cluster, room)
        if room.bit_count() < wanted.node_count:
            continue
        nodes, masks = gangs(cluster, wanted, room, NO_ROWS)
        assert have_a_set_in_common(wanted, alike) == (len(masks) > 0)
        found = quiet_gangs(cluster, wanted, room, alike)
        assert found is not None
        assert [gang.rows for gang in found] == [tuple(rows) for rows in nodes.tolist()]
        assert [gang.mask for gang in found] == masks.tolist()
        found_count += bool(found)
        racks = cluster.rack_id[nodes]
        assert [gang.is_in_one_rack for gang in found] == (racks == racks[:, :1]).all(1).tolist()
        if found:
            features, scores = quiet_gang_features(cluster.tables, found)
            each, of_each = gang_parts(
                cluster, nodes.reshape(-1), np.repeat(masks, wanted.node_count)
            )
            mean = each.reshape(*nodes.shape, -1).mean(axis=1)
            assert np.delete(features, 2, axis=1).tolist() == np.delete(mean, 2, axis=1).tolist()
            assert scores.tolist() == of_each.reshape(nodes.shape).sum(axis=1).tolist()
    assert found_count > 5


def test_many_index_sets_are_left_to_those_who_look_at_every_node() -> None:
    """C(16, 8) = 12,870 sets to compare."""
    cluster = Cluster()
    for name in ("a", "b"):
        cluster.see_node(node(name, 16))
    cluster.hold(JobId("1"), [NodeShare(node("a").name, (0,))])
    room = cluster.gpu_free.at_least[8]
    alike = alike_in(cluster, room)
    assert have_a_set_in_common(shape(8, 2), alike)
    assert quiet_gangs(cluster, shape(8, 2), room, alike) is None
    assert len(find_candidates(cluster, job("1"), shape(8, 2)))


def test_the_choice_is_explained_by_what_was_so_then() -> None:
    cluster, chooser = Cluster(), Chooser(HeuristicScore())
    for name in ("a", "b", "c"):
        cluster.see_node(node(name))
    cluster.hold(JobId("1"), [NodeShare(node("b").name, (6, 7))])
    candidates = find_candidates(cluster, job("2"), shape(6, 2))
    assert candidates
    assert len(candidates) == len(candidates.gangs) > 0
    placement, decision = chooser.choose(cluster, candidates, at_s=5.0)
    cluster.hold(JobId("2"), [NodeShare(name, placement.gpu_indices) for name in placement.nodes])
    assert decision.candidates[0] == placement
    assert decision.scores[0] == decision.scores.max()
    assert [len(share.gpu_indices) for share in decision.free_before] == [8, 6]
    assert [share.node for share in decision.free_before] == list(placement.nodes) == ["a", "b"]
    table = cluster.tables[0]
    assert decision.best_link_score == 2 * table.best_score(table.full_mask, 6)


def test_scores_of_gangs_are_bounded_in_number(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("roost_engine.scoring.scorer._TOP_LIMIT", 2)
    cluster, chooser = Cluster(), Chooser(HeuristicScore())
    for name in ("a", "b", "c"):
        cluster.see_node(node(name))
    for size in (2, 3, 2):
        candidates = find_candidates(cluster, job("2"), shape(size, 2))
        placement, decision = chooser.choose(cluster, candidates, at_s=0.0)
        assert placement == decision.candidates[0]


def test_rows_with_the_same_gpus_free_are_together() -> None:
    cluster = Cluster()
    for name in ("a", "b", "c"):
        cluster.see_node(node(name))
    cluster.hold(JobId("1"), [NodeShare(node("b").name, (0,))])
    there = {free: rows_in(rows) for _, free, rows in alike_in(cluster, 0b111)}
    assert there == {0xFF: [0, 2], 0xFE: [1]}
    assert alike_in(cluster, 0b010) == [(0, 0xFE, 0b010)]
