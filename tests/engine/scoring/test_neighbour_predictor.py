"""roost_engine.scoring.neighbour_predictor: the cost to a job that runs, and nothing changed."""

import numpy as np
import pytest
from tests.engine.scoring.graph_cluster import cluster_of, question_of
from tests.engine.scoring.test_neighbours import scored, two_nodes

from roost_engine.domain.model import JobId, NodeName, NodeShare
from roost_engine.domain.tier import Tier
from roost_engine.scoring.neighbour_predictor import NeighbourPredictor


def nothing(job_id: JobId) -> None:
    """No other job is under Roost."""


def test_a_job_is_predicted_what_the_score_predicted_of_it() -> None:
    cluster, score = two_nodes(4, 4), scored()
    predictor = NeighbourPredictor(score.interference, score.neighbourhood.communicates)
    cluster.hold(JobId("9"), [NodeShare(NodeName("n0-0"), (4, 5), 1, 0)])
    found = predictor.predict(cluster, JobId("9"), nothing)
    assert found is not None
    assert found.mean == pytest.approx(1 / 8 * 3 / 16 * 4 / 6, rel=1e-4)
    assert found.beside == ((JobId("0"), "nic"),)
    assert found.spread == pytest.approx(0.05)
    assert found.tier is Tier.NODE


def test_a_job_without_neighbours_loses_nothing() -> None:
    found = scored().loss_of(two_nodes(4, 4), JobId("0"), nothing)
    assert found is not None
    assert (found.mean, found.beside) == (0.0, ())
    assert found.spread > 0


def test_a_job_that_holds_no_gpu_is_not_predicted() -> None:
    assert scored().loss_of(two_nodes(2, 2), JobId("7"), nothing) is None


def test_a_gang_waits_for_its_slowest_node() -> None:
    cluster = cluster_of([[2, 2]])
    both = [NodeShare(NodeName(f"n0-{at}"), (0, 1), 1, 0) for at in range(2)]
    cluster.hold(JobId("gang"), both)
    for at, gpus in enumerate(((2,), (2, 3, 4, 5))):
        cluster.hold(JobId(str(at)), [NodeShare(NodeName(f"n0-{at}"), gpus, 1, 0)])
    found = scored().loss_of(cluster, JobId("gang"), nothing)
    assert found is not None
    assert found.tier is Tier.RACK
    assert [job_id for job_id, _ in found.beside] == ["0", "1"]
    alone = scored().loss_of(cluster, JobId("0"), nothing)
    assert alone is not None
    assert found.mean > alone.mean


def test_the_score_s_own_watch_is_left_alone() -> None:
    cluster, score = two_nodes(4, 4), scored()
    score.score_within(question_of(cluster))
    cluster.release(JobId("0"))
    score.loss_of(cluster, JobId("1"), nothing)
    fresh, question = scored(), question_of(cluster)
    found = score.score_within(question)
    assert np.array_equal(found, fresh.score_within(question_of(cluster)))
