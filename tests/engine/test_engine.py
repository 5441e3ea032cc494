"""The engine alone: placing, waiting; the other test_*.py here have the rest of it."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray
from tests.engine.conftest import HarnessFactory
from tests.engine.engine_questions import change, decision, impatient, withdraw

from roost_engine.domain.actions import Place, Wait, WakeAt
from roost_engine.domain.errors import UnknownJob
from roost_engine.domain.events import SharingWithdrawn
from roost_engine.domain.model import JobId, NodeName
from roost_engine.engine import EngineConfig
from roost_engine.job_record import JobState, ObservedJob
from roost_engine.plugins.plugins import Policies
from roost_engine.policies.protocols import Defer, ScorePolicy
from roost_engine.testing.builders import (
    EngineHarness,
    bridges,
    job,
    load_seen,
    node,
    placed,
    shape,
    share,
    waits,
)
from roost_engine.testing.fakes import FailingScore, FakeScore, ScriptedGate, WrongScore

# -- placing -----------------------------------------------------------------------------------


def test_places_a_job_at_once_on_the_best_links(make_harness: HarnessFactory) -> None:
    harness = make_harness([node("a")], bridges())
    (place, wake) = harness.queue(job("1", gpus=2))
    assert isinstance(place, Place)
    assert place.placement.gpu_indices == (0, 1)
    assert wake == WakeAt(at_s=10.0)
    assert harness.state("1") is JobState.PLACING
    harness.start()
    assert harness.state("1") is JobState.RUNNING
    assert harness.engine.record(JobId("1")).started_s == 0


def test_a_decision_explains_itself(make_harness: HarnessFactory) -> None:
    harness = make_harness([node("a"), node("b", 4)], bridges())
    harness.start_elsewhere("9", share("a", 0))
    harness.queue(job("1", gpus=5))
    told = decision(harness, "1")
    assert told.candidates[0] == harness.placement("1")
    assert told.scores[0] == told.scores.max()
    assert len(told.candidates) == len(told.scores) == len(told.features) == len(told.link_scores)
    assert told.exclusions == (("has too few GPUs", 1),)
    assert told.free_before == (share("a", 1, 2, 3, 4, 5, 6, 7, cpu_count=0),)
    assert told.best_link_score == told.link_scores[0] == bridges().score((0, 1, 2, 3, 4))
    assert (told.policy, told.fallback_reason, told.at_s) == ("heuristic", "", 0.0)
    assert harness.engine.decision_count == 1


def test_the_score_policy_chooses(make_harness: HarnessFactory) -> None:
    score = FakeScore(favourite=2)
    harness = make_harness([node("a")], bridges(), policies=Policies(score=score))
    harness.queue(job("1", gpus=2))
    assert harness.placement("1").gpu_indices == (4, 5)
    assert decision(harness, "1").policy == "fake"
    assert score.asked[0].shape[0] == 4


def test_takes_the_first_shape_that_fits(make_harness: HarnessFactory) -> None:
    harness = make_harness([node("a"), node("b")], bridges())
    harness.start_elsewhere("9", share("a", 0), share("b", 0))
    harness.queue(job("1", shape(8), shape(4, 2)))
    assert harness.placement("1").shape.node_count == 2


def test_one_start_of_a_gang_allocates_every_node(make_harness: HarnessFactory) -> None:
    harness = make_harness([node("a"), node("b")], bridges())
    harness.run(job("1", gpus=6, nodes=2))
    assert harness.gpus("1") == tuple(f"{name}:{gpu}" for name in "ab" for gpu in range(6))
    assert harness.engine.cluster.free_count() == 4


@pytest.mark.parametrize(
    ("score", "reason"),
    [
        (FailingScore("the model is broken"), "the model is broken"),
        (WrongScore(lambda count: np.full(count, np.nan, np.float32)), "not finite"),
        (WrongScore(lambda count: np.full(count, np.inf, np.float32)), "not finite"),
        (WrongScore(lambda count: np.zeros((count, 1), np.float32)), "(4, 1)"),
        (WrongScore(lambda count: np.zeros(count + 1, np.float32)), "(5,)"),
    ],
    ids=["raises", "NaN", "infinity", "two dimensions", "too many"],
)
def test_the_heuristic_answers_for_a_broken_score_policy(
    make_harness: HarnessFactory, score: ScorePolicy, reason: str
) -> None:
    harness = make_harness([node("a")], bridges(), policies=Policies(score=score))
    harness.queue(job("1", gpus=2))
    told = decision(harness, "1")
    assert harness.placement("1").gpu_indices == (0, 1)
    assert told.policy == "heuristic"
    assert reason in told.fallback_reason
    assert harness.engine.fallback_count == 1


def test_prefers_the_less_loaded_of_equal_placements(make_harness: HarnessFactory) -> None:
    harness = make_harness([node("a"), node("b")], bridges())
    busy = np.full((8, 4), 0.5, dtype=np.float32)
    assert harness.feed(load_seen(at_s=0.0, name=NodeName("a"), load=busy)) == ()
    harness.queue(job("1", gpus=2))
    assert harness.placement("1").nodes == ("b",)


def test_a_probe_that_calls_allocated_gpus_idle_frees_none(make_harness: HarnessFactory) -> None:
    harness = make_harness([node("a")], bridges())
    harness.run(job("1", gpus=6))
    free = [gpu for gpu in range(8) if f"a:{gpu}" not in harness.gpus("1")]
    load = np.zeros((8, 4), dtype=np.float32)
    load[free] = 1.0
    harness.feed(load_seen(at_s=1.0, name=NodeName("a"), load=load))
    harness.queue(job("2", gpus=2))
    assert harness.gpus("2") == tuple(f"a:{gpu}" for gpu in free)
    assert "3" in waits(harness.queue(job("3")))


# -- waiting -----------------------------------------------------------------------------------


def test_a_waiting_job_is_placed_when_another_ends(make_harness: HarnessFactory) -> None:
    harness = make_harness([node("a")], bridges())
    harness.run(job("1", gpus=8))
    told = waits(harness.queue(job("2", gpus=4)))["2"]
    assert (told.reason, told.until_s) == ("waits for 4 GPUs on one node", None)
    assert told.exclusions.get() == (("too few free GPUs", 1),)
    assert harness.engine.waiting() == ("2",)
    harness.now_s = 5.0
    assert placed(harness.end("1"))["2"].gpu_indices == (0, 1, 2, 3)


def test_the_reason_names_the_demand_of_a_gang(make_harness: HarnessFactory) -> None:
    harness = make_harness([node("a"), node("b")], bridges())
    harness.run(job("1", gpus=1))
    assert (
        "the same 8 GPUs on each of 2 nodes"
        in waits(harness.queue(job("2", gpus=8, nodes=2)))["2"].reason
    )


def test_a_wait_is_announced_once(make_harness: HarnessFactory) -> None:
    harness = make_harness([node("a")], bridges())
    harness.run(job("1", gpus=7), job("2", gpus=1))
    assert "3" in waits(harness.queue(job("3", gpus=8)))
    assert harness.end("2") == ()


def test_load_alone_starts_no_pass(make_harness: HarnessFactory) -> None:
    harness = make_harness([node("a")], bridges())
    harness.run(job("1", gpus=8))
    harness.queue(job("2", gpus=4))
    load = np.zeros((8, 4), dtype=np.float32)
    assert harness.feed(load_seen(at_s=1.0, name=NodeName("a"), load=load)) == ()


def test_the_memo_of_the_cluster_is_bounded(make_harness: HarnessFactory) -> None:
    harness = make_harness([node("a", cpu_count=10_000)], bridges())
    for cpus in range(10_001, 10_001 + 300):
        harness.queue(job(str(cpus), shape(1, cpus_per_node=cpus)))
    assert len(harness.engine.cluster.memo) <= 256


# -- what Slurm reports ------------------------------------------------------------------------


def test_slurms_choice_overrides_the_plan(make_harness: HarnessFactory) -> None:
    harness = make_harness([node("a")], bridges())
    harness.queue(job("1", gpus=8), job("2", gpus=4))
    actions = harness.start_elsewhere("1", share("a", 4, 5))
    assert placed(actions)["2"].gpu_indices == (0, 1, 2, 3)


def test_a_job_outside_roost_may_take_the_planned_gpus(make_harness: HarnessFactory) -> None:
    harness = make_harness([node("a")], bridges())
    harness.queue(job("1", gpus=2))
    harness.start_elsewhere("outsider", share("a", 0, 1))
    assert isinstance(harness.engine.find(JobId("outsider")), ObservedJob)
    with pytest.raises(UnknownJob):
        harness.engine.record(JobId("outsider"))
    harness.refuse("1")
    harness.advance(2.0)
    assert harness.placement("1").gpu_indices == (2, 3)


def test_a_waiting_job_that_slurm_starts_by_itself_runs(make_harness: HarnessFactory) -> None:
    harness = make_harness([node("a")], bridges())
    harness.run(job("1", gpus=8))
    harness.queue(job("2", gpus=4))
    harness.start_elsewhere("2", share("a", 0, 1, 2, 3))
    assert harness.state("2") is JobState.RUNNING
    assert harness.end("1") == ()


def test_a_running_job_may_shrink(make_harness: HarnessFactory) -> None:
    harness = make_harness([node("a")], bridges())
    harness.run(job("1", gpus=8))
    harness.now_s = 9.0
    harness.queue(job("2", gpus=4))
    assert "2" in placed(harness.start_elsewhere("1", share("a", 0, 1)))
    assert harness.engine.record(JobId("1")).started_s == 0


def test_the_oldest_ended_job_is_forgotten_first(make_harness: HarnessFactory) -> None:
    harness = make_harness([node("a")], bridges(), config=EngineConfig(ended_job_count=2))
    harness.run(job("1"), job("2"), job("3"))
    for job_id in ("1", "2", "3"):
        harness.end(job_id)
    with pytest.raises(UnknownJob):
        harness.engine.record(JobId("1"))
    assert harness.state("3") is JobState.ENDED
    assert [job_id for job_id, _ in harness.engine.records()] == []
    assert [job_id for job_id, _ in harness.engine.known_jobs(include_ended=True)] == ["2", "3"]


def test_a_job_id_may_be_used_again(make_harness: HarnessFactory) -> None:
    harness = make_harness([node("a")], bridges())
    for _ in range(2):
        assert "1" in placed(harness.run(job("1", gpus=8)))
        harness.end("1")
    harness.start_elsewhere("1", share("a", 0))
    assert harness.state("1") is JobState.RUNNING
    assert [job_id for job_id, _ in harness.engine.known_jobs(include_ended=True)] == ["1"]


def test_events_of_unknown_jobs_are_ignored(
    make_harness: HarnessFactory,
) -> None:
    harness = make_harness([node("a")], bridges())
    assert harness.end("7") == ()
    withdraw(harness, "7")
    assert harness.refuse("7") == ()
    harness.start_elsewhere("8", share("a", 0))
    assert harness.refuse("8") == ()
    with pytest.raises(UnknownJob, match="no job '7'"):
        harness.engine.record(JobId("7"))


# -- the gate ----------------------------------------------------------------------------------


def test_a_deferred_job_waits_until_its_deadline(make_harness: HarnessFactory) -> None:
    gate = ScriptedGate(Defer(30.0, "waits for one node"))
    harness = make_harness([node("a")], bridges(), policies=Policies(gate=gate))
    told, wake = harness.queue(job("1", gpus=2))
    assert told == Wait(job_id=JobId("1"), reason="waits for one node", until_s=30.0)
    assert wake == WakeAt(at_s=30.0)
    assert not placed(harness.advance(29.0))
    assert "1" in placed(harness.advance(30.0))
    assert gate.asked == [("1", 0.0, 0), ("1", 30.0, 0)]


def test_the_gate_is_asked_again_when_a_node_gains_capacity(
    make_harness: HarnessFactory,
) -> None:
    gate = ScriptedGate(Defer(30.0, "waits for one rack"))
    nodes = [node("a", rack="r1"), node("b", rack="r2"), node("c", rack="r2")]
    harness = make_harness(nodes, bridges(), policies=Policies(gate=gate))
    harness.start_elsewhere("9", share("c", *range(8)))
    harness.queue(job("1", gpus=8, nodes=2))
    assert gate.asked == [("1", 0.0, 2)]
    assert placed(harness.end("9"))["1"].nodes == ("b", "c")
    assert gate.asked[1:] == [("1", 0.0, 1)]


def test_others_pass_a_deferred_job(make_harness: HarnessFactory) -> None:
    gate = ScriptedGate(Defer(30.0, "waits for one node"))
    harness = make_harness([node("a")], bridges(), policies=Policies(gate=gate))
    harness.queue(job("1", gpus=8))
    assert "2" in placed(harness.run(job("2", gpus=8)))
    assert "1" in waits(harness.advance(30.0))
    assert harness.reason("1") == "waits for 8 GPUs on one node"


# -- determinism and hostile input -------------------------------------------------------------


def test_the_same_events_give_the_same_actions(make_harness: HarnessFactory) -> None:
    first = impatient(make_harness)
    first.queue(job("2", gpus=4), job("3", gpus=4))
    first.end("on-a")
    again = make_harness(config=first.engine.config)
    for event in first.events:
        again.feed(event)
    assert [str(action) for action in again.actions] == [str(action) for action in first.actions]


def test_the_invariants_detect_a_wrong_count(make_harness: HarnessFactory) -> None:
    harness = EngineHarness([node("a")], bridges())
    harness.queue(job("1", gpus=2))
    harness.engine.cluster.release(JobId("1"))
    with pytest.raises(AssertionError):
        harness.engine.check_invariants()


def load_of(value: float) -> NDArray[np.float32]:
    return np.full((8, 4), value, dtype=np.float32)


def test_absurd_load_reaches_no_policy(make_harness: HarnessFactory) -> None:
    score = FakeScore()
    harness = make_harness([node("a")], bridges(), policies=Policies(score=score))
    for position, value in enumerate((np.nan, np.inf, -np.inf, -63e9, 1e38)):
        harness.feed(load_seen(at_s=0.0, name=NodeName("a"), load=load_of(value)))
        harness.queue(job(str(position)))
    for features in score.asked:
        assert ((features >= 0) & (features <= 1)).all()


def test_a_job_keeps_its_place_when_only_its_priority_ages(make_harness: HarnessFactory) -> None:
    harness = make_harness([node("a")], bridges())
    spec = job("1", eligible_s=20.0)
    harness.queue(spec)
    assert not change(harness, replace(spec, priority=3))
    assert "1" in placed(harness.advance(20.0))


def test_an_opt_out_changes_nothing_where_no_jobs_share(make_harness: HarnessFactory) -> None:
    harness = make_harness([node("a")], bridges())
    harness.run(job("1", gpus=2))
    assert harness.feed(SharingWithdrawn(at_s=harness.now_s, job_id=JobId("1"))) == ()
    assert harness.state("1") is JobState.RUNNING
