"""slots: whatever a policy raises or answers, the heuristic answers and the fault is told."""

from collections.abc import Callable, Sequence
from math import inf, nan
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from tests.engine import offers
from tests.engine.conftest import HarnessFactory

from roost_engine.domain.actions import PolicyFailed
from roost_engine.domain.config import EngineConfig
from roost_engine.domain.errors import PolicyError
from roost_engine.domain.events import JobStarted
from roost_engine.domain.model import JobId
from roost_engine.domain.tier import Tier
from roost_engine.gate.delay import DelayGate
from roost_engine.job_record import JobRecord, JobState
from roost_engine.plugins.plugins import HEURISTICS, Policies
from roost_engine.policies.heuristics import PriorityOrder
from roost_engine.policies.protocols import (
    Allow,
    Defer,
    GateVerdict,
    Offer,
    QueueMark,
    QueueView,
    SortKey,
    WaitEnded,
)
from roost_engine.policies.slots import RUN_TIMES, FaultLog, GateSlot
from roost_engine.prediction.speed.job_class import TimerClass
from roost_engine.preemption.rules import DisplaceBy, widest_first
from roost_engine.queue.orders import attained_service
from roost_engine.scoring.heuristic import HeuristicScore
from roost_engine.testing.builders import EngineHarness, bridges, job, node, placed, share
from roost_formats.journal.codec import encode

Sound = Callable[[], Any]
"""Gives the answer of a policy that works."""


class Unreadable(Exception):
    """An error without a text."""

    def __str__(self) -> str:
        raise ValueError

    __repr__ = __str__


class Evasive:
    """An answer that fails when it is read."""

    def __bool__(self) -> bool:
        raise ZeroDivisionError

    def __gt__(self, other: object) -> bool:
        return True


def _raises(error: Exception) -> Callable[[Sound], Any]:
    def fail(sound: Sound) -> Any:
        raise error

    return fail


def _as_array(sound: Sound) -> Any:
    answer = sound()
    return np.asarray(answer, dtype=None if isinstance(answer, np.ndarray) else object)


FAULTS: Sequence[Callable[[Sound], Any]] = (
    _raises(PolicyError("out of service: it was too slow")),
    _raises(ValueError("a bug")),
    _raises(RecursionError()),
    _raises(MemoryError()),
    _raises(Unreadable()),
    lambda sound: None,
    lambda sound: nan,
    lambda sound: "unknown",
    lambda sound: (),
    lambda sound: [JobId("nobody's")],
    lambda sound: -1.0,
    lambda sound: 10**400,  # more than a float can hold
    lambda sound: np.array([nan, 1.0]),
    lambda sound: np.array([1.0, 2.0]),
    lambda sound: (None,),
    lambda sound: (nan, "text"),
    lambda sound: ("text", 1.0),
    lambda sound: Evasive(),
    lambda sound: Defer(nan, "waits for no time"),
    lambda sound: Defer(-inf, "waits for the past"),
    lambda sound: Defer(10**400, "waits for ever"),
    lambda sound: Defer(1e9, Evasive()),  # type: ignore[arg-type]
    lambda sound: [*sound(), *sound()],  # each job twice, or twice as many scores
    lambda sound: (answer for answer in sound()),
    lambda sound: _as_array(sound)[:-1],
    lambda sound: _as_array(sound)[:, None],
    lambda sound: list(_as_array(sound)),
    # A policy that works now and then, so that its faults meet every question.
    lambda sound: sound(),
)
WORKS = len(FAULTS) - 1
RULE = DisplaceBy(attained_service, safe_s=10.0, round_s=10.0)


class Broken:
    """Answers every question of every Protocol with the next of some faults."""

    name = "broken"

    def __init__(self, faults: Sequence[int]) -> None:
        self._faults, self._position = faults, 0

    def _answer(self, sound: Sound) -> Any:
        self._position += 1
        return FAULTS[self._faults[self._position % len(self._faults)]](sound)


class BrokenOrder(Broken):
    def rank(self, view: QueueView) -> Sequence[JobId]:
        found: Sequence[JobId] = self._answer(lambda: PriorityOrder().rank(view))
        return found


class BrokenKeys(BrokenOrder):
    def key(self, job: JobRecord, at_s: float) -> SortKey:
        found: SortKey = self._answer(lambda: PriorityOrder().key(job, at_s))
        return found


class BrokenRefresh(BrokenOrder):
    def is_outdated(self, ranked: QueueMark, now: QueueMark) -> bool:
        found: bool = self._answer(lambda: True)
        return found


class BrokenGate(Broken):
    def decide(self, offer: Offer) -> GateVerdict:
        found: GateVerdict = self._answer(Allow)
        return found

    def note(self, outcome: WaitEnded) -> None:
        self._answer(lambda: None)


class BrokenScore(Broken):
    def score(self, features: NDArray[np.float32]) -> NDArray[np.float32]:
        found: NDArray[np.float32] = self._answer(lambda: HeuristicScore().score(features))
        return found


class BrokenRowwise(BrokenScore):
    is_rowwise = True


class BrokenPreemption(Broken):
    @property
    def renews_leases(self) -> bool:
        found: bool = self._answer(lambda: False)
        return found

    def lease_s(self, job: JobRecord) -> float:
        found: float = self._answer(lambda: RULE.lease_s(job))
        return found

    def first_to_go(self, running: Sequence[JobRecord], at_s: float) -> Sequence[JobRecord]:
        found: Sequence[JobRecord] = self._answer(lambda: RULE.first_to_go(running, at_s))
        return found

    def displaces(self, job: JobRecord, victim: JobRecord, at_s: float) -> bool:
        found: bool = self._answer(lambda: RULE.displaces(job, victim, at_s))
        return found

    def review_s(self, at_s: float) -> float:
        found: float = self._answer(lambda: RULE.review_s(at_s))
        return found

    def approve(self, job: JobRecord, victims: Sequence[JobRecord], at_s: float) -> bool:
        found: bool = self._answer(lambda: True)
        return found

    def movers(self, running: Sequence[JobRecord], at_s: float) -> Sequence[JobRecord]:
        found: Sequence[JobRecord] = self._answer(lambda: widest_first(running))
        return found

    def approve_move(self, job: JobRecord, tier: int, at_s: float) -> bool:
        found: bool = self._answer(lambda: True)
        return found


class BrokenRanking(BrokenPreemption):
    ranks_by_runs = False

    def displaced_count(self, job: JobRecord, ranked: Sequence[JobRecord], at_s: float) -> int:
        found: int = self._answer(lambda: RULE.displaced_count(job, ranked, at_s))
        return found


KINDS: dict[str, Callable[[Sequence[int]], Policies]] = {
    "order": lambda faults: Policies(order=BrokenOrder(faults)),
    "keys": lambda faults: Policies(order=BrokenKeys(faults)),
    "refresh": lambda faults: Policies(order=BrokenRefresh(faults)),
    "gate": lambda faults: Policies(gate=BrokenGate(faults)),
    "score": lambda faults: Policies(score=BrokenScore(faults)),
    "rowwise": lambda faults: Policies(score=BrokenRowwise(faults)),
    "preemption": lambda faults: Policies(preemption=BrokenPreemption(faults)),
    "ranking": lambda faults: Policies(preemption=BrokenRanking(faults)),
    "all": lambda faults: Policies(
        order=BrokenKeys(faults),
        gate=BrokenGate(faults),
        score=BrokenScore(faults),
        preemption=BrokenPreemption(faults),
    ),
}


def a_day(policies: Policies) -> EngineHarness:
    """Twenty jobs come, run and end on two nodes, while others wait past their patience."""
    nodes = [node(name, rack="r") for name in "ab"]
    # Jobs that are placed within an advance are started after it, at most 400 s later.
    config = EngineConfig(patience_s=30.0, start_timeout_s=500.0)
    harness = EngineHarness(nodes, bridges(), config=config, policies=policies)
    for number in range(20):
        gpus, count = ((4, 1), (8, 2), (2, 1), (8, 1))[number % 4]
        spec = job(f"{number}", gpus=gpus, nodes=count, submit_s=harness.now_s, time_limit_s=50.0)
        harness.queue(spec)
        harness.start()
        harness.advance(harness.now_s + 20.0)
        for job_id, record in list(harness.engine.records()):
            if record.state is JobState.RUNNING and number % 3 == 0:
                harness.end(job_id)
    for _ in range(60):
        harness.start()
        harness.advance(harness.now_s + 400.0)
        for job_id, record in list(harness.engine.records()):
            if record.state in (JobState.RUNNING, JobState.STOPPING):
                harness.end(job_id)
    return harness


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=25, deadline=None)
@given(faults=st.lists(st.one_of(st.just(WORKS), st.integers(0, WORKS)), min_size=1, max_size=9))
@example(faults=[13, 13, WORKS, WORKS, WORKS, WORKS, WORKS, WORKS, 0])
def test_no_fault_escapes_a_step_or_keeps_a_job_from_running(kind: str, faults: list[int]) -> None:
    harness = a_day(KINDS[kind](faults))
    harness.engine.check_invariants()
    assert list(harness.engine.records()) == []
    for action in harness.actions:
        encode(action)  # the journal can keep it, explanations too


@pytest.mark.parametrize("kind", ["order", "keys", "gate", "preemption"])
def test_a_policy_that_always_fails_decides_as_the_heuristic(kind: str) -> None:
    broken, default = a_day(KINDS[kind]([1])), a_day(Policies())
    assert placed(broken.actions) == placed(default.actions)
    slot = "order" if kind == "keys" else kind
    told = [action for action in broken.actions if isinstance(action, PolicyFailed)]
    assert {(action.slot, action.policy) for action in told} == {(slot, "broken")}
    assert "a bug" in told[0].reason
    assert broken.engine.fault_counts[slot] >= len(told) > 0


def test_a_failing_score_is_told_in_the_decision(make_harness: HarnessFactory) -> None:
    harness = make_harness([node("a")], bridges(), policies=Policies(score=BrokenScore([1])))
    harness.run(job("1"))
    decision = harness.engine.record(JobId("1")).decision
    assert decision is not None
    assert decision.get().policy == "heuristic"
    assert "a bug" in decision.get().fallback_reason
    assert harness.engine.fault_counts["score"] == harness.engine.fallback_count == 1


def test_a_fault_is_reported_once_a_step(make_harness: HarnessFactory) -> None:
    harness = make_harness([node("a")], bridges(), policies=Policies(order=BrokenOrder([0])))
    actions = harness.queue(job("1"))
    (told,) = (action for action in actions if isinstance(action, PolicyFailed))
    assert (told.slot, told.policy) == ("order", "broken")
    assert told.reason == "out of service: it was too slow"


def test_the_questions_that_failed_are_numbered(make_harness: HarnessFactory) -> None:
    class FailsSometimes:
        """A gate that fails at questions 1, 2 and 4."""

        def __init__(self) -> None:
            self.asked_count = 0

        def decide(self, offer: Offer) -> GateVerdict:
            self.asked_count += 1
            if self.asked_count - 1 in (1, 2, 4):
                raise PolicyError("too slow")
            return Allow()

        def note(self, outcome: WaitEnded) -> None:
            pass

    gate = FailsSometimes()
    harness = make_harness([node("a")], bridges(), policies=Policies(gate=gate))
    # Roost only advises on these jobs, so that the gate is told of no wait.
    jobs = [job(str(number), gpus=1, binding=False) for number in range(6)]
    actions = [action for one in jobs for action in harness.queue(one)]
    failed = [action.questions for action in actions if isinstance(action, PolicyFailed)]
    assert gate.asked_count == 6
    assert failed == [((1, 1),), ((2, 1),), ((4, 1),)]


def test_failed_questions_of_a_step_are_joined_and_limited() -> None:
    faults = FaultLog()
    for question in (*range(7, 9), 12, *range(20, 2_000, 2)):
        faults.note("gate", "broken", question, PolicyError("too slow"))
    (failed,) = faults.take()
    assert failed.questions[:3] == ((7, 2), (12, 1), (20, 1))
    assert len(failed.questions) == 256
    assert faults.counts["gate"] == 993
    faults.note("gate", "broken", 9_000, PolicyError("too slow"))
    assert faults.take()[0].questions == ((9_000, 1),)


class Noting:
    """Keeps Slurm's order; remembers the jobs that it was shown, of which it fails at one."""

    name = "noting"

    def __init__(self, failing: str = "") -> None:
        self.noted, self._failing = list[tuple[JobId, float]](), failing

    def note(self, job: JobRecord, at_s: float) -> None:
        if job.job_id == self._failing:
            raise PolicyError("no such job")
        self.noted.append((job.job_id, at_s))

    def rank(self, view: QueueView) -> Sequence[JobId]:
        return PriorityOrder().rank(view)


def test_an_order_without_keys_is_shown_a_job_when_it_is_queued(
    make_harness: HarnessFactory,
) -> None:
    order = Noting()
    harness = make_harness([node("a")], bridges(), policies=Policies(order=order))
    harness.run(job("1", gpus=8))
    order.noted.clear()
    harness.queue(job("2", gpus=8))
    harness.queue(job("3", gpus=8))
    assert [job_id for job_id, _ in order.noted] == ["2", "3"]  # no GPU is free: nothing is ranked


def test_a_fault_at_a_queued_job_is_reported_and_the_job_is_ranked_all_the_same(
    make_harness: HarnessFactory,
) -> None:
    policies = Policies(order=Noting(failing="2"))
    harness = make_harness([node("a")], bridges(), policies=policies)
    harness.run(job("1", gpus=8))
    (told,) = (one for one in harness.queue(job("2", gpus=8)) if isinstance(one, PolicyFailed))
    assert (told.slot, told.reason) == ("order", "no such job")
    assert list(placed(harness.end("1"))) == ["2"]


def test_an_order_that_says_so_is_asked_again(make_harness: HarnessFactory) -> None:
    class Fickle:
        """Serves the last first; asked again whenever nodes were freed."""

        def __init__(self) -> None:
            self.views: list[QueueView] = []

        def rank(self, view: QueueView) -> Sequence[JobId]:
            self.views.append(view)
            return [record.job_id for record in reversed(view.jobs)]

        def is_outdated(self, ranked: QueueMark, now: QueueMark) -> bool:
            return now.freed_count > ranked.freed_count

    order = Fickle()
    harness = make_harness([node("a")], bridges(), policies=Policies(order=order))
    harness.run(job("1", gpus=8))
    harness.queue(job("2", gpus=8), job("3", gpus=8))
    asked = len(order.views)
    assert list(placed(harness.end("1"))) == ["3"]
    assert len(order.views) == asked + 1
    assert order.views[-1].cluster is harness.engine.cluster


def test_every_slot_has_a_name(make_harness: HarnessFactory) -> None:
    harness = make_harness([node("a")])
    assert harness.engine.policy_names == {
        "order": "priority",
        "gate": "open",
        "score": "heuristic",
        "preemption": "none",
    }
    # The default policies are the heuristics, and no policy asks for run times.
    assert {**harness.engine.policy_names, RUN_TIMES: "history"} == HEURISTICS
    assert set(harness.engine.fault_counts) == set(harness.engine.policy_names)


def test_a_verdict_is_taken_as_it_is(make_harness: HarnessFactory) -> None:
    class Patient:
        def decide(self, offer: Offer) -> GateVerdict:
            return Allow() if offer.at_s >= 5.0 else Defer(inf, "waits for ever")

        def note(self, outcome: WaitEnded) -> None:
            pass

    harness = make_harness([node("a")], bridges(), policies=Policies(gate=Patient()))
    assert not placed(harness.queue(job("1")))
    assert harness.engine.fault_counts["gate"] == 0


class Stubborn:
    """A gate that lets every job wait, now for seconds and now for ever."""

    name = "stubborn"

    def __init__(self, waits_s: Sequence[float]) -> None:
        self._waits_s, self.asked_s = waits_s, list[float]()

    def decide(self, offer: Offer) -> GateVerdict:
        self.asked_s.append(offer.at_s)
        wait_s = self._waits_s[len(self.asked_s) % len(self._waits_s)]
        return Defer(offer.at_s + wait_s, "waits for a better day")

    def note(self, outcome: WaitEnded) -> None:
        pass


@given(
    waits_s=st.lists(st.floats(0.5, 1e6) | st.just(inf), min_size=1, max_size=5),
    longest_s=st.floats(1.0, 200.0),
    queued_s=st.floats(0.0, 1e5),
    freed_s=st.floats(0.0, 400.0),
)
def test_no_gate_lets_a_job_wait_for_longer_than_the_slot_allows(
    waits_s: list[float], longest_s: float, queued_s: float, freed_s: float
) -> None:
    gate, config = Stubborn(waits_s), EngineConfig(gate_longest_s=longest_s)
    harness = EngineHarness([node("a")], config=config, policies=Policies(gate=gate))
    harness.feed(JobStarted(at_s=queued_s, job_id=JobId("0"), shares=(share("a", *range(8)),)))
    assert not placed(harness.queue(job("1")))
    harness.advance(queued_s + freed_s)
    # At the end of its longest wait, or as soon as there is an offer after that.
    due_s = max(queued_s + longest_s, queued_s + freed_s)
    actions = [*harness.end("0"), *harness.advance(due_s)]
    assert list(placed(actions)) == ["1"]
    assert gate.asked_s[-1] == due_s
    # A gate that is asked after that for the first time has let no job wait.
    is_first_offer_in_time = queued_s + freed_s < queued_s + longest_s
    failures = [action.reason for action in actions if isinstance(action, PolicyFailed)]
    assert harness.engine.fault_counts["gate"] == len(failures) == is_first_offer_in_time
    assert all(
        reason == "stubborn lets job 1 wait on for 'waits for a better day', after the"
        f" {longest_s:g} s that engine.gate_longest_s allows"
        for reason in failures
    )


def test_the_delay_gate_has_not_failed_where_the_first_offer_comes_after_the_longest_wait() -> None:
    """The gate counts from the first offer, the limit on every gate from the queue on."""
    longest_s, faults = 30 * 86_400.0, FaultLog()
    gate = DelayGate()
    gate.timers.pin(str(TimerClass.of(8, 0.5)), 3_600.0)
    slot, waiting = GateSlot(gate, faults, longest_s), offers.record()
    late = offers.offer(waiting, Tier.RACK, longest_s + 86_400.0)
    assert isinstance(gate.decide(late), Defer)
    assert slot.decide(late) == Allow()
    assert faults.counts["gate"] == 0

    waiting.note_declined(Tier.RACK, longest_s - 60.0)
    assert slot.decide(late) == Allow()
    assert faults.counts["gate"] == 1
