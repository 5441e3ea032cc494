import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.engine.scoring.graph_cluster import cluster_of, occupy, talks, unknown

from roost_engine.cluster.cluster import Cluster
from roost_engine.domain.model import JobId, NodeName
from roost_engine.scoring.graph_columns import GPU_COLUMNS, NODE_COLUMNS, RACK_COLUMNS
from roost_engine.scoring.graph_features import ClusterGraph
from roost_engine.testing.builders import node, share


def fresh(cluster: Cluster) -> ClusterGraph:
    graph = ClusterGraph(talks)
    cluster.watch_again()
    graph.refresh(cluster, unknown)
    return graph


def gpu(graph: ClusterGraph, cluster: Cluster, name: str) -> dict[str, list[float]]:
    at = cluster.index_of[NodeName(name)]
    rows = graph.gpu_rows(cluster, np.array([at]), int(cluster.kind[at]))
    return {column: rows[:, position].tolist() for position, column in enumerate(GPU_COLUMNS)}


def test_held_gpus_show_the_duty_of_their_job() -> None:
    cluster = cluster_of([[2]])
    cluster.hold(JobId("1"), [share("n0-0", 0, 1)])
    rows = gpu(fresh(cluster), cluster, "n0-0")
    assert rows["free"] == [0, 0, 1, 1, 1, 1, 1, 1]
    assert rows["held"] == [1, 1, 0, 0, 0, 0, 0, 0]
    assert rows["duty_frac"][:3] == pytest.approx([0.125, 0.125, 0])
    assert rows["far_duty_frac"][2] == pytest.approx(0.25 / 7)


def test_a_job_on_one_node_with_nvlink_uses_nothing_shared() -> None:
    cluster = cluster_of([[0]])
    cluster.hold(JobId("1"), [share("n0-0", 0, 1)])
    assert not any(gpu(fresh(cluster), cluster, "n0-0")["duty_frac"])


def test_load_is_seen_and_makes_the_node_changed() -> None:
    cluster = cluster_of([[0, 2]])
    graph = fresh(cluster)
    load = np.tile(np.array([0.5, 0, 63e9, 0], dtype=np.float32), (8, 1))
    cluster.apply_loads((NodeName("n0-1"),), load[None])
    assert graph.refresh(cluster, unknown).tolist() == [1]
    rows = gpu(graph, cluster, "n0-1")
    assert rows["sm_frac"] == [0.5] * 8
    assert rows["link_frac"] == [0.5] * 8
    assert graph.refresh(cluster, unknown).tolist() == []


def test_what_is_free_for_a_trial_only_is_seen_during_it_and_no_longer() -> None:
    cluster = cluster_of([[2]])
    cluster.hold(JobId("1"), [share("n0-0", 0, 1)])
    graph = fresh(cluster)

    def free() -> list[float]:
        graph.refresh(cluster, unknown)
        return gpu(graph, cluster, "n0-0")["free"]

    assert free() == [0, 0, 1, 1, 1, 1, 1, 1]
    with cluster.without([JobId("1")]):
        assert free() == [1, 1, 1, 1, 1, 1, 1, 1]
    assert free() == [0, 0, 1, 1, 1, 1, 1, 1]
    cluster.set_foreign_memory(NodeName("n0-0"), 7, 1 << 30)
    with cluster.foreign.withheld():
        assert free() == [0, 0, 1, 1, 1, 1, 1, 0]
    assert free() == [0, 0, 1, 1, 1, 1, 1, 1]


def test_racks_and_pods_sum_their_nodes() -> None:
    cluster = cluster_of([[0, 0], [0]])
    cluster.hold(JobId("1"), [share("n0-0", *range(8)), share("n1-0", *range(4))])
    graph = fresh(cluster)
    racks = dict(zip(RACK_COLUMNS, graph.racks.T.tolist(), strict=True))
    assert racks["free_frac"] == [0.5, 0.5]
    assert racks["idle_frac"] == [0.5, 0]
    across = talks(None, 12).across_frac
    assert racks["crossing_frac"][1] == pytest.approx(across / (1 + across))
    assert graph.pod_count == 2
    assert graph.pods[:, 0].tolist() == [0.5, 0.5]


def test_racks_without_a_pod_are_in_one() -> None:
    cluster = Cluster()
    for name in "ab":
        cluster.apply_node(node(name, 8, rack=name))
    assert fresh(cluster).pod_ids.tolist() == [0, 0]


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 1 << 16), steps=st.integers(1, 6))
def test_incremental_features_equal_those_from_scratch(seed: int, steps: int) -> None:
    rng = np.random.default_rng(seed)
    cluster = cluster_of([[0, 1], [2, 2, 1], [0]])
    graph = ClusterGraph(talks)
    for step in range(steps):
        occupy(cluster, rng, int(rng.integers(0, 4)), first=10 * step)
        held = list(cluster.held_jobs())
        if held:
            cluster.release(held[int(rng.integers(len(held)))])
        if rng.random() < 0.3:
            name = sorted(cluster.index_of)[int(rng.integers(6))]
            cluster.apply_loads((name,), rng.random((8, 4)).astype(np.float32)[None])
        if rng.random() < 0.2:  # a node moves to another rack
            cluster.apply_node(node("n0-0", 8, cpu_count=64, rack=f"p1/r{rng.integers(3)}"))
        graph.refresh(cluster, unknown)
    again = fresh(cluster)
    every = np.arange(len(cluster))
    assert np.array_equal(graph.node_rows(every), again.node_rows(every))
    assert np.array_equal(graph.racks, again.racks)
    assert np.array_equal(graph.pods, again.pods)
    for kind in range(len(cluster.tables)):
        nodes = np.flatnonzero(cluster.kind[: len(cluster)] == kind)
        if len(nodes):
            one, other = (g.gpu_rows(cluster, nodes, kind) for g in (graph, again))
            assert np.allclose(one, other, atol=1e-6)


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 1 << 16))
def test_every_number_is_a_fraction(seed: int) -> None:
    cluster = cluster_of([[0, 1, 2], [2]])
    occupy(cluster, np.random.default_rng(seed), 8)
    graph = fresh(cluster)
    parts = [graph.node_rows(np.arange(4)), graph.racks, graph.pods]
    for kind in np.unique(cluster.kind[:4]).tolist():
        nodes = np.flatnonzero(cluster.kind[:4] == kind)
        parts.append(graph.gpu_rows(cluster, nodes, kind))
    assert all(((part >= 0) & (part <= 1)).all() for part in parts)
    assert parts[0].shape[1] == len(NODE_COLUMNS)
