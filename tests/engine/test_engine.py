"""roost_engine.engine alone, with every branch covered. This command checks the coverage:

pytest tests/engine/test_engine.py --cov=roost_engine.engine --cov-branch --cov-fail-under=100
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray
from tests.engine.conftest import HarnessFactory

from roost_engine.cluster.cluster import Cluster
from roost_engine.cluster.node_sets import NodeSet
from roost_engine.domain.actions import Decision, Place, Wait, WakeAt
from roost_engine.domain.errors import UnknownJob
from roost_engine.domain.events import (
    Event,
    GpuHealthChanged,
    JobChanged,
    JobQueued,
    JobsStopped,
    JobWithdrawn,
    LinksSeen,
    LoadSeen,
    NodeLost,
    NodeSeen,
    SharesSeen,
    SpeedSeen,
    Tick,
    TimerPinned,
)
from roost_engine.domain.model import JobId, JobSpec, NodeName
from roost_engine.engine import Engine, EngineConfig, Passing
from roost_engine.job_record import JobState, ObservedJob
from roost_engine.placement.candidates import Candidates
from roost_engine.plugins import Policies
from roost_engine.policies import Defer, ScorePolicy, ShapeByShape
from roost_engine.prediction.predictors import Predictors
from roost_engine.scoring.heuristic import HeuristicScore
from roost_engine.testing.builders import (
    GIB,
    EngineHarness,
    bridges,
    job,
    let_go,
    node,
    nvswitch,
    placed,
    preempted,
    shape,
    share,
    topology,
    waits,
)
from roost_engine.testing.fakes import (
    FailingScore,
    FakePreemption,
    FakeScore,
    FixedOrder,
    ScriptedGate,
    WrongScore,
)


def decision(harness: EngineHarness, job_id: str) -> Decision:
    found = harness.engine.record(JobId(job_id)).decision
    assert found is not None
    return found.get()


def withdraw(harness: EngineHarness, job_id: str, reason: str = "held by its user") -> None:
    harness.feed(JobWithdrawn(at_s=harness.now_s, job_id=JobId(job_id), reason=reason))


def change(harness: EngineHarness, spec: JobSpec) -> dict[str, object]:
    actions = harness.feed(JobChanged(at_s=harness.now_s, job=spec))
    return {**placed(actions), **waits(actions), **let_go(actions)}


def fault(harness: EngineHarness, name: str, gpu: int, what: str) -> dict[str, object]:
    event = GpuHealthChanged(at_s=harness.now_s, name=NodeName(name), gpu_index=gpu, fault=what)
    return dict(placed(harness.feed(event)))


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
    assert harness.feed(LoadSeen(at_s=0.0, name=NodeName("a"), load=busy)) == ()
    harness.queue(job("1", gpus=2))
    assert harness.placement("1").nodes == ("b",)


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


def test_a_second_job_of_the_same_kind_waits_without_being_tried(
    make_harness: HarnessFactory,
) -> None:
    harness = make_harness([node("a")], bridges())
    harness.run(job("1", gpus=8))
    harness.queue(job("2", gpus=4))
    told = waits(harness.queue(job("3", gpus=4)))["3"]
    assert told.exclusions.get() == (("too few free GPUs", 1),)


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


def test_load_alone_starts_no_pass(make_harness: HarnessFactory) -> None:
    harness = make_harness([node("a")], bridges())
    harness.run(job("1", gpus=8))
    harness.queue(job("2", gpus=4))
    load = np.zeros((8, 4), dtype=np.float32)
    assert harness.feed(LoadSeen(at_s=1.0, name=NodeName("a"), load=load)) == ()


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
    assert why in let_go(harness.queue(spec))["1"]
    assert harness.state("1") is JobState.LET_GO
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
    assert sorted(let_go(actions)) == ["2", "3"]
    assert harness.state("5") is JobState.WAITING


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
    assert let_go(actions)["1"] == "Slurm refused 2 placements, the last: requested node busy"
    assert harness.state("1") is JobState.LET_GO


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
    harness.feed(LoadSeen(at_s=10.5, name=NodeName("a"), load=load))
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
    assert harness.state("1") is JobState.LET_GO
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


# -- nodes -------------------------------------------------------------------------------------


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


# -- patience ----------------------------------------------------------------------------------


class Stream:
    """An endless stream of one-GPU jobs of 80 s, one every 10 s, which keeps 8 GPUs busy."""

    def __init__(self, harness: EngineHarness) -> None:
        self.harness = harness
        self._ends: list[tuple[float, str]] = []

    def run_until(self, job_id: str, limit_s: float) -> float | None:
        """Let time pass. Returns when a job was placed; None if it was not by `limit_s`."""
        harness = self.harness
        while harness.now_s < limit_s:
            harness.advance(harness.now_s + 10.0)
            while self._ends and self._ends[0][0] <= harness.now_s:
                harness.end(self._ends.pop(0)[1])
            name = f"{harness.now_s:.0f}"
            for started in placed(harness.run(job(name, submit_s=harness.now_s))):
                self._ends.append((harness.now_s + 80.0, started))
            for ended in placed(harness.actions[-3:]):
                if ended == job_id:
                    return harness.now_s
        return None


def test_a_big_job_is_not_starved_by_small_ones(make_harness: HarnessFactory) -> None:
    harness = make_harness([node("a")], bridges(), config=EngineConfig(patience_s=200.0))
    small = Stream(harness)
    small.run_until("", 200.0)
    harness.queue(job("big", gpus=8, submit_s=200.0))
    placed_s = small.run_until("big", 2000.0)
    assert placed_s is not None
    assert 200.0 + 200.0 < placed_s <= 200.0 + 200.0 + 80.0 + 10.0


def test_small_jobs_pass_a_large_job_within_its_patience(make_harness: HarnessFactory) -> None:
    harness = make_harness([node("a")], bridges(), config=EngineConfig(patience_s=1e9))
    small = Stream(harness)
    small.run_until("", 200.0)
    harness.queue(job("big", gpus=8, submit_s=200.0))
    assert small.run_until("big", 2000.0) is None


def impatient(make_harness: HarnessFactory, **options: object) -> EngineHarness:
    """Make two nodes with a job on each, and a large job past its patience; a is emptier."""
    harness = make_harness(
        [node("a"), node("b")], bridges(), config=EngineConfig(patience_s=60.0), **options
    )
    harness.start_elsewhere("on-a", share("a", 0))
    harness.start_elsewhere("on-b", share("b", 0, 1, 2, 3))
    harness.queue(job("1", gpus=8))
    harness.advance(60.0)
    return harness


def test_the_emptiest_node_is_reserved_for_a_job_past_its_patience(
    make_harness: HarnessFactory,
) -> None:
    harness = impatient(make_harness)
    harness.queue(job("2", gpus=4), job("3", gpus=4))
    assert harness.placement("2").nodes == ("b",)
    assert harness.state("3") is JobState.WAITING
    exclusions = dict(harness.engine.record(JobId("3")).exclusions)
    assert exclusions["kept free for a job that waits longer"] == 1
    assert list(placed(harness.end("on-a"))) == ["1"]


def test_a_job_that_joins_a_group_blocked_by_a_reservation_waits(
    make_harness: HarnessFactory,
) -> None:
    harness = impatient(make_harness)
    harness.queue(job("2", gpus=7))
    (wait,) = harness.queue(job("3", gpus=7))
    assert isinstance(wait, Wait)
    assert (wait.job_id, wait.reason) == ("3", "waits for 7 GPUs on one node")


def test_a_job_earlier_in_order_may_take_a_reserved_node(make_harness: HarnessFactory) -> None:
    harness = impatient(make_harness)
    harness.queue(job("2", gpus=7, priority=1))
    assert harness.placement("2").nodes == ("a",)


def test_a_reservation_ends_when_its_job_is_withdrawn(
    make_harness: HarnessFactory,
) -> None:
    harness = impatient(make_harness)
    harness.queue(job("2", gpus=7))
    assert harness.state("2") is JobState.WAITING
    withdraw(harness, "1")
    assert harness.placement("2").nodes == ("a",)


def test_patience_counts_from_before_a_refusal(make_harness: HarnessFactory) -> None:
    harness = make_harness([node("a")], bridges(), config=EngineConfig(patience_s=60.0))
    harness.queue(job("1", gpus=8))
    harness.refuse("1")
    harness.start_elsewhere("outsider", share("a", 0))
    harness.advance(61.0)
    harness.queue(job("2"))
    assert harness.state("2") is JobState.WAITING


def test_nodes_are_reserved_for_one_job_only(make_harness: HarnessFactory) -> None:
    config = EngineConfig(patience_s=60.0)
    harness = make_harness([node("a"), node("b")], bridges(), config=config)
    for job_id, name in (("1", "a"), ("2", "b")):
        harness.start_elsewhere(f"on-{name}", share(name, 0))
        harness.queue(job(job_id, gpus=8, required=[name]))
    harness.advance(60.0)
    harness.queue(job("20", gpus=7))
    assert harness.placement("20").nodes == ("b",)
    assert "21" in waits(harness.queue(job("21", gpus=7)))


def test_nodes_are_reserved_for_an_older_job_behind_a_newer_head_of_its_group(
    make_harness: HarnessFactory,
) -> None:
    harness = impatient(make_harness)
    harness.queue(job("head", gpus=8, priority=5))
    assert "2" in waits(harness.queue(job("2", gpus=7)))
    assert "3" in placed(harness.queue(job("3", gpus=7, priority=1)))


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


# -- time --------------------------------------------------------------------------------------


def wakes(events: Sequence[Event], harness: EngineHarness) -> list[float]:
    actions = [action for event in events for action in harness.feed(event)]
    return [action.at_s for action in actions if isinstance(action, WakeAt)]


def test_a_wake_up_is_requested_again_only_for_an_earlier_time(
    make_harness: HarnessFactory,
) -> None:
    harness = make_harness([node("a")], bridges())
    begins = [
        JobQueued(at_s=0.0, job=job(str(eligible_s), eligible_s=eligible_s))
        for eligible_s in (50.0, 70.0, 50.0, 40.0)
    ]
    assert wakes(begins, harness) == [50.0, 40.0]
    assert wakes([Tick(at_s=40.0)], harness) == [50.0]
    assert wakes([Tick(at_s=41.0)], harness) == []


def test_no_wake_up_is_requested_for_a_job_that_has_started(make_harness: HarnessFactory) -> None:
    harness = make_harness([node("a")], bridges())
    harness.run(job("1"), job("2"))
    assert wakes([Tick(at_s=10.0)], harness) == []


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
        harness.feed(LoadSeen(at_s=0.0, name=NodeName("a"), load=load_of(value)))
        harness.queue(job(str(position)))
    for features in score.asked:
        assert ((features >= 0) & (features <= 1)).all()


def test_a_job_keeps_its_place_when_only_its_priority_ages(make_harness: HarnessFactory) -> None:
    harness = make_harness([node("a")], bridges())
    spec = job("1", eligible_s=20.0)
    harness.queue(spec)
    assert not change(harness, replace(spec, priority=3))
    assert "1" in placed(harness.advance(20.0))


# -- backfill ----------------------------------------------------------------------------------


def test_no_job_passes_where_passing_is_nobody(make_harness: HarnessFactory) -> None:
    config = EngineConfig(passing=Passing.NOBODY, patience_s=0.0)
    harness = make_harness([node("a")], bridges(), config=config)
    harness.run(job("1", gpus=4))
    harness.queue(job("2", gpus=8, submit_s=1.0), job("3", gpus=1, submit_s=2.0))
    assert harness.engine.waiting() == (JobId("2"), JobId("3"))


def test_a_job_that_ends_in_time_backfills_on_reserved_nodes(make_harness: HarnessFactory) -> None:
    config = EngineConfig(patience_s=0.0)
    harness = make_harness([node("a")], bridges(), config=config)
    harness.run(job("1", gpus=4, time_limit_s=100.0))
    # Job 2 starts when job 1 has ended, at 100 s. Of the four GPUs that are free until then job 4
    # gets two and job 6 gets two; then job 7 does not fit.
    harness.queue(
        job("2", gpus=8, submit_s=1.0),
        job("3", gpus=2, time_limit_s=101.0, submit_s=2.0),
        job("4", gpus=2, time_limit_s=100.0, submit_s=3.0),
    )
    harness.start("4")
    harness.queue(job("5", gpus=2, submit_s=4.0), job("6", gpus=2, time_limit_s=10.0, submit_s=5.0))
    harness.start("6")
    harness.queue(job("7", gpus=2, time_limit_s=10.0, submit_s=6.0))
    assert harness.engine.waiting() == tuple(JobId(job_id) for job_id in "2357")


@pytest.mark.parametrize(("gpus", "passing"), [(2, ["4", "5"]), (3, ["4"])])
def test_all_jobs_that_end_in_time_backfill_in_one_pass(
    make_harness: HarnessFactory, gpus: int, passing: list[str]
) -> None:
    harness = make_harness([node("a")], bridges(), config=EngineConfig(patience_s=0.0))
    harness.run(job("1", gpus=4, time_limit_s=100.0), job("2", gpus=4, time_limit_s=20.0))
    # The node is full, so no job fits and no hint says that one could. When job 2 ends, four GPUs
    # are free until job 1 ends and job 3 gets all eight: job 4 fits, and job 5 if it wants two.
    harness.queue(
        job("3", gpus=8, submit_s=1.0),
        job("4", gpus=2, time_limit_s=10.0, submit_s=2.0),
        job("5", gpus=gpus, time_limit_s=10.0, submit_s=3.0),
    )
    assert list(placed(harness.end("2"))) == passing


# -- preemption --------------------------------------------------------------------------------


def preempting(make_harness: HarnessFactory, policy: FakePreemption) -> EngineHarness:
    """Run a job of low priority on the only node, then queue one of higher priority."""
    config = EngineConfig(stop_timeout_s=30.0)
    policies = Policies(preemption=policy)
    harness = make_harness([node("a")], bridges(), policies=policies, config=config)
    harness.run(job("1", gpus=8, priority=1))
    harness.queue(job("2", gpus=8, priority=2))
    return harness


def test_the_gpus_of_a_stopped_job_go_to_the_waiting_job(make_harness: HarnessFactory) -> None:
    harness = preempting(make_harness, FakePreemption())
    assert harness.state("1") is JobState.STOPPING
    assert "2" in placed(harness.stop("1"))
    assert harness.state("1") is JobState.WAITING


def test_a_job_that_cannot_be_stopped_keeps_running(make_harness: HarnessFactory) -> None:
    harness = preempting(make_harness, FakePreemption())
    harness.refuse_stop("1")
    assert (harness.state("1"), harness.state("2")) == (JobState.RUNNING, JobState.WAITING)


def test_a_job_that_has_not_stopped_in_time_keeps_running(make_harness: HarnessFactory) -> None:
    policy = FakePreemption(lease_s=5.0, renews_leases=True)
    config = EngineConfig(stop_timeout_s=30.0)
    policies = Policies(preemption=policy)
    harness = make_harness([node("a")], bridges(), policies=policies, config=config)
    harness.run(job("1"))
    assert list(preempted(harness.advance(5.0))) == ["1"]
    harness.advance(34.0)
    assert harness.state("1") is JobState.STOPPING
    harness.advance(35.0)
    assert harness.state("1") is JobState.RUNNING


def test_a_wake_up_is_requested_for_the_next_review(make_harness: HarnessFactory) -> None:
    policy = FakePreemption(lease_s=50.0, review_every_s=60.0)
    harness = preempting(make_harness, policy)
    assert harness.state("1") is JobState.RUNNING
    assert WakeAt(at_s=60.0) in harness.advance(10.0)  # after the alarm of the start deadline
    assert list(preempted(harness.advance(60.0))) == ["1"]


def test_speeds_of_known_jobs_are_stored(make_harness: HarnessFactory) -> None:
    harness = make_harness([node("a")], bridges())
    harness.run(job("1"))
    for job_id in ("1", "nobody"):
        harness.feed(SpeedSeen(at_s=0.0, job_id=JobId(job_id), speed_frac=0.5))
    # Ten seconds at half speed are five seconds of work.
    assert harness.engine.record(JobId("1")).efficiency(10.0) == 0.5


def test_link_use_of_running_jobs_is_stored_until_they_stop(
    make_harness: HarnessFactory,
) -> None:
    harness = make_harness([node("a")], bridges())
    harness.run(job("1", gpus=8))
    harness.queue(job("2", gpus=8))
    for job_id in ("1", "2", "nobody"):
        seen = LinksSeen(at_s=0.0, job_id=JobId(job_id), nvlink_frac=None, pcie_frac=0.25)
        harness.feed(seen)
    assert harness.engine.record(JobId("1")).pcie_frac == 0.25
    assert harness.engine.record(JobId("2")).pcie_frac is None
    harness.feed(JobsStopped(at_s=1.0, job_ids=(JobId("1"),)))
    assert harness.engine.record(JobId("1")).pcie_frac is None


def test_a_gate_without_timers_ignores_pins(make_harness: HarnessFactory) -> None:
    harness = make_harness([node("a")], bridges())
    assert harness.feed(TimerPinned(at_s=0.0, timer="rack", pinned_s=5.0)) == ()


def test_shares_are_kept_by_the_predictors_where_there_are_any(
    make_harness: HarnessFactory,
) -> None:
    seen = SharesSeen(at_s=0.0, shares={1001: 0.75, 1002: 0.25})
    assert make_harness([node("a")], bridges()).feed(seen) == ()
    predictors = Predictors()
    engine = Engine(EngineConfig(), Policies(score=HeuristicScore(), predictors=predictors))
    predictors.users.wait(JobId("1"), 1001, 60.0, 1.0, 0.0)
    predictors.users.wait(JobId("2"), 1002, 40.0, 1.0, 0.0)
    assert predictors.users.is_over(1001, 1.0, 0.0)
    assert engine.step(seen) == ()
    assert not predictors.users.is_over(1001, 1.0, 0.0)


# -- a job that can only have certain GPU indices ------------------------------------------------


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
    assert harness.state("1") is JobState.LET_GO
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
    assert harness.state("1") is JobState.LET_GO


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
