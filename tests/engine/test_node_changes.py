"""node_changes: nodes that become usable get jobs, and jobs placed on a lost node are not lost."""

import pytest
from tests.engine.conftest import HarnessFactory
from tests.engine.engine_questions import decision, fault

from roost_engine.domain.events import Event, NodeLost, NodeSeen
from roost_engine.domain.model import NodeName
from roost_engine.job_record import JobState
from roost_engine.testing.builders import (
    bridges,
    job,
    node,
    nvswitch,
    placed,
    share,
    topology,
    waits,
)


def test_a_node_that_becomes_usable_gets_waiting_jobs(make_harness: HarnessFactory) -> None:
    harness = make_harness([node("a", usable=False)], bridges())
    assert "1" in waits(harness.queue(job("1")))
    assert harness.feed(NodeSeen(at_s=1.0, node=node("a", usable=False))) == ()
    assert "1" in placed(harness.feed(NodeSeen(at_s=2.0, node=node("a"))))


def test_a_drained_node_gets_no_jobs_and_keeps_its_own(make_harness: HarnessFactory) -> None:
    harness = make_harness([node("a")], bridges())
    harness.run(job("1"))
    harness.feed(NodeSeen(at_s=1.0, node=node("a", usable=False)))
    assert "2" in waits(harness.queue(job("2")))
    assert harness.state("1") is JobState.RUNNING


@pytest.mark.parametrize(
    "event",
    [
        pytest.param(NodeSeen(at_s=1.0, node=node("a", usable=False)), id="drained"),
        pytest.param(NodeSeen(at_s=1.0, node=node("a", 4)), id="with fewer GPUs"),
        pytest.param(NodeLost(at_s=1.0, name=NodeName("a")), id="removed"),
    ],
)
def test_a_job_whose_node_is_lost_before_it_has_started_is_placed_again_at_once(
    make_harness: HarnessFactory, event: Event
) -> None:
    harness = make_harness([node("a"), node("b")], bridges())
    assert placed(harness.queue(job("1", gpus=8)))["1"].nodes == ("a",)
    assert placed(harness.feed(event))["1"].nodes == ("b",)
    harness.start()
    assert harness.gpus("1") == tuple(f"b:{gpu}" for gpu in range(8))


def test_a_job_that_has_started_where_it_was_placed_first_runs_there(
    make_harness: HarnessFactory,
) -> None:
    harness = make_harness([node("a"), node("b")], bridges())
    harness.queue(job("1", gpus=8))
    harness.feed(NodeSeen(at_s=1.0, node=node("a", usable=False)))
    harness.start_elsewhere("1", share("a", *range(8)))
    assert harness.state("1") is JobState.RUNNING
    assert harness.engine.cluster.free_count() == 8


def test_a_lost_node_keeps_its_jobs_until_they_end(make_harness: HarnessFactory) -> None:
    harness = make_harness([node("a"), node("b")], bridges())
    harness.run(job("1", gpus=8), job("2", gpus=8))
    harness.feed(NodeLost(at_s=1.0, name=NodeName("a")))
    assert harness.state("1") is JobState.RUNNING
    harness.queue(job("3", gpus=4))
    harness.end("1")
    assert harness.state("3") is JobState.WAITING
    harness.end("2")
    assert harness.placement("3").nodes == ("b",)
    assert "4" in placed(harness.queue(job("4", gpus=4)))
    assert "5" in waits(harness.queue(job("5", gpus=4)))
    assert "5" in placed(harness.feed(NodeSeen(at_s=2.0, node=node("a"))))


def test_a_broken_gpu_is_avoided_until_it_works_again(make_harness: HarnessFactory) -> None:
    harness = make_harness([node("a")], bridges())
    assert not fault(harness, "a", 1, "XID 79")
    harness.run(job("1", gpus=2))
    assert harness.placement("1").gpu_indices == (2, 3)
    assert "2" in waits(harness.queue(job("2", gpus=6)))
    assert "2" not in fault(harness, "a", 0, "")
    assert "2" in fault(harness, "a", 1, "")


def test_a_topology_with_another_gpu_count_is_ignored(make_harness: HarnessFactory) -> None:
    harness = make_harness([node("a")], bridges())
    assert harness.feed(topology("a", nvswitch(4))) == ()
    harness.queue(job("1", gpus=2))
    assert harness.placement("1").gpu_indices == (0, 1)
    assert decision(harness, "1").link_scores[0] == 400
