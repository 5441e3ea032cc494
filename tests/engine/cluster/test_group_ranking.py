"""group_ranking: nodes by the score of the best subset of their free GPUs."""

from math import inf
from random import Random

import pytest

from roost_engine.cluster.cluster import Cluster
from roost_engine.cluster.link_table import MAX_GPUS
from roost_engine.cluster.node_sets import NodeSet, node_set, nodes_in
from roost_engine.domain.model import JobId, NodeName
from roost_engine.domain.topology import LinkMatrix
from roost_engine.testing.builders import bridges, node, nvswitch, share, topology


def add_node(cluster: Cluster, name: str, free: list[int], links: LinkMatrix) -> None:
    cluster.apply_node(node(name, links.gpu_count))
    cluster.apply_topology(NodeName(name), links, topology(name, links).gpu_uuids)
    taken = [gpu for gpu in range(links.gpu_count) if gpu not in free]
    cluster.hold(JobId(f"on-{name}"), [share(name, *taken)])


def cluster_of(*free: list[int], links: LinkMatrix | None = None) -> Cluster:
    """Nodes n0, n1, ... with these GPUs free."""
    cluster = Cluster()
    for number, gpus in enumerate(free):
        add_node(cluster, f"n{number}", gpus, links or bridges())
    return cluster


def best(cluster: Cluster, gpu_count: int, nodes: NodeSet, count: int) -> list[int]:
    """Node indices of the best nodes, group by group."""
    groups = cluster.ranking(gpu_count).best(nodes, count)
    for ranked, chosen in groups:
        assert chosen, "a group without a chosen node"
        assert chosen & ~ranked.group.nodes == 0, "a node of another group"
    return [node for _, chosen in groups for node in nodes_in(chosen)]


def score(cluster: Cluster, node: int, gpu_count: int) -> float:
    return cluster.table(node).choice(int(cluster.free_mask[node]), gpu_count).best_static_score


def test_linked_gpus_come_before_unlinked_ones_and_a_full_node_before_an_idle_one() -> None:
    #             no bridge; idle; one bridge and no more
    cluster = cluster_of([0, 2], list(range(8)), [0, 1])
    assert best(cluster, 2, 0b111, 3) == [2, 1, 0]
    assert best(cluster, 2, 0b111, 1) == [2]
    assert best(cluster, 2, 0b011, 2) == [1, 0]


def test_of_groups_with_one_score_the_lower_node_indices_are_chosen() -> None:
    # Bridges 0-1 and 2-3 are alike: nodes 0 and 3 are of one group, 1 and 2 of another.
    cluster = cluster_of([2, 3], [0, 1], [0, 1], [2, 3])
    assert len({score(cluster, index, 2) for index in range(4)}) == 1
    assert cluster.groups[0] is not cluster.groups[1]
    for count in range(1, 5):
        assert sorted(best(cluster, 2, 0b1111, count)) == list(range(count))
    assert sorted(best(cluster, 2, 0b1110, 2)) == [1, 2]


def test_no_nodes_and_too_few_nodes() -> None:
    cluster = cluster_of([0, 1], [0, 2])
    assert best(cluster, 2, 0, 3) == []
    assert best(cluster, 2, 0b11, 5) == [0, 1]


def test_a_group_that_appears_after_the_first_search_is_ranked() -> None:
    cluster = cluster_of([0, 2], [1, 3])
    assert best(cluster, 2, 0b11, 1) == [0]
    cluster.hold(JobId("on-n1"), [share("n1", *range(2, 8))])  # leaves bridge 0-1 free
    assert best(cluster, 2, 0b11, 1) == [1]
    add_node(cluster, "n2", [0, 1], nvswitch())  # a node of another kind, with more lanes
    assert best(cluster, 2, 0b111, 3) == [2, 1, 0]


def test_scores_are_by_group_and_minus_infinity_where_too_few_gpus_are_free() -> None:
    cluster = cluster_of([0], [0, 1], [], [0, 2, 4])
    scores = cluster.ranking(2).scores()
    found = [float(scores[cluster.groups[index].number]) for index in range(4)]
    linked, unlinked = score(cluster, 1, 2), score(cluster, 3, 2)
    assert found == [-inf, pytest.approx(linked), -inf, pytest.approx(unlinked)]
    assert unlinked < linked


def test_scores_of_more_groups_than_the_first_array_holds() -> None:
    links = nvswitch()
    free = [[gpu for gpu in range(8) if mask >> gpu & 1] for mask in range(1, 200)]
    cluster = cluster_of(*free[:3], links=links)
    ranking = cluster.ranking(3)
    groups = cluster.groups.groups
    assert (ranking.scores()[len(groups) :] == -inf).all()
    assert len(groups) < 64
    for number, gpus in enumerate(free[3:], start=3):
        add_node(cluster, f"n{number}", gpus, links)
    scores = ranking.scores()
    for index, gpus in enumerate(free):
        expected = score(cluster, index, 3) if len(gpus) >= 3 else -inf
        assert scores[cluster.groups[index].number] == pytest.approx(expected)
    assert len(groups) > 128
    assert (scores[len(groups) :] == -inf).all()


@pytest.mark.parametrize("gpu_count", [1, 2, 3, 4])
def test_the_chosen_nodes_are_those_of_a_sort_of_all_nodes(gpu_count: int) -> None:
    for seed in range(20):
        random, cluster = Random(seed), Cluster()
        for number in range(random.randint(1, 40)):
            links = random.choice([bridges(8), nvswitch(8), bridges(4)])
            taken = random.choice([0, 0b11, 0b1100, random.getrandbits(MAX_GPUS)])
            free = [gpu for gpu in range(links.gpu_count) if not taken >> gpu & 1]
            add_node(cluster, f"n{number}", free, links)
        capacity = nodes_in(cluster.gpu_free.at_least[gpu_count])
        some = sorted(random.sample(capacity, random.randint(0, len(capacity))))
        expected = sorted(some, key=lambda index: (-score(cluster, index, gpu_count), index))
        for count in (1, 3, 8, 50):
            found = best(cluster, gpu_count, node_set(some), count)
            assert sorted(found) == sorted(expected[:count])
            scores = [score(cluster, index, gpu_count) for index in found]
            assert scores == sorted(scores, reverse=True)
