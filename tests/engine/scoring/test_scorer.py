"""scorer: what is computed later is what would have been computed at once."""

from random import Random

import numpy as np
import pytest
from numpy.typing import NDArray

from roost_engine.cluster.cluster import Cluster
from roost_engine.domain.model import JobId, NodeName
from roost_engine.placement.search import find_candidates
from roost_engine.policies.protocols import RowwiseScore
from roost_engine.scoring.heuristic import HeuristicScore
from roost_engine.scoring.scorer import Scorer
from roost_engine.testing.builders import bridges, job, node, nvswitch, shape, share


class Plain:
    """The heuristic, without the promise that it scores each candidate by itself."""

    name = HeuristicScore.name

    def score(self, features: NDArray[np.float32]) -> NDArray[np.float32]:
        return HeuristicScore().score(features)


def cluster_without_load(random: Random) -> Cluster:
    """Nodes of two kinds, partly taken; no probe has reported a load."""
    cluster = Cluster()
    for number in range(24):
        name = f"n{number:02}"
        cluster.apply_node(node(name))
        links = bridges() if number % 2 else nvswitch()
        cluster.apply_topology(NodeName(name), links, ())
        taken = random.sample(range(8), random.randrange(9))
        cluster.hold(JobId(name), [share(name, *sorted(taken))])
    return cluster


@pytest.mark.parametrize("gpus", [1, 2, 3, 4, 8])
@pytest.mark.parametrize("seed", range(4))
def test_a_decision_explained_later_is_the_one_that_was_made(seed: int, gpus: int) -> None:
    cluster, wanted = cluster_without_load(Random(seed)), shape(gpus)
    candidates = find_candidates(cluster, job("1", wanted), wanted)
    placement, lazy = Scorer(HeuristicScore()).choose(candidates, 5.0)
    chosen, at_once = Scorer(Plain()).choose(candidates, 5.0)
    made = at_once.get()
    for name in list(cluster.names):  # what comes later must not show
        cluster.hold(JobId(name), [share(name, *range(8))])
        cluster.apply_topology(name, bridges(), ())
    late = lazy.get()
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
        cluster.apply_node(node(f"n{number:02}"))
    scorer = Scorer(policy)
    for number in range(10):
        candidates = find_candidates(cluster, job("1", wanted), wanted)
        placement, _ = scorer.choose(candidates, 0.0)
        assert placement.nodes == (f"n{number:02}",)
        cluster.hold(JobId(f"{number}"), [share(f"n{number:02}", *range(8))])
    assert policy.call_count == 1


def test_a_load_that_is_known_counts() -> None:
    cluster, wanted = cluster_without_load(Random(1)), shape(1)
    load = np.full((8, 4), 0.5, dtype=np.float32)
    for name in cluster.names:
        cluster.apply_loads((name,), load[None])
    candidates = find_candidates(cluster, job("1", wanted), wanted)
    assert not candidates.is_load_free
    _, decision = Scorer(HeuristicScore()).choose(candidates, 0.0)
    assert decision.get().features[:, -1].tolist() == [1.0] * len(decision.get().candidates)


def test_a_gang_is_explained_by_what_was_free_then() -> None:
    cluster, scorer = Cluster(), Scorer(HeuristicScore())
    for name in ("a", "b", "c"):
        cluster.apply_node(node(name))
    cluster.hold(JobId("1"), [share("b", 6, 7)])
    candidates = find_candidates(cluster, job("2"), shape(6, 2))
    assert len(candidates) == len(candidates.options) > 0
    placement, lazy = scorer.choose(candidates, at_s=5.0)
    cluster.hold(JobId("2"), [share(name, *placement.gpu_indices) for name in placement.nodes])
    decision = lazy.get()
    assert decision.candidates[0] == placement
    assert decision.scores[0] == decision.scores.max()
    assert [len(share.gpu_indices) for share in decision.free_before] == [8, 6]
    assert [share.node for share in decision.free_before] == list(placement.nodes) == ["a", "b"]
    table = cluster.tables[0]
    assert decision.best_link_score == 2 * table.best_score(table.full_mask, 6)


def test_only_a_policy_that_may_fail_is_asked_about_the_only_gang() -> None:
    class Failing(HeuristicScore):
        def score(self, features: NDArray[np.float32]) -> NDArray[np.float32]:
            raise RuntimeError("no answer")

    cluster = Cluster()
    for name in ("a", "b"):
        cluster.apply_node(node(name))
    candidates = find_candidates(cluster, job("1"), shape(8, 2))
    assert len(candidates.options) == 1
    failing = Scorer(Failing())
    assert failing.choose(candidates, 0.0)[0] == Scorer(HeuristicScore()).choose(candidates, 0.0)[0]
    assert failing.fallback_count == 1


def test_gangs_are_scored_together_as_they_would_be_one_by_one() -> None:
    class Counting(HeuristicScore):
        call_count = 0

        def score(self, features: NDArray[np.float32]) -> NDArray[np.float32]:
            self.call_count += 1
            return super().score(features)

    compared_count = 0
    for seed in range(10):
        cluster, wanted = cluster_without_load(Random(seed)), shape(2, 3)
        candidates = find_candidates(cluster, job("1", wanted), wanted)
        if len(candidates.options) < 2:
            continue
        policy = Counting()
        chosen = Scorer(policy).choose(candidates, 0.0)[0]
        assert policy.call_count == 1
        assert chosen == Scorer(Plain()).choose(candidates, 0.0)[0]
        compared_count += 1
    assert compared_count > 3


def test_scores_are_cached_up_to_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("roost_engine.scoring.scorer._CACHE_LIMIT", 2)
    cluster, scorer = Cluster(), Scorer(HeuristicScore())
    for name in ("a", "b", "c"):
        cluster.apply_node(node(name))
    for size in (2, 3, 2):
        candidates = find_candidates(cluster, job("2"), shape(size, 2))
        placement, decision = scorer.choose(candidates, at_s=0.0)
        assert placement == decision.get().candidates[0]
