"""scorer: what is worked out late is what would have been worked out at once."""

from random import Random

import numpy as np
import pytest
from numpy.typing import NDArray

from roost_engine.cluster.cluster import Cluster
from roost_engine.cluster.features import HeuristicScore
from roost_engine.domain.model import JobId, NodeName
from roost_engine.placement.candidates import find_candidates
from roost_engine.policies import RowwiseScore
from roost_engine.scoring.scorer import Chooser
from roost_engine.testing.builders import bridges, job, node, nvswitch, shape, share


class Plain:
    """The heuristic, without the promise that it scores each candidate by itself."""

    name = HeuristicScore.name

    def score(self, features: NDArray[np.float32]) -> NDArray[np.float32]:
        return HeuristicScore().score(features)


def quiet_cluster(random: Random) -> Cluster:
    """Nodes of two kinds, partly taken; no probe has told a load."""
    cluster = Cluster()
    for number in range(24):
        name = f"n{number:02}"
        cluster.see_node(node(name))
        links = bridges() if number % 2 else nvswitch()
        cluster.see_topology(NodeName(name), links, ())
        taken = random.sample(range(8), random.randrange(9))
        cluster.hold(JobId(name), [share(name, *sorted(taken))])
    return cluster


@pytest.mark.parametrize("gpus", [1, 2, 3, 4, 8])
@pytest.mark.parametrize("seed", range(4))
def test_a_late_decision_is_the_one_that_was_made(seed: int, gpus: int) -> None:
    cluster, wanted = quiet_cluster(Random(seed)), shape(gpus)
    candidates = find_candidates(cluster, job("1", wanted), wanted)
    placement, late = Chooser(HeuristicScore()).choose(cluster, candidates, 5.0)
    chosen, made = Chooser(Plain()).choose(cluster, candidates, 5.0)
    for name in list(cluster.names):  # what comes later must not show
        cluster.hold(JobId(name), [share(name, *range(8))])
        cluster.see_topology(name, bridges(), ())
    assert placement == chosen == late.candidates[0]
    assert (late.at_s, late.candidates, late.policy) == (5.0, made.candidates, made.policy)
    assert (late.exclusions, late.free_before) == (made.exclusions, made.free_before)
    assert late.best_link_score == made.best_link_score
    for ours, theirs in (
        (late.features, made.features),
        (late.scores, made.scores),
        (late.link_scores, made.link_scores),
    ):
        assert ours.dtype == theirs.dtype
        assert ours.tobytes() == theirs.tobytes()


def test_a_promise_that_is_not_made_is_not_relied_on() -> None:
    assert isinstance(HeuristicScore(), RowwiseScore)
    assert not isinstance(Plain(), RowwiseScore)


def test_interchangeable_nodes_are_scored_once() -> None:
    class Counting(HeuristicScore):
        call_count = 0

        def score(self, features: NDArray[np.float32]) -> NDArray[np.float32]:
            self.call_count += 1
            return super().score(features)

    cluster, wanted, policy = Cluster(), shape(2), Counting()
    for number in range(20):
        cluster.see_node(node(f"n{number:02}"))
    chooser = Chooser(policy)
    for number in range(10):
        candidates = find_candidates(cluster, job("1", wanted), wanted)
        placement, _ = chooser.choose(cluster, candidates, 0.0)
        assert placement.nodes == (f"n{number:02}",)
        cluster.hold(JobId(f"{number}"), [share(f"n{number:02}", *range(8))])
    assert policy.call_count == 1


def test_where_a_load_is_told_the_decision_is_made_at_once() -> None:
    cluster, wanted = quiet_cluster(Random(1)), shape(1)
    load = np.full((8, 4), 0.5, dtype=np.float32)
    for name in cluster.names:
        cluster.see_load(name, load)
    candidates = find_candidates(cluster, job("1", wanted), wanted)
    assert candidates.choices == ()
    _, decision = Chooser(HeuristicScore()).choose(cluster, candidates, 0.0)
    assert decision.features[:, -1].tolist() == [1.0] * len(decision.candidates)
