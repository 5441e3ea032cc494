import pytest

from roost_engine.agents.split import Split
from roost_engine.agents.team import BORROWS
from roost_engine.cluster.cluster import Cluster
from roost_engine.cluster.node_sets import EVERY_NODE
from roost_engine.testing.builders import node


def cluster_of(*racks: str) -> Cluster:
    cluster = Cluster()
    for number, rack in enumerate(racks):
        cluster.apply_node(node(f"n{number}", 8, rack=rack))
    return cluster


def test_every_node_has_one_agent() -> None:
    cluster = cluster_of(*(f"r{number % 7}" for number in range(40)))
    parts = Split.of(cluster, 3).parts
    assert sum(parts) == (1 << 40) - 1
    assert all(not a & b for a in parts for b in parts if a is not b)


def test_racks_stay_whole_and_pods_together() -> None:
    cluster = cluster_of("p1/a", "p2/a", "p1/b", "p2/b")
    assert Split.of(cluster, 2).parts == (0b0101, 0b1010)


def test_parts_have_about_as_many_gpus() -> None:
    cluster = cluster_of(*(f"r{number:02d}" for number in range(10) for _ in range(number + 1)))
    counts = [part.bit_count() for part in Split.of(cluster, 4).parts]
    assert sum(counts) == 55
    assert max(counts) - min(counts) <= 10  # the largest rack


def test_the_order_in_which_nodes_came_makes_no_difference() -> None:
    first, second = cluster_of("a", "b", "c", "c"), cluster_of("c", "b", "c", "a")
    names = [
        [
            {cluster.names[at] for at in range(4) if part >> at & 1}
            for part in Split.of(cluster, 2).parts
        ]
        for cluster in (first, second)
    ]
    racks = [
        [{cluster.specs[cluster.index_of[name]].rack for name in part} for part in parts]  # type: ignore[union-attr]
        for cluster, parts in zip((first, second), names, strict=True)
    ]
    assert racks[0] == racks[1] == [{"a", "b"}, {"c"}]


@pytest.mark.parametrize("agents", [1, 2, 5])
def test_more_agents_than_racks_leave_some_without_nodes(agents: int) -> None:
    parts = Split.of(cluster_of("a", "a"), agents).parts
    assert len(parts) == agents
    assert sorted(parts)[-1] == 0b11


def test_a_job_that_borrows_may_have_every_node() -> None:
    split = Split.of(cluster_of("a", "b"), 2)
    assert split.nodes_of(BORROWS) == EVERY_NODE
    assert split.nodes_of(1) == 0b10


def test_without_gpus_racks_are_shared_by_number() -> None:
    cluster = Cluster()
    for rack in "abcd":
        cluster.apply_node(node(f"n{rack}", 17, rack=rack))  # more GPUs than a node may have
    assert Split.of(cluster, 2).parts == (0b0011, 0b1100)
