"""What the engine does when Slurm refuses a placement, or the user has set a begin time."""

import numpy as np
from tests.engine.conftest import HarnessFactory

from roost_engine.domain.actions import Wait, WakeAt
from roost_engine.domain.events import (
    Tick,
)
from roost_engine.domain.model import JobId, NodeName
from roost_engine.engine import EngineConfig
from roost_engine.job_record import JobState
from roost_engine.testing.builders import (
    bridges,
    job,
    load_seen,
    node,
    placed,
    released,
    waits,
)

# -- refusals ----------------------------------------------------------------------------------


def test_a_refused_job_pauses_twice_as_long_each_time(make_harness: HarnessFactory) -> None:
    harness = make_harness([node("a")], bridges())
    harness.queue(job("1", gpus=2))
    for pause_s in (2.0, 4.0, 8.0, 16.0):
        told = waits(harness.refuse("1", "node busy"))["1"]
        assert told.reason == "pauses after a refusal: node busy"
        assert told.until_s == harness.now_s + pause_s
        assert not placed(harness.advance(told.until_s - 0.1))
        assert "1" in placed(harness.advance(told.until_s))
    assert harness.engine.refused_count == 4


def test_a_pause_is_at_most_300_seconds(make_harness: HarnessFactory) -> None:
    config = EngineConfig(refusal_backoff_s=200.0)
    harness = make_harness([node("a")], bridges(), config=config)
    harness.queue(job("1"))
    harness.refuse("1")
    harness.advance(200.0)
    assert waits(harness.refuse("1"))["1"].until_s == 500.0


def test_the_gpus_of_a_pausing_job_go_to_others(make_harness: HarnessFactory) -> None:
    harness = make_harness([node("a")], bridges())
    harness.queue(job("1", gpus=8), job("2", gpus=8))
    assert "2" in placed(harness.refuse("1"))


def test_releases_a_job_after_the_last_refusal(make_harness: HarnessFactory) -> None:
    harness = make_harness([node("a")], bridges(), config=EngineConfig(refusal_limit=2))
    harness.queue(job("1"), job("2", gpus=7))
    harness.refuse("1", "first")
    harness.advance(2.0)
    actions = harness.refuse("1", "requested node busy")
    assert released(actions)["1"] == "Slurm refused 2 placements, the last: requested node busy"
    assert harness.state("1") is JobState.RELEASED


def test_a_missing_start_counts_as_a_refusal(make_harness: HarnessFactory) -> None:
    harness = make_harness([node("a")], bridges(), config=EngineConfig(start_timeout_s=10.0))
    harness.queue(job("1", gpus=2))
    told = waits(harness.feed(Tick(at_s=10.0)))["1"]
    assert told.reason == "pauses after a refusal: Slurm did not start it in 10 s"
    assert harness.state("1") is JobState.WAITING


def test_any_event_advances_the_time(make_harness: HarnessFactory) -> None:
    harness = make_harness([node("a")], bridges())
    harness.queue(job("1", gpus=2))
    load = np.zeros((8, 4), dtype=np.float32)
    harness.feed(load_seen(at_s=10.5, name=NodeName("a"), load=load))
    assert harness.state("1") is JobState.WAITING


def test_a_start_at_the_deadline_counts(make_harness: HarnessFactory) -> None:
    harness = make_harness([node("a")], bridges())
    harness.queue(job("1", gpus=2))
    harness.now_s = 10.0
    harness.start()
    assert harness.state("1") is JobState.RUNNING


def test_a_new_placement_has_a_new_deadline(make_harness: HarnessFactory) -> None:
    harness = make_harness([node("a")], bridges())
    harness.queue(job("1", gpus=2))
    harness.now_s = 5.0
    harness.refuse("1")
    harness.advance(7.0)
    assert harness.state("1") is JobState.PLACING
    assert not waits(harness.feed(Tick(at_s=10.0)))
    assert "1" in waits(harness.feed(Tick(at_s=17.0)))


# -- the user's own begin time -----------------------------------------------------------------


def test_a_job_is_not_placed_before_its_begin_time(make_harness: HarnessFactory) -> None:
    harness = make_harness([node("a")], bridges())
    told, wake = harness.queue(job("1", eligible_s=100.0))
    assert told == Wait(job_id=JobId("1"), reason="has a later begin time", until_s=100.0)
    assert wake == WakeAt(at_s=100.0)
    harness.run(job("2"))
    harness.end("2")
    assert harness.state("1") is JobState.WAITING
    assert not placed(harness.advance(99.0))
    assert "1" in placed(harness.advance(100.0))
    assert harness.engine.record(JobId("1")).queued_s == 100.0
