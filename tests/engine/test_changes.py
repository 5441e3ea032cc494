"""Jobs in shadow, and jobs that change or are withdrawn."""

import pytest
from tests.engine.conftest import HarnessFactory
from tests.engine.engine_questions import change, withdraw

from roost_engine.domain.events import JobQueued
from roost_engine.domain.model import JobId
from roost_engine.job_record import JobState
from roost_engine.plugins.plugins import Policies
from roost_engine.policies.protocols import Defer
from roost_engine.testing.builders import (
    bridges,
    job,
    node,
    placed,
    share,
)
from roost_engine.testing.fakes import (
    ScriptedGate,
)

# -- shadow ------------------------------------------------------------------------------------


def test_shadow_decides_and_reserves_nothing(make_harness: HarnessFactory) -> None:
    harness = make_harness([node("a")], bridges())
    assert "1" in placed(harness.queue(job("1", gpus=8, binding=False)))
    assert harness.state("1") is JobState.WAITING
    assert harness.engine.cluster.free_count() == 8
    assert "2" in placed(harness.run(job("2", gpus=8)))
    assert harness.end("2") == ()  # job 1 is not decided again
    harness.start_elsewhere("1", share("a", 0, 1))
    assert harness.state("1") is JobState.RUNNING
    assert harness.placement("1").gpu_indices == tuple(range(8))


def test_a_changed_shadow_job_is_decided_again(make_harness: HarnessFactory) -> None:
    harness = make_harness([node("a")], bridges())
    harness.queue(job("1", gpus=8, binding=False))
    assert "1" in change(harness, job("1", gpus=2, binding=False))
    assert not change(harness, job("1", gpus=2, binding=False, priority=9))


def test_an_alarm_does_not_decide_a_shadow_job_again(make_harness: HarnessFactory) -> None:
    gate = ScriptedGate(Defer(50.0, "a whole node is better"))
    harness = make_harness([node("a", 8), node("b", 1)], policies=Policies(gate=gate))
    harness.queue(job("1", binding=False))
    harness.run(job("2"))
    assert "1" in placed(harness.end("2"))
    assert not placed(harness.advance(60.0))


# -- changes and withdrawals -------------------------------------------------------------------


def test_a_job_that_changes_while_placing_is_decided_again(make_harness: HarnessFactory) -> None:
    harness = make_harness([node("a")], bridges())
    harness.queue(job("1", gpus=8), job("2", gpus=4))
    harness.now_s = 3.0
    told = change(harness, job("1", gpus=2))
    assert "1" in told
    assert "2" in told
    assert harness.engine.record(JobId("1")).queued_s == 0.0


def test_a_change_of_priority_alone_keeps_placements(make_harness: HarnessFactory) -> None:
    harness = make_harness([node("a")], bridges())
    harness.queue(job("1", gpus=8), job("2", gpus=8), job("3", gpus=8))
    assert not change(harness, job("1", gpus=8, priority=7))
    assert harness.state("1") is JobState.PLACING
    assert not change(harness, job("3", gpus=8, priority=7))
    harness.start()
    assert list(placed(harness.end("1"))) == ["3"]


def test_a_changed_job_that_is_unknown_is_queued(make_harness: HarnessFactory) -> None:
    harness = make_harness([node("a")], bridges())
    assert "1" in change(harness, job("1"))


def test_a_job_that_slurm_requeued_waits_again(make_harness: HarnessFactory) -> None:
    harness = make_harness([node("a")], bridges())
    harness.run(job("1", gpus=8))
    harness.queue(job("2", gpus=8, priority=1))
    harness.now_s = 50.0
    actions = harness.feed(JobQueued(at_s=50.0, job=job("1", gpus=8)))
    assert list(placed(actions)) == ["2"]
    assert harness.engine.record(JobId("1")).queued_s == 50.0


@pytest.mark.parametrize("state", [JobState.WAITING, JobState.PLACING, JobState.RUNNING])
def test_a_withdrawn_job_is_left_to_slurm(make_harness: HarnessFactory, state: JobState) -> None:
    harness = make_harness([node("a")], bridges())
    if state is JobState.WAITING:
        harness.run(job("9", gpus=8))
    harness.queue(job("1", gpus=8))
    if state is JobState.RUNNING:
        harness.start()
    assert harness.state("1") is state
    withdraw(harness, "1", "held by its user")
    assert harness.state("1") is JobState.RELEASED
    assert harness.reason("1") == "held by its user"
    assert harness.engine.waiting() == ()
    if state is not JobState.WAITING:
        assert harness.engine.cluster.free_count() == 8


def test_a_withdrawn_job_may_be_queued_again(make_harness: HarnessFactory) -> None:
    harness = make_harness([node("a")], bridges())
    harness.queue(job("1"))
    withdraw(harness, "1")
    harness.now_s = 30.0
    assert "1" in placed(harness.queue(job("1")))
    assert harness.engine.record(JobId("1")).queued_s == 30.0
