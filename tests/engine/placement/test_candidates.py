"""what is offered, against brute force on small clusters."""

from itertools import combinations
from random import Random

import numpy as np
import pytest
from tests.engine.placement.listed import explained, masks_of, nodes_of

from roost_engine.cluster.cluster import Cluster
from roost_engine.cluster.features import COLUMN, COLUMNS
from roost_engine.cluster.link_table import indices_of
from roost_engine.domain.model import JobId, NodeName, NodeShare
from roost_engine.domain.topology import LinkMatrix
from roost_engine.placement.candidates import Candidates
from roost_engine.placement.search import find_candidates
from roost_engine.scoring.heuristic import HeuristicScore
from roost_engine.scoring.scorer import shortlist
from roost_engine.testing.builders import bridges, job, node, nvswitch, shape, topology


def cluster_of(free: dict[str, int], links: dict[str, LinkMatrix], racks: int = 1) -> Cluster:
    """Nodes with some of their GPUs free, by mask; dealt out to racks in turn."""
    cluster = Cluster()
    for position, (name, mask) in enumerate(free.items()):
        count = links[name].gpu_count
        cluster.apply_node(node(name, count, rack=f"r{position % racks}"))
        seen = topology(name, links[name])
        cluster.apply_topology(seen.name, seen.links, seen.gpu_uuids)
        taken = tuple(gpu for gpu in range(count) if not mask >> gpu & 1)
        cluster.hold(JobId(f"on-{name}"), [NodeShare(NodeName(name), taken)])
    return cluster


def one_kind(free: dict[str, int], links: LinkMatrix, racks: int = 1) -> Cluster:
    return cluster_of(free, dict.fromkeys(free, links), racks)


def check_consistent(cluster: Cluster, found: Candidates) -> None:
    """Every candidate is free, of the right size, and priced as its matrix says."""
    assert found.features.shape == (len(found), len(COLUMNS))
    assert ((found.features >= 0) & (found.features <= 1)).all()
    for position in range(len(found)):
        indices, mask = nodes_of(found)[position], masks_of(found)[position]
        assert len(set(indices)) == found.shape.node_count
        assert mask.bit_count() == found.shape.gpus_per_node
        assert all(mask & ~int(cluster.free_mask[index]) == 0 for index in indices)
        score = sum(cluster.table(index).links.score(indices_of(mask)) for index in indices)
        assert found.link_scores[position] == score


def test_a_one_node_job_is_offered_the_best_links_of_each_node() -> None:
    cluster = one_kind({"a": 0b11111111, "b": 0b00001110, "c": 0b10101010}, bridges())
    found = find_candidates(cluster, job("1", gpus=2), shape(2))
    check_consistent(cluster, found)
    offered = {
        (nodes[0], mask) for nodes, mask in zip(nodes_of(found), masks_of(found), strict=True)
    }
    pairs = {(0, 0b11), (0, 0b1100), (0, 0b110000), (0, 0b11000000), (1, 0b1100)}
    assert pairs <= offered
    assert all(mask != 0b0110 for _, mask in offered)
    assert found.tier == 0


def test_no_node_has_capacity() -> None:
    cluster = one_kind({"a": 0b111, "b": 0b1}, bridges())
    found = find_candidates(cluster, job("1", gpus=4), shape(4))
    assert len(found) == 0
    assert found.exclusions == (("too few free GPUs", 2),)


def test_the_best_few_nodes_of_many_are_offered() -> None:
    free = {f"n{i:02}": 0b11111111 for i in range(20)} | {"full": 0b11, "last": 0b11}
    cluster = one_kind(free, bridges())
    found = find_candidates(cluster, job("1", gpus=2), shape(2))
    nodes = {cluster.names[index] for (index,) in nodes_of(found)}
    assert {"full", "last"} <= nodes
    assert len(nodes) == 8


def test_the_quieter_of_equal_nodes_is_offered() -> None:
    cluster = one_kind({f"n{i:02}": 0xFF for i in range(20)}, bridges())
    for index, name in enumerate(cluster.names):
        busy = np.full((8, 4), 0.0 if index == 17 else 0.9, dtype=np.float32)
        cluster.apply_loads((name,), busy[None])
    found = find_candidates(cluster, job("1", gpus=2), shape(2))
    assert [17] in nodes_of(found)


def test_load_columns_average_the_neighbours() -> None:
    cluster = one_kind({"a": 0xFF}, bridges())
    load = np.zeros((8, 4), dtype=np.float32)
    load[:, 0] = [0.8, 0.8, 0.4, 0.0, 1.0, 1.0, 1.0, 1.0]
    cluster.apply_loads((NodeName("a"),), load[None])
    found = find_candidates(cluster, job("1", gpus=2), shape(2))
    position = masks_of(found).index(0b11)
    features = found.features[position]
    assert features[COLUMN["root_sm_frac"]] == pytest.approx(0.2)  # GPUs 2 and 3
    assert features[COLUMN["node_sm_frac"]] == pytest.approx((0.4 + 0 + 4) / 6)
    assert features[COLUMN["switch_sm_frac"]] == 0  # no GPU shares a switch
    assert features[COLUMN["load_known_frac"]] == 1


def test_spells_out_a_candidate() -> None:
    cluster = one_kind({"b": 0b1111, "a": 0b0011}, bridges())
    found = find_candidates(cluster, job("1", nodes=2, gpus=2), shape(2, 2))
    placement = found.placement(0)
    assert placement.nodes == ("a", "b")
    assert placement.gpu_indices == (0, 1)
    assert explained(found).best_link_score == 2 * 400
    assert explained(found).free_shares == (
        NodeShare(NodeName("b"), (0, 1, 2, 3)),
        NodeShare(NodeName("a"), (0, 1)),
    )


def brute_force(cluster: Cluster, indices: list[int], node_count: int, size: int) -> int | None:
    """The best link score of any nodes with any common index set; None when there is none."""
    best = None
    for nodes in combinations(indices, node_count):
        common = int(np.bitwise_and.reduce(cluster.free_mask[list(nodes)]))
        for chosen in combinations(indices_of(common), size):
            score = sum(cluster.table(index).links.score(chosen) for index in nodes)
            best = score if best is None else max(best, score)
    return best


def random_cluster(random: Random, kinds: list[LinkMatrix], racks: int) -> Cluster:
    names = [f"n{i}" for i in range(random.randint(3, 6))]
    links = {name: random.choice(kinds) for name in names}
    free = {name: random.getrandbits(links[name].gpu_count) for name in names}
    return cluster_of(free, links, racks)


@pytest.mark.parametrize(
    ("kinds", "seeds"),
    [
        ([bridges(8)], 60),
        ([bridges(8), nvswitch(8)], 60),
        ([bridges(4), bridges(8), bridges(10, 2)], 40),
        ([bridges(16), nvswitch(16, 6)], 12),
        ([bridges(16), bridges(8, 12)], 12),
    ],
    ids=["one kind", "two kinds", "three sizes", "16 GPUs", "8 and 16 GPUs"],
)
def test_gangs_are_the_brute_force_optimum(kinds: list[LinkMatrix], seeds: int) -> None:
    for seed in range(seeds):
        random = Random(seed)
        racks = random.choice([1, 2, 3])
        cluster = random_cluster(random, kinds, racks)
        node_count, size = random.choice([2, 2, 3]), random.choice([1, 2, 2, 3, 4])
        wanted = shape(size, node_count)
        found = find_candidates(cluster, job("1", wanted), wanted)
        check_consistent(cluster, found)
        optimum = brute_force(cluster, list(range(len(cluster))), node_count, size)
        assert (optimum is None) == (len(found) == 0), seed
        if optimum is not None:
            assert found.link_scores.max() == optimum, seed
        tiers = found.features[:, COLUMN["tier_frac"]]
        for rack in range(racks):
            indices = [index for index in range(len(cluster)) if cluster.racks.ids[index] == rack]
            in_rack = brute_force(cluster, indices, node_count, size)
            if in_rack is not None:
                here = (cluster.racks.ids[np.array(nodes_of(found))] == rack).all(axis=1)
                assert found.link_scores[here].max() == in_rack, seed
                assert (tiers[here] == 0.5).all()
                assert found.tier == 1


@pytest.mark.parametrize("seed", range(20))
def test_gangs_hold_the_required_nodes(seed: int) -> None:
    random = Random(seed)
    cluster = random_cluster(random, [bridges(8), nvswitch(8, 2)], racks=2)
    wanted, spec = shape(2, 3), job("1", gpus=2, nodes=3, required=["n1"])
    found = find_candidates(cluster, spec, wanted)
    check_consistent(cluster, found)
    with_it = [
        score
        for others in combinations([index for index in range(len(cluster)) if index != 1], 2)
        if (score := brute_force(cluster, [1, *others], 3, 2)) is not None
    ]
    assert bool(with_it) == (len(found) > 0)
    if with_it:
        assert all(1 in nodes for nodes in nodes_of(found))
        assert found.link_scores.max() == max(with_it)


def test_an_unknown_required_node_leaves_no_capacity() -> None:
    cluster = one_kind({"a": 0xFF, "b": 0xFF, "c": 0xFF}, bridges())
    for required in (["ghost"], ["ghost", "a"], ["a", "ghost", "b"]):
        found = find_candidates(cluster, job("1", nodes=3, required=required), shape(1, 3))
        assert len(found) == 0
        assert found.exclusions


def test_a_required_node_without_capacity_leaves_none() -> None:
    cluster = one_kind({"a": 0, "b": 0xFF, "c": 0xFF}, bridges())
    found = find_candidates(cluster, job("1", nodes=2, required=["a"]), shape(1, 2))
    assert len(found) == 0
    assert ("not in the job's node list", 2) in found.exclusions


def test_no_common_index_set_is_distinguished_from_no_capacity() -> None:
    cluster = one_kind({"a": 0b00001111, "b": 0b11110000}, bridges())
    found = find_candidates(cluster, job("1", nodes=2, gpus=2), shape(2, 2))
    assert found.exclusions == (("no index set is free on enough nodes", 2),)


def test_the_tightest_racks_are_offered_first() -> None:
    """Rack r0 has 4 free nodes, r1 just the 2 that are wanted."""
    cluster = Cluster()
    for name, rack in (
        ("a", "r0"),
        ("b", "r0"),
        ("c", "r0"),
        ("d", "r0"),
        ("e", "r1"),
        ("f", "r1"),
    ):
        cluster.apply_node(node(name, rack=rack))
    found = find_candidates(cluster, job("1", nodes=2, gpus=8), shape(8, 2))
    assert found.placement(0).nodes == ("e", "f")
    assert found.tier == 1


def test_a_gang_across_racks_takes_the_rack_with_most_capacity_first() -> None:
    cluster = Cluster()
    for name, rack in (("a", "r0"), ("b", "r1"), ("c", "r1"), ("d", "r1"), ("e", "r2")):
        cluster.apply_node(node(name, rack=rack))
    found = find_candidates(cluster, job("1", nodes=4, gpus=8), shape(8, 4))
    assert found.tier == 2
    assert set(found.placement(0).nodes) == {"a", "b", "c", "d"}


def test_gang_columns_are_the_mean_over_its_nodes() -> None:
    cluster = one_kind({"a": 0xFF, "b": 0b11}, bridges())
    busy = np.zeros((8, 4), dtype=np.float32)
    busy[:, 0] = 1.0
    cluster.apply_loads((NodeName("a"),), busy[None])
    found = find_candidates(cluster, job("1", nodes=2, gpus=2), shape(2, 2))
    assert len(found) == 1
    features = found.features[0]
    assert features[COLUMN["node_sm_frac"]] == pytest.approx(0.5)
    assert features[COLUMN["load_known_frac"]] == pytest.approx(0.5)
    assert features[COLUMN["leftover_frac"]] == pytest.approx((6 / 8 + 0) / 2)
    assert features[COLUMN["link_best_frac"]] == 1


@pytest.mark.parametrize("gpu_count", [1, 4, 6, 8, 10, 16])
def test_nodes_of_every_size_are_offered_whole(gpu_count: int) -> None:
    cluster = Cluster()
    cluster.apply_node(node("a", gpu_count))
    cluster.apply_node(node("b", gpu_count))
    for wanted in (shape(gpu_count), shape(gpu_count, 2)):
        found = find_candidates(cluster, job("1", wanted), wanted)
        check_consistent(cluster, found)
        assert len(found) > 0


@pytest.mark.parametrize("links", [bridges(8), nvswitch(8)], ids=["bridges", "NVSwitch"])
@pytest.mark.parametrize(("size", "left"), [(1, 0b1), (2, 0b11), (4, 0b1111), (1, 0b1111)])
def test_an_idle_node_is_not_broken_into_where_a_started_one_has_capacity(
    links: LinkMatrix, size: int, left: int
) -> None:
    cluster = one_kind({"idle": 0xFF, "started": left}, links)
    found = find_candidates(cluster, job("1", gpus=size), shape(size))
    best = int(np.argmax(HeuristicScore().score(found.features)))
    assert found.placement(best).nodes == ("started",)


def test_the_shortlist_has_the_best_of_every_node() -> None:
    """An idle NVSwitch node alone has 70 equal sets of four; the others must not be forgotten."""
    cluster = one_kind(dict.fromkeys("abc", 0xFF), nvswitch())
    found = find_candidates(cluster, job("1", gpus=4), shape(4))
    order = np.argsort(-HeuristicScore().score(found.features), kind="stable")
    nodes = found.listing().node
    short = shortlist(nodes, order, 16)
    assert len(short) == 16
    assert short[0] == order[0]
    assert set(nodes[short].tolist()) == {0, 1, 2}
    position = {candidate: at for at, candidate in enumerate(order.tolist())}
    assert sorted(short.tolist(), key=position.__getitem__) == short.tolist()
    assert shortlist(nodes, order[:5], 16).tolist() == order[:5].tolist()
