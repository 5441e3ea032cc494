"""The delay gate inside the engine: it learns waits, runs and pins, and replays decide alike."""

from dataclasses import replace
from random import Random

import pytest
from tests.engine.conftest import HarnessFactory
from tests.engine.offers import ACROSS, offer, record, shapes_of

from roost_engine.domain.actions import Action, Place, Wait
from roost_engine.domain.events import (
    Event,
    JobEnded,
    JobQueued,
    JobStarted,
    JobWithdrawn,
    NodeSeen,
    SpeedSeen,
    Tick,
    TimerPinned,
    WaitSoFar,
)
from roost_engine.domain.model import JobId, JobSpec
from roost_engine.engine import Engine, EngineConfig
from roost_engine.gate.delay import DelayConfig, DelayGate
from roost_engine.job_record import JobState, shares_of
from roost_engine.plugins.plugins import Policies
from roost_engine.prediction.run_time.history_state import HistoryState
from roost_engine.preemption.rules import LasMovesConfig, las_moves
from roost_engine.testing.builders import EngineHarness, delay_policies, job, node, preempted, share
from roost_engine.testing.fakes import ScriptedGate

HIGH = "8/high"


def eight_gpus(job_id: str, at_s: float = 0.0) -> JobSpec:
    return job(job_id, *shapes_of(8), submit_s=at_s)


def test_a_job_waits_for_its_node_and_the_gate_learns_for_how_long(
    make_harness: HarnessFactory,
) -> None:
    gate = DelayGate()
    harness = make_harness([node(name, rack="r") for name in "abc"], policies=Policies(gate=gate))
    for name in "abc":  # four GPUs are free on a and on b, but no whole node
        harness.start_elsewhere(f"on-{name}", share(name, *range(8 if name == "c" else 4)))
    harness.queue(eight_gpus("1"))
    assert harness.engine.record(JobId("1")).reason.startswith("waits for GPUs on one node")
    harness.advance(90.0)
    harness.end("on-c")
    assert harness.placement("1").nodes == ("c",)
    harness.start()
    (view,) = gate.timers.views(90.0)
    assert (view.name, view.waited_count, view.censored_frac) == (HIGH, 1, 0.0)


def test_after_its_deadline_a_job_takes_the_offer(make_harness: HarnessFactory) -> None:
    gate = DelayGate(DelayConfig(longest_s=60.0))
    nodes = [node(name, rack="r") for name in "abc"]
    harness = make_harness(nodes, policies=delay_policies(gate))
    for name in "abc":
        harness.start_elsewhere(f"on-{name}", share(name, *range(8 if name == "c" else 4)))
    (told, *_) = harness.queue(eight_gpus("1"))
    assert isinstance(told, Wait)
    assert told.until_s == 60.0
    harness.advance(60.0)
    assert harness.placement("1").nodes == ("a", "b")
    harness.start()
    assert gate.timers.views(60.0)[0].censored_frac == 1.0


def test_a_fresh_engine_keeps_the_deadline_of_a_wait_that_began_before_it(
    make_harness: HarnessFactory,
) -> None:
    def harness_at(at_s: float) -> EngineHarness:
        gate = DelayGate(DelayConfig(longest_s=60.0))
        nodes = [node(name, rack="r") for name in "abc"]
        harness = make_harness(nodes, policies=delay_policies(gate))
        harness.now_s = at_s
        for name in "abc":
            harness.start_elsewhere(f"on-{name}", share(name, *range(8 if name == "c" else 4)))
        return harness

    harness = harness_at(0.0)
    harness.queue(eight_gpus("1"))
    for at_s in (20.0, 40.0):
        wait = harness.engine.record(JobId("1")).wait
        assert (wait.since_s, wait.declined_s) == (0.0, (0.0, None))
        harness = harness_at(at_s)
        harness.feed(JobQueued(at_s=at_s, job=eight_gpus("1"), wait=wait))
        assert harness.engine.record(JobId("1")).until_s == 60.0
    harness.advance(60.0)
    assert harness.placement("1").nodes == ("a", "b")


def test_a_tier_that_a_job_can_never_have_is_no_part_of_its_wait() -> None:
    gate = DelayGate(DelayConfig(idle_frac=1.0))
    wait = WaitSoFar(since_s=0.0, declined_s=(5.0, 7.0))
    waiter = record(gpus=16)
    waiter.continue_wait(wait, 10.0)
    assert waiter.was_deferred
    gate.decide(offer(waiter, ACROSS, 10.0))
    ((_, open_wait),) = gate.state().waits
    assert open_wait.since_s == [None, 7.0]


def test_a_pin_applies_to_jobs_that_already_wait(make_harness: HarnessFactory) -> None:
    gate = DelayGate()
    nodes = [node(name, rack="r") for name in "abc"]
    harness = make_harness(nodes, policies=delay_policies(gate))
    for name in "abc":
        harness.start_elsewhere(f"on-{name}", share(name, *range(8 if name == "c" else 4)))
    harness.queue(eight_gpus("1"))
    assert not harness.engine.record(JobId("1")).placement
    harness.feed(TimerPinned(at_s=10.0, timer=HIGH, pinned_s=0.0))
    assert harness.placement("1").nodes == ("a", "b")
    harness.feed(TimerPinned(at_s=10.0, timer=HIGH, pinned_s=None))
    assert gate.timers.pins == {}


def test_a_gate_that_is_not_tuned_ignores_pins(make_harness: HarnessFactory) -> None:
    harness = make_harness([node("a")], policies=Policies(gate=ScriptedGate()))
    assert harness.feed(TimerPinned(at_s=1.0, timer=HIGH, pinned_s=5.0)) == ()


def test_the_gate_learns_each_run_once_with_its_reported_speed(
    make_harness: HarnessFactory,
) -> None:
    gate = DelayGate()
    harness = make_harness([node("a")], policies=delay_policies(gate))
    harness.queue(eight_gpus("1"))
    harness.start()
    harness.feed(SpeedSeen(at_s=0.0, job_id=JobId("1"), speed_frac=0.5))
    harness.advance(100.0)
    harness.end("1")
    known = gate.predictors.state().history
    assert (known.last_s[0, 0], known.running) == (50.0, ())
    assert known.ended[0].sum() == pytest.approx(1.0)


def test_the_gate_learns_nothing_from_jobs_that_never_ran(make_harness: HarnessFactory) -> None:
    gate = DelayGate()
    harness = make_harness([node("a", 4)], policies=delay_policies(gate))
    harness.start_elsewhere("2", share("a", 0, 1, 2, 3))
    harness.queue(job("1"))
    harness.feed(JobEnded(at_s=5.0, job_id=JobId("1")))
    harness.end("2")  # Slurm placed this job itself: its request is unknown
    assert gate.predictors.state().history == HistoryState()


class _Day:
    """A day of a small cluster: the events for an engine with the delay gate, and its actions."""

    def __init__(self, seed: int) -> None:
        self.gate = DelayGate()
        self.engine = Engine(EngineConfig(), delay_policies(self.gate))
        self.events: list[Event] = []
        self.answers: list[tuple[Action, ...]] = []
        self._play(Random(seed))

    def _play(self, random: Random) -> None:
        for number in range(6):
            self._tell(NodeSeen(at_s=0.0, node=node(f"n{number}", rack=f"r{number // 3}")))
        ends: list[tuple[float, JobId]] = []
        at_s = 0.0
        for number in range(250):
            at_s += random.expovariate(1 / 60.0)
            while ends and ends[0][0] <= at_s:
                end_s, job_id = ends.pop(0)
                self._tell(JobEnded(at_s=end_s, job_id=job_id))
                self._start(end_s, ends, random)
            gpus = random.choice([1, 2, 4, 8, 8, 16])
            spec = job(f"{number}", *shapes_of(gpus), user_id=number % 3, submit_s=at_s)
            self._tell(JobQueued(at_s=at_s, job=spec))
            if random.random() < 0.05:
                self._tell(JobWithdrawn(at_s=at_s, job_id=spec.job_id, reason="held"))
            if random.random() < 0.02:
                pinned_s = random.choice([None, 30.0])
                self._tell(TimerPinned(at_s=at_s, timer=HIGH, pinned_s=pinned_s))
            self._tell(Tick(at_s=at_s))
            self._start(at_s, ends, random)

    def _tell(self, event: Event) -> None:
        self.events.append(event)
        self.answers.append(self.engine.step(event))

    def _start(self, at_s: float, ends: list[tuple[float, JobId]], random: Random) -> None:
        begun = {event.job_id for event in self.events if isinstance(event, JobStarted)}
        for actions in self.answers[-3:]:
            for action in actions:
                if isinstance(action, Place) and action.job_id not in begun:
                    begun.add(action.job_id)
                    shares = shares_of(action.placement)
                    self._tell(JobStarted(at_s=at_s, job_id=action.job_id, shares=shares))
                    ends.append((at_s + random.uniform(60.0, 3_000.0), action.job_id))
        ends.sort()


@pytest.mark.parametrize("seed", range(3))
def test_a_replay_decides_and_learns_the_same(seed: int) -> None:
    day = _Day(seed)
    day.engine.check_invariants()
    gate = DelayGate()
    engine = Engine(EngineConfig(), delay_policies(gate))
    again = [engine.step(event) for event in day.events]
    assert [repr(actions) for actions in again] == [repr(actions) for actions in day.answers]
    assert gate.state() == day.gate.state()
    assert any(isinstance(a, Wait) and a.until_s for actions in day.answers for a in actions)


def wants_a_node(make_harness: HarnessFactory, *, serves_deferred: bool) -> EngineHarness:
    """Fill three nodes so that a job for eight GPUs could have two halves, or wait for a node."""
    rule = las_moves(LasMovesConfig(serves_deferred=serves_deferred))
    policies = replace(delay_policies(DelayGate()), preemption=rule)
    harness = make_harness([node(name, rack="r") for name in "abc"], policies=policies)
    for name in "ab":
        harness.start_elsewhere(f"on-{name}", share(name, *range(4)))
    harness.run(job("1", gpus=8, required=["c"]))
    harness.queue(eight_gpus("2"))
    assert harness.engine.record(JobId("2")).reason.startswith("waits for GPUs on one node")
    return harness


def test_a_job_that_waits_for_a_node_displaces_a_job_there(make_harness: HarnessFactory) -> None:
    harness = wants_a_node(make_harness, serves_deferred=True)
    assert preempted(harness.advance(359.0)) == {}
    assert preempted(harness.advance(360.0)) == {"1": "2"}
    harness.stop("1")
    assert harness.placement("2").nodes == ("c",)


def test_under_other_rules_a_job_that_has_an_offer_displaces_no_job(
    make_harness: HarnessFactory,
) -> None:
    harness = wants_a_node(make_harness, serves_deferred=False)
    assert preempted(harness.advance(7_200.0)) == {}


def test_a_job_that_waits_displaces_no_job_for_a_place_that_is_no_closer(
    make_harness: HarnessFactory,
) -> None:
    rule = las_moves(LasMovesConfig(serves_deferred=True))
    policies = replace(delay_policies(DelayGate()), preemption=rule)
    harness = make_harness([node(name, rack="r") for name in "abc"], policies=policies)
    for name in "abc":  # no node could be cleared as a whole: these jobs are not Roost's
        harness.start_elsewhere(f"on-{name}", share(name, *range(4)))
    harness.run(job("1", gpus=4, required=["c"]))
    harness.queue(eight_gpus("2"))
    assert preempted(harness.advance(360.0)) == {}
    assert harness.state("2") is JobState.WAITING
