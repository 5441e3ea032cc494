"""What Slurm frees for a job that was released to it is not given to another job."""

from dataclasses import replace

import pytest
from tests.engine.conftest import HarnessFactory

from roost_engine.domain.events import JobQueued, JobStarted
from roost_engine.domain.model import JobId
from roost_engine.engine import EngineConfig
from roost_engine.job_record import JobState
from roost_engine.testing.builders import (
    EngineHarness,
    bridges,
    job,
    node,
    placed,
    released,
    share,
)

CONFIG = EngineConfig(start_timeout_s=10.0, stop_timeout_s=60.0)


@pytest.fixture
def harness(make_harness: HarnessFactory) -> EngineHarness:
    """Slurm is about to stop job 1 or 2 for job 3, and job 4 waits for any GPU."""
    found = make_harness([node("a", 4), node("b", 4)], bridges(4), config=CONFIG)
    for job_id, name in (("1", "a"), ("2", "b")):
        shares = (share(name, 0, 1, 2, 3),)
        event = JobStarted(at_s=0.0, job_id=JobId(job_id), shares=shares, preempt_class="qos:low")
        found.feed(event)
    assert "3" in released(found.queue(replace(job("3", gpus=4), preempts=("qos:low",))))
    found.queue(job("4"))
    return found


def test_no_job_takes_the_gpus_of_a_victim(harness: EngineHarness) -> None:
    assert not placed(harness.end("1"))
    harness.start_elsewhere("3", share("a", 0, 1, 2, 3))
    assert harness.state("4") is JobState.WAITING
    assert placed(harness.end("3"))["4"].nodes == ("a",)


def test_a_victim_that_completes_has_left_too(harness: EngineHarness) -> None:
    assert not placed(harness.start_elsewhere("1"))
    assert not placed(harness.feed(JobQueued(at_s=0.0, job=job("1", gpus=4, eligible_s=50.0))))


def test_other_jobs_use_what_the_preemptor_leaves(harness: EngineHarness) -> None:
    harness.end("1")
    assert "4" in placed(harness.start_elsewhere("3", share("a", 0, 1, 2)))


def test_a_node_opens_again_where_the_preemptor_does_not_start(harness: EngineHarness) -> None:
    harness.end("1")
    assert not placed(harness.advance(9.0))
    assert "4" in placed(harness.advance(10.0))


def test_a_node_opens_again_where_the_preemptor_is_cancelled(harness: EngineHarness) -> None:
    harness.end("1")
    assert "4" in placed(harness.end("3"))


def test_a_job_that_slurm_would_not_stop_leaves_its_gpus_to_all(
    make_harness: HarnessFactory,
) -> None:
    found = make_harness([node("a", 4), node("b", 4)], bridges(4), config=CONFIG)
    low = JobStarted(
        at_s=0.0, job_id=JobId("1"), shares=(share("a", 0, 1, 2, 3),), preempt_class="qos:low"
    )
    found.feed(low)
    found.start_elsewhere("2", share("b", 0, 1, 2, 3))
    found.queue(replace(job("3", gpus=4), preempts=("qos:low",)))
    found.queue(job("4"))
    assert "4" in placed(found.end("2"))
