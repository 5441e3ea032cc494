import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.engine.scoring.graph_cluster import cluster_of, occupy, talks, unknown

from roost_engine.domain.errors import PolicyError
from roost_engine.domain.model import JobId
from roost_engine.scoring import graph_columns as names
from roost_engine.scoring.graph_tree import GraphTree, batch_of
from roost_engine.testing.builders import share
from roost_engine.testing.graph_model import DrawnGraph

MANY = [[0, 1], [2, 2, 1], *([[0, 2, 1, 1]] * 8)]  # more nodes than one call computes again


def assert_same(one: GraphTree, other: GraphTree) -> None:
    for level in ("gpus", "nodes", "racks", "pods", "cluster"):
        assert np.allclose(getattr(one, level), getattr(other, level), atol=1e-5), level


def test_a_call_has_every_input_and_no_items_of_other_levels() -> None:
    batch = batch_of({names.NODES: np.zeros((3, len(names.NODE_COLUMNS)), dtype=np.float32)})
    assert set(batch) == set(names.INPUT_SIZES)
    assert batch[names.GPUS].shape == (0, len(names.GPU_COLUMNS))
    assert batch[names.GPU_SHARES].shape == (3, 0)
    assert batch[names.NODE_SHARES].shape == (0, 3)


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 1 << 16), steps=st.integers(1, 5))
def test_incremental_embeddings_equal_those_from_scratch(seed: int, steps: int) -> None:
    rng, model = np.random.default_rng(seed), DrawnGraph(seed)
    cluster = cluster_of(MANY)
    tree = GraphTree(model, talks)
    for step in range(steps):
        occupy(cluster, rng, int(rng.integers(0, 3)), first=10 * step)
        tree.refresh(cluster, unknown)
    again = GraphTree(model, talks)
    cluster.watch_again()
    again.refresh(cluster, unknown)
    assert_same(tree, again)


def test_one_changed_node_takes_one_call_with_its_gpus_alone() -> None:
    model = DrawnGraph()
    cluster, tree = cluster_of(MANY), GraphTree(model)
    tree.refresh(cluster, unknown)
    model.calls.clear()
    cluster.hold(JobId("1"), [share("n3-1", 0, 1)])
    tree.refresh(cluster, unknown)
    (call,) = model.calls
    assert call[names.GPUS].shape[0] == 8
    assert call[names.RACKS].shape[0] == 1
    tree.refresh(cluster, unknown)
    assert len(model.calls) == 1


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 1 << 16), order=st.permutations(range(9)))
def test_embeddings_follow_the_nodes_into_any_order(seed: int, order: list[int]) -> None:
    racks = [[0, 1, 1], [2, 2], [0, 0, 2, 1]]
    trees = []
    clusters = cluster_of(racks), cluster_of(racks, order)
    for cluster in clusters:
        occupy(cluster, np.random.default_rng(seed), 5)
        trees.append(GraphTree(DrawnGraph(1), talks))
        trees[-1].refresh(cluster, unknown)
    for name in clusters[0].index_of:
        one, other = (each.index_of[name] for each in clusters)
        assert np.allclose(trees[0].nodes[one], trees[1].nodes[other], atol=1e-5)
        assert np.allclose(trees[0].gpus[one], trees[1].gpus[other], atol=1e-5)
        racks_of = [each.rack_of[at] for each, at in zip(clusters, (one, other), strict=True)]
        assert np.allclose(trees[0].racks[racks_of[0]], trees[1].racks[racks_of[1]], atol=1e-5)
    assert np.allclose(trees[0].cluster, trees[1].cluster, atol=1e-5)


def test_an_empty_rack_elsewhere_changes_no_other_rack() -> None:
    trees = []
    for racks in ([[0, 1], [2]], [[0, 1], [2], [], [0]]):
        cluster = cluster_of(racks)
        cluster.hold(JobId("1"), [share("n0-0", 0, 1, 2)])
        trees.append(GraphTree(DrawnGraph(2), talks))
        trees[-1].refresh(cluster, unknown)
    assert np.allclose(trees[0].nodes, trees[1].nodes[:3], atol=1e-6)
    assert np.allclose(trees[0].racks, trees[1].racks[:2], atol=1e-6)
    assert not np.allclose(trees[0].cluster, trees[1].cluster, atol=1e-6)  # its mean does


def test_what_could_not_be_computed_is_computed_by_the_next_call() -> None:
    model = DrawnGraph()
    cluster, tree = cluster_of(MANY), GraphTree(model)
    tree.refresh(cluster, unknown)
    cluster.hold(JobId("1"), [share("n3-1", 0, 1)])
    model.fails = PolicyError("no")
    with pytest.raises(PolicyError, match="no"):
        tree.refresh(cluster, unknown)
    model.fails = None
    tree.refresh(cluster, unknown)
    again = GraphTree(model)
    cluster.watch_again()
    again.refresh(cluster, unknown)
    assert_same(tree, again)
