"""queue_pass: whose turn it is, which jobs are tried, and which are released to Slurm."""

from random import Random

import pytest
from tests.engine.conftest import HarnessFactory

from roost_engine.cluster.cluster import Cluster
from roost_engine.cluster.node_sets import NodeSet
from roost_engine.domain.actions import Action, Place, Wait
from roost_engine.domain.events import NodeLost, NodeSeen, Tick
from roost_engine.domain.model import JobId, JobSpec, NodeName
from roost_engine.engine import EngineConfig, Passing
from roost_engine.job_record import JobState
from roost_engine.placement.candidates import Candidates
from roost_engine.plugins.plugins import Policies
from roost_engine.policies.heuristics import ShapeByShape
from roost_engine.testing.builders import (
    GIB,
    bridges,
    job,
    node,
    placed,
    released,
    shape,
    waits,
)
from roost_engine.testing.fakes import FixedOrder


def test_a_second_job_of_the_same_kind_waits_without_being_tried(
    make_harness: HarnessFactory,
) -> None:
    harness = make_harness([node("a")], bridges())
    harness.run(job("1", gpus=8))
    harness.queue(job("2", gpus=4))
    told = waits(harness.queue(job("3", gpus=4)))["3"]
    assert told.exclusions.get() == (("too few free GPUs", 1),)


class Watched(ShapeByShape):
    """Counts how often it is asked."""

    def __init__(self) -> None:
        super().__init__()
        self.proposed_count = 0

    def propose(self, cluster: Cluster, job: JobSpec, reserved: NodeSet, at_s: float) -> Candidates:
        self.proposed_count += 1
        return super().propose(cluster, job, reserved, at_s)


@pytest.mark.parametrize("passing", [Passing.EASY, Passing.NOBODY])
@pytest.mark.parametrize("seed", range(12))
def test_a_job_placed_as_it_comes_is_placed_as_the_pass_would(
    make_harness: HarnessFactory, seed: int, passing: Passing
) -> None:
    """Two engines see the same: one may place a job as it comes, the other always begins a pass."""
    config = EngineConfig(passing=passing, patience_s=40.0, start_timeout_s=5.0)
    policies = [Watched(), Watched()]
    quick, plain = (
        make_harness(
            [node(name) for name in "abcd"],
            bridges(),
            config=config,
            policies=Policies(candidates=watched),
        )
        for watched in policies
    )
    plain.engine._pass._places_at_once = False
    random, running, placed_count = Random(seed), list[str](), 0
    for number in range(150):
        if random.random() < 0.45 and running:
            ended = running.pop(random.randrange(len(running)))
            actions, expected = quick.end(ended), plain.end(ended)
        elif random.random() < 0.2:
            to_s = quick.now_s + random.choice([1.0, 7.0, 60.0])
            actions, expected = quick.advance(to_s), plain.advance(to_s)
        else:
            asked = shape(random.choice([1, 2, 4, 8]), random.choice([1, 1, 1, 2, 3]))
            limit_s = random.choice([None, 10.0, 1_000.0])
            spec = job(str(number), asked, time_limit_s=limit_s, submit_s=quick.now_s)
            actions, expected = quick.queue(spec), plain.queue(spec)
        assert decided(actions) == decided(expected)
        assert list(quick.engine.waiting()) == list(plain.engine.waiting())
        assert policies[0].proposed_count == policies[1].proposed_count
        started = [one for one in placed(actions) if random.random() < 0.8]
        for one in started:
            quick.start(one)
            plain.start(one)
        running += started
        placed_count += len(placed(actions))
    assert placed_count > 30


def decided(actions: tuple[Action, ...]) -> list[object]:
    """What an engine asks for, with the explanations that are computed when they are read."""
    return [
        (one.job_id, one.placement, one.decision.get().scores.tolist())
        if isinstance(one, Place)
        else (one.job_id, one.reason, one.until_s, one.exclusions.get())
        if isinstance(one, Wait)
        else one
        for one in actions
    ]


def test_serves_by_priority_then_age(make_harness: HarnessFactory) -> None:
    harness = make_harness([node("a", 1)])
    harness.run(job("1"))
    harness.queue(job("2"), job("3", priority=5), job("4", priority=5, submit_s=1.0))
    served = []
    for ended in ("1", "3", "4"):
        started = list(placed(harness.end(ended)))
        harness.start()
        served += started
    assert served == ["3", "4", "2"]


def test_serves_by_the_order_policy(make_harness: HarnessFactory) -> None:
    order = FixedOrder("4", "2", "3")
    harness = make_harness([node("a", 1)], policies=Policies(order=order))
    harness.run(job("1"))
    harness.queue(job("2", priority=9), job("3"), job("4"))
    assert list(placed(harness.end("1"))) == ["4"]
    assert order.call_count > 0


def test_a_small_job_passes_a_big_one_that_waits(make_harness: HarnessFactory) -> None:
    harness = make_harness([node("a")], bridges())
    harness.run(job("1", gpus=6))
    harness.queue(job("2", gpus=8))
    assert "3" in placed(harness.queue(job("3", gpus=2)))


def test_one_end_serves_several_jobs(make_harness: HarnessFactory) -> None:
    harness = make_harness([node("a")], bridges())
    harness.run(job("1", gpus=8))
    harness.queue(job("2", gpus=4), job("3", gpus=4), job("4", gpus=2))
    assert list(placed(harness.end("1"))) == ["2", "3"]
    assert harness.state("4") is JobState.WAITING


def test_a_pass_tries_as_many_jobs_as_the_window_and_the_next_pass_continues(
    make_harness: HarnessFactory,
) -> None:
    harness = make_harness([node("a")], bridges(), config=EngineConfig(window_count=2))
    harness.run(job("1", gpus=8))
    harness.queue(job("2", gpus=1), job("3", gpus=2), job("4", gpus=3))
    assert list(placed(harness.end("1"))) == ["2", "3"]
    assert list(placed(harness.feed(Tick(at_s=0.0)))) == ["4"]


class CountedTries(ShapeByShape):
    """Roost's own candidates; records the jobs for which they were listed."""

    def __init__(self) -> None:
        super().__init__()
        self.tried: list[JobId] = []

    def propose(self, cluster: Cluster, job: JobSpec, reserved: NodeSet, at_s: float) -> Candidates:
        self.tried.append(job.job_id)
        return super().propose(cluster, job, reserved, at_s)


def test_a_job_of_a_group_that_no_longer_fits_is_not_tried(make_harness: HarnessFactory) -> None:
    tries = CountedTries()
    harness = make_harness([node("a")], bridges(), policies=Policies(candidates=tries))
    harness.run(job("1", gpus=8))
    harness.queue(job("2", gpus=8), job("3", gpus=8), job("4", gpus=4))
    tries.tried.clear()
    assert list(placed(harness.end("1"))) == ["2"]
    assert tries.tried == ["2"]
    assert list(waits(harness.queue(job("5", gpus=8)))) == ["5"]
    assert tries.tried == ["2"]
    assert list(placed(harness.end("2"))) == ["3"]
    assert list(placed(harness.end("3"))) == ["4"]


# -- jobs that could never fit -----------------------------------------------------------------


@pytest.mark.parametrize(
    ("spec", "why"),
    [
        (job("1", gpus=9), "1 has too few GPUs"),
        (
            job("1", gpus=1, nodes=2),
            "no placement could ever hold it in partition main: too few nodes",
        ),
        (job("1", features=["b200"]), "1 lacks feature b200"),
        (job("1", partition="nowhere"), "partition nowhere: no nodes"),
        (job("1", required=["ghost"]), "1 not in the job's node list"),
        (job("1", shape(1, memory_bytes=513 * GIB)), "1 has too little memory"),
    ],
)
def test_releases_a_job_that_could_never_fit(
    make_harness: HarnessFactory, spec: JobSpec, why: str
) -> None:
    harness = make_harness([node("a")], bridges())
    assert why in released(harness.queue(spec))["1"]
    assert harness.state("1") is JobState.RELEASED
    assert harness.engine.waiting() == ()


def test_no_job_is_released_before_the_first_node_is_reported(make_harness: HarnessFactory) -> None:
    harness = make_harness()
    assert "1" in waits(harness.queue(job("1", gpus=4)))
    assert "1" in placed(harness.feed(NodeSeen(at_s=1.0, node=node("a"))))


def test_releases_jobs_when_the_last_fitting_node_is_lost(make_harness: HarnessFactory) -> None:
    harness = make_harness([node("a"), node("b", 4)], bridges())
    harness.run(job("1", gpus=8))
    harness.queue(job("2", gpus=8), job("3", gpus=8), job("4", gpus=4), job("5", gpus=4))
    actions = harness.feed(NodeLost(at_s=1.0, name=NodeName("a")))
    assert sorted(released(actions)) == ["2", "3"]
    assert harness.state("5") is JobState.WAITING
