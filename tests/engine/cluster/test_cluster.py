"""cluster: what is known of nodes."""

import numpy as np
import pytest

from roost_engine.cluster.cluster import Cluster
from roost_engine.cluster.link_table import MAX_GPUS
from roost_engine.cluster.node_sets import NO_NODES
from roost_engine.domain.model import GpuUuid, JobId, NodeName, NodeSpec
from roost_engine.domain.topology import LinkMatrix
from roost_engine.testing.builders import bridges, node, nvswitch, share, topology

A, B = NodeName("a"), NodeName("b")


def cluster_of(*nodes: NodeSpec, links: LinkMatrix | None = None) -> Cluster:
    cluster = Cluster()
    for spec in nodes:
        cluster.apply_node(spec)
        if links is not None:
            seen = topology(spec.name, links)
            cluster.apply_topology(seen.name, seen.links, seen.gpu_uuids)
    cluster.check_invariants()
    return cluster


def load(gpu_count: int, value: float) -> np.ndarray[tuple[int, int], np.dtype[np.float32]]:
    return np.full((gpu_count, 4), value, dtype=np.float32)


def test_a_node_changes() -> None:
    cluster = cluster_of(node("a", features=["a100"]))
    cluster.hold(JobId("1"), [share("a", 0, cpu_count=10)])
    assert not cluster.apply_node(node("a", features=["a100"]))
    assert not cluster.apply_node(node("a", features=["a100"], usable=False))
    assert not cluster.usable[0]
    assert cluster.free_count() == 0
    assert cluster.apply_node(node("b", 4))
    assert cluster.free_count() == 4  # of the usable one
    cluster.remove_node(NodeName("b"))
    assert cluster.apply_node(node("a", cpu_count=32, partitions=["debug"], features=["h100"]))
    assert cluster.cpu_free[0] == 22
    assert cluster.free_count() == 7
    assert [cluster.members(*key)[:1].tolist() for key in MEMBERSHIPS] == [[False], [True]] * 2
    cluster.check_invariants()


MEMBERSHIPS = (
    ("partition", "main"),
    ("partition", "debug"),
    ("feature", "a100"),
    ("feature", "h100"),
)


def test_an_unknown_label_has_no_nodes() -> None:
    assert cluster_of(node("a"), node("b")).members("feature", "x").tolist() == [False, False]


def test_a_lost_node_offers_nothing_until_it_is_seen_again() -> None:
    cluster = cluster_of(node("a"), links=bridges())
    cluster.hold(JobId("1"), [share("a", 0, cpu_count=2)])
    cluster.remove_node(A)
    cluster.remove_node(A)
    cluster.remove_node(NodeName("ghost"))
    assert cluster.free_count() == 0
    assert cluster.members("partition", "main").tolist() == [False]
    cluster.check_invariants()
    assert cluster.apply_node(node("a"))
    assert cluster.free_mask[0] == 0b11111110
    assert cluster.cpu_free[0] == 62
    cluster.check_invariants()


def test_nodes_of_one_matrix_share_a_table() -> None:
    cluster = cluster_of(node("a"), node("b"), links=bridges())
    assert cluster.table(0) is cluster.table(1)
    cluster.apply_topology(B, nvswitch(), ())
    assert cluster.table(0) is not cluster.table(1)
    assert [table.gpu_count for table, _ in cluster.by_kind(np.array([1, 0, 1]))] == [8, 8]


def test_the_tables_of_links_that_no_node_has_any_more_take_no_memory() -> None:
    cluster = cluster_of(node("a"), node("b"), links=nvswitch(8))
    table = cluster.table(cluster.index_of[A])
    before, choice = table.best_scores.copy(), table.choice(0b1111, 2)

    cluster.apply_topology(A, bridges(8), ())
    assert "best_scores" in vars(table)
    cluster.apply_topology(B, bridges(8), ())

    assert not any(isinstance(value, np.ndarray) for value in vars(table).values())
    np.testing.assert_array_equal(table.best_scores, before)  # a decision of that time may ask
    np.testing.assert_array_equal(table.choice(0b1111, 2).masks, choice.masks)


def test_a_topology_must_agree_with_slurm() -> None:
    cluster = cluster_of(node("a"), links=bridges())
    assert not cluster.apply_topology(A, bridges(4), ())
    assert not cluster.apply_topology(NodeName("ghost"), bridges(), ())
    assert cluster.table(0).links == bridges()
    cluster.remove_node(A)
    assert not cluster.apply_topology(A, bridges(), ())


def test_another_gpu_count_forgets_what_the_probe_said() -> None:
    cluster = cluster_of(node("a"), links=nvswitch())
    assert cluster.uuids[0][0] == GpuUuid("GPU-a-0")
    cluster.apply_loads((A,), load(8, 1.0)[None])
    cluster.apply_node(node("a", 4))
    assert cluster.uuids[0] == ()
    assert cluster.loads.mean[0] == cluster.loads.known_frac[0] == 0
    assert cluster.table(0).gpu_count == 4
    assert cluster.free_mask[0] == 0b1111


@pytest.mark.parametrize("gpu_count", [0, MAX_GPUS + 1])
def test_nodes_without_gpus_or_with_too_many_are_never_offered(gpu_count: int) -> None:
    cluster = cluster_of(node("a", gpu_count))
    cluster.hold(JobId("1"), [share("a", 0, 15, 16, cpu_count=3)])
    assert cluster.free_count() == 0
    assert not cluster.usable[0]
    assert cluster.cpu_free[0] == 61
    assert not cluster.apply_loads((A,), np.zeros((gpu_count, 4), dtype=np.float32)[None])
    cluster.check_invariants()


def test_faults_take_gpus_away_and_give_them_back() -> None:
    cluster = cluster_of(node("a"))
    cluster.take_freed_nodes()
    assert cluster.set_fault(A, 3, "XID 79")
    assert not cluster.set_fault(A, 3, "XID 79")
    assert cluster.free_mask[0] == 0b11110111
    assert cluster.take_freed_nodes() == NO_NODES
    assert cluster.set_fault(A, 3, "")
    assert not cluster.set_fault(A, 3, "")
    assert cluster.take_freed_nodes() == 0b01
    assert not cluster.set_fault(A, 8, "XID 79")
    assert not cluster.set_fault(NodeName("ghost"), 0, "XID 79")


def test_load_is_taken_in() -> None:
    cluster = cluster_of(node("a"), node("b", 4))
    assert cluster.apply_loads((A,), load(8, np.nan)[None])
    assert cluster.loads.known_frac[0] == 0
    half = load(4, np.nan)
    half[:2, 0] = 0.5
    assert cluster.apply_loads((B,), half[None])
    assert cluster.loads.known_frac[1] == 0.5
    assert cluster.loads.mean[1] == pytest.approx(2 * 0.5 / 16)
    assert not cluster.apply_loads((A,), load(4, 0.0)[None])
    assert not cluster.apply_loads((NodeName("ghost"),), load(8, 0.0)[None])


def test_of_several_nodes_the_load_of_those_that_fit_is_taken_in() -> None:
    cluster = cluster_of(node("a"), node("b", 4))
    loads = np.stack([load(8, 0.25), load(8, 0.5), load(8, 1.0)])
    assert cluster.apply_loads((NodeName("ghost"), A, B), loads) == 1
    assert cluster.loads.by_gpu[0, :8, 0].tolist() == [0.5] * 8


def test_a_load_that_is_not_of_the_named_nodes_is_left() -> None:
    cluster = cluster_of(node("a"), node("b"))
    for shape in ((8, 4), (1, 8, 4), (0,), (2, 8, 3)):
        assert cluster.apply_loads((A, B), np.ones(shape, dtype=np.float32)) == 0
    assert not cluster.loads.reported


def test_grows_beyond_its_first_arrays() -> None:
    cluster = cluster_of(*(node(f"n{i}", features=[f"f{i % 3}"]) for i in range(300)))
    cluster.hold(JobId("1"), [share("n299", 0)])
    assert len(cluster) == 300
    assert cluster.free_count() == 300 * 8 - 1
    assert cluster.members("feature", "f1").sum() == 100
    cluster.check_invariants()


def test_invariants_notice_a_drift() -> None:
    cluster = cluster_of(node("a"))
    cluster.hold(JobId("1"), [share("a", 0)])
    cluster.free_mask[0] = 0xFF
    with pytest.raises(AssertionError, match="free masks drifted"):
        cluster.check_invariants()
