import numpy as np
import pytest
from numpy.typing import NDArray
from tests.engine.scoring.graph_cluster import cluster_of, question_of, talks, unknown

from roost_engine.cluster.cluster import Cluster
from roost_engine.cluster.features import COLUMNS
from roost_engine.domain.model import JobId, NodeName
from roost_engine.policies.protocols import ScoreQuestion
from roost_engine.scoring.graph_candidates import Parts, candidate_rows, context_of
from roost_engine.scoring.graph_columns import CANDIDATE_COLUMNS, HIDDEN
from roost_engine.scoring.graph_features import ClusterGraph
from roost_engine.scoring.graph_tree import GraphTree
from roost_engine.testing.builders import share
from roost_engine.testing.graph_model import DrawnGraph


def rows_of(question: ScoreQuestion) -> dict[str, NDArray[np.float32]]:
    graph = ClusterGraph(talks)
    graph.refresh(question.cluster, unknown)
    parts = Parts.of(question)
    job = talks(question.job, question.candidates.shape.gpu_count)
    rows = candidate_rows(question, parts, graph, job)
    return {name: rows[:, at] for at, name in enumerate(CANDIDATE_COLUMNS)}


def on(question: ScoreQuestion, name: str) -> NDArray[np.bool_]:
    found: NDArray[np.bool_] = question.listing.node == question.cluster.index_of[NodeName(name)]
    return found


def busy() -> Cluster:
    cluster = cluster_of([[0, 2], [2]])
    cluster.hold(JobId("1"), [share("n0-1", 0, 1, 2, 3)])
    return cluster


def test_what_every_score_policy_reads_comes_first() -> None:
    question = question_of(busy())
    rows = rows_of(question)
    for at, name in enumerate(COLUMNS):
        assert np.array_equal(rows[name], question.features[:, at])


def test_neighbours_press_on_the_nodes_that_they_share() -> None:
    question = question_of(busy())
    rows = rows_of(question)
    duty = talks(None, 4).local_frac
    assert rows["graph_pressure_frac"][on(question, "n0-1")] == pytest.approx(4 * duty / 6)
    assert not rows["graph_pressure_frac"][on(question, "n1-0")].any()
    neighbours = rows["graph_neighbour_duty_frac"][on(question, "n0-1")]
    assert neighbours == pytest.approx(duty / (1 + duty))


def test_nvlink_between_all_gpus_leaves_a_job_without_duty() -> None:
    question = question_of(busy())
    rows = rows_of(question)
    assert not rows["graph_duty_frac"][on(question, "n0-0")].any()
    assert rows["graph_duty_frac"][on(question, "n1-0")] == pytest.approx(talks(None, 2).local_frac)


def test_idle_nodes_that_would_be_left_in_part_are_told() -> None:
    question = question_of(busy(), gpus=8)
    assert not rows_of(question)["graph_broken_frac"].any()
    question = question_of(busy())
    rows = rows_of(question)
    assert rows["graph_broken_frac"][on(question, "n1-0")].all()
    assert not rows["graph_broken_frac"][on(question, "n0-1")].any()


def test_only_candidates_across_racks_use_uplinks() -> None:
    cluster = cluster_of([[2, 2], [2, 2]])
    cluster.hold(JobId("1"), [share("n0-0", 0, 1), share("n1-0", 0, 1)])
    question = question_of(cluster, gpus=4, nodes=2)
    rows, tiers = rows_of(question), Parts.of(question).tier
    across = talks(None, 4).across_frac / 2  # the rack's two ports
    assert set(tiers.tolist()) == {1, 2}
    assert rows["graph_uplink_frac"][tiers == 2] == pytest.approx(across / (1 + across))
    assert (rows["graph_pod_uplink_frac"][tiers == 2] > 0).all()
    assert not rows["graph_uplink_frac"][tiers == 1].any()
    assert rows["graph_racks_frac"][tiers == 2] == pytest.approx(1 / 6)


def test_context_is_the_mean_of_what_is_taken() -> None:
    cluster = cluster_of([[2, 2], [2, 2]])
    question = question_of(cluster, gpus=4, nodes=2)
    tree, parts = GraphTree(DrawnGraph(), talks), Parts.of(question)
    tree.refresh(cluster, unknown)
    context = context_of(cluster, tree, parts).reshape(len(parts.begins), -1, HIDDEN)
    first = parts.candidate == 0
    nodes, masks = parts.node[first], parts.mask[first]
    taken = [
        tree.gpus[n, g] for n, m in zip(nodes, masks, strict=True) for g in range(8) if m >> g & 1
    ]
    assert np.allclose(context[0, 0], np.mean(taken, axis=0), atol=1e-6)
    assert np.allclose(context[0, 1], tree.nodes[nodes].mean(axis=0), atol=1e-6)
    assert np.allclose(context[0, 2], tree.racks[cluster.racks.ids[nodes]].mean(axis=0), atol=1e-6)
    assert np.allclose(context[0, 4], tree.cluster)
