"""Migration under a score that predicts what neighbours cost: it chooses where to, and not when."""

import pytest
from tests.engine.conftest import HarnessFactory
from tests.engine.scoring.graph_cluster import talks
from tests.engine.scoring.test_neighbours import PCIE, FakeInterference

from roost_engine.plugins.plugins import Policies
from roost_engine.policies.protocols import ScorePolicy
from roost_engine.scoring.heuristic import HeuristicScore
from roost_engine.scoring.neighbours import NeighbourScore
from roost_engine.testing.builders import EngineHarness, job, node, preempted, shape
from roost_engine.testing.fakes import FakeMoving

LEASE_S = 100.0


def site(make_harness: HarnessFactory, score: ScorePolicy) -> EngineHarness:
    """On c a job communicates over four GPUs; on d four jobs have one GPU each, and do not."""
    if isinstance(score, NeighbourScore):
        score.expect(talks)
    policies = Policies(score=score, preemption=FakeMoving(lease_s=LEASE_S))
    harness = make_harness([node(name) for name in "abcd"], PCIE, policies=policies)
    harness.run(
        job("1", gpus=6, required=["a"]),
        job("2", gpus=6, required=["b"]),
        job("3", gpus=4, required=["c"]),
        *[job(f"4{number}", gpus=1, required=["d"]) for number in range(4)],
    )
    return harness


@pytest.mark.parametrize(
    ("score", "chosen"),
    [(HeuristicScore(), "c"), (NeighbourScore(FakeInterference()), "d")],
    ids=["heuristic", "neighbours"],
)
def test_a_job_migrates_to_where_neighbours_cost_least(
    make_harness: HarnessFactory, score: ScorePolicy, chosen: str
) -> None:
    harness = site(make_harness, score)
    harness.run(job("5", gpus=4, required=["c"]), job("6", gpus=4, required=["d"]))
    harness.run(job("9", shape(4), shape(2, 2)))
    assert harness.placement("9").nodes == ("a", "b")
    assert not preempted(harness.end("5"))  # job 9 is within its lease
    harness.now_s = LEASE_S
    assert preempted(harness.end("6")) == {"9": None}
    harness.stop("9")
    assert harness.placement("9").nodes == (chosen,)


def test_no_job_migrates_for_its_neighbours_alone(make_harness: HarnessFactory) -> None:
    harness = site(make_harness, NeighbourScore(FakeInterference()))
    harness.run(job("6", gpus=4, required=["d"]))
    harness.run(job("9", shape(4)))  # beside job 3, which costs it speed
    assert harness.placement("9").nodes == ("c",)
    assert not preempted(harness.end("6"))
    assert not preempted(harness.advance(10 * LEASE_S))
