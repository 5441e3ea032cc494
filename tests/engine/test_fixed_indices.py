"""A job that can only have certain GPU indices."""

from dataclasses import replace

from tests.engine.conftest import HarnessFactory

from roost_engine.domain.actions import Wait
from roost_engine.domain.model import JobId, JobSpec
from roost_engine.engine import EngineConfig
from roost_engine.job_record import JobState
from roost_engine.testing.builders import (
    bridges,
    job,
    node,
    placed,
    share,
)


def fixed(job_id: str, *indices: int, nodes: int = 1) -> JobSpec:
    spec = job(job_id, gpus=len(indices), nodes=nodes)
    return replace(spec, fixed_indices=indices)


def test_a_job_with_fixed_indices_gets_just_these_on_any_node(
    make_harness: HarnessFactory,
) -> None:
    harness = make_harness([node("a"), node("b")], bridges())
    harness.start_elsewhere("x", share("a", 1))
    harness.queue(fixed("1", 1, 4))  # 0 and 1 would be better linked
    assert harness.placement("1").nodes == ("b",)
    assert harness.placement("1").gpu_indices == (1, 4)


def test_a_gang_with_fixed_indices_gets_just_these_on_each_node(
    make_harness: HarnessFactory,
) -> None:
    harness = make_harness([node(name) for name in "abc"], bridges())
    harness.start_elsewhere("x", share("a", 5))
    harness.queue(fixed("1", 2, 5, nodes=2))
    assert harness.placement("1").nodes == ("b", "c")
    assert harness.placement("1").gpu_indices == (2, 5)


def test_a_job_with_fixed_indices_is_tried_again_when_they_are_free(
    make_harness: HarnessFactory,
) -> None:
    harness = make_harness([node("a")])
    harness.start_elsewhere("x", share("a", 0))
    harness.start_elsewhere("y", share("a", 7))
    harness.queue(fixed("1", 0), job("2"))
    assert harness.state("1") is JobState.WAITING
    assert harness.state("2") is JobState.PLACING, "a job that may have any GPU is not held up"
    excluded = dict(harness.engine.record(JobId("1")).exclusions)
    assert excluded == {"the only GPU indices that it can have are taken": 1}
    harness.end("y")
    assert harness.state("1") is JobState.WAITING
    harness.end("x")
    assert harness.placement("1").gpu_indices == (0,)


def test_a_job_whose_fixed_indices_stay_busy_is_released_to_slurm(
    make_harness: HarnessFactory,
) -> None:
    harness = make_harness([node("a")], config=EngineConfig(hand_over_s=12.0))
    harness.start_elsewhere("x", share("a", 0, 3))
    harness.advance(5.0)
    harness.queue(fixed("1", 0, 3))
    assert harness.engine.record(JobId("1")).until_s == 17.0
    harness.advance(16.0)
    assert harness.state("1") is JobState.WAITING
    harness.advance(17.0)
    assert harness.state("1") is JobState.RELEASED
    assert "GPUs 0,3 of a node" in harness.reason("1")


def test_a_refused_job_with_fixed_indices_is_handed_over_only_after_its_time(
    make_harness: HarnessFactory,
) -> None:
    harness = make_harness([node("a"), node("b")], config=EngineConfig(hand_over_s=5.0))
    harness.queue(fixed("1", 0))
    harness.advance(6.0)  # being placed: it is not handed over meanwhile
    assert harness.state("1") is JobState.PLACING
    harness.refuse("1")
    harness.start_elsewhere("x", share("a", 0))
    harness.start_elsewhere("y", share("b", 0))
    harness.advance(12.0)  # its pause was over at 8 s
    assert harness.state("1") is JobState.WAITING
    harness.advance(13.0)
    assert harness.state("1") is JobState.RELEASED


def test_a_placed_job_waits_again_as_soon_as_another_job_has_its_gpus(
    make_harness: HarnessFactory,
) -> None:
    harness = make_harness([node("a", 4)], bridges(4))
    harness.queue(job("1", gpus=2), job("2"))
    assert harness.gpus("1") == ("a:0", "a:1")
    harness.queue(job("3", gpus=4))
    actions = harness.start_elsewhere("9", share("a", 1, 3))
    assert "1" not in placed(actions)  # one GPU is free
    reasons = [action.reason for action in actions if isinstance(action, Wait)]
    assert reasons == ["job 9 has started on its GPUs", "waits for 2 GPUs on one node"]
    assert (harness.state("1"), harness.state("2")) == (JobState.WAITING, JobState.PLACING)
    assert harness.engine.record(JobId("1")).refusal_count == 0
    assert "1" in placed(harness.end("9"))


def test_a_placed_job_gets_other_gpus_at_once_where_there_are_some(
    make_harness: HarnessFactory,
) -> None:
    harness = make_harness([node("a", 4)], bridges(4))
    harness.queue(job("1", gpus=2))
    assert set(placed(harness.start_elsewhere("9", share("a", 0)))) == {"1"}
    assert harness.gpus("1") == ("a:2", "a:3")
