"""One simulation that stops at each decision of the placement slot or of the gate slot.

The engine decides inside `Engine.step` and cannot be stopped there. The order slot has a door
(`picked_order`); placement and gate do not: which job is offered what is only known within a pass,
behind reservations, backfill and preemption. So the whole simulation runs in a thread of its own,
and the engine's plug-in is a policy that hands the question over and waits for the answer. One of
the two threads always waits for the other, so a run is as deterministic as any. The engine is the
usual one, and with its own policy's answers the run is the usual run, event by event.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import partial
from math import inf
from queue import SimpleQueue
from threading import Thread
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from roost_engine.gate.model_gate import GateLimits
from roost_engine.gate.offer_features import context_of, offer_of
from roost_engine.plugins.plugins import Policies
from roost_engine.plugins.policy_kinds import communication
from roost_engine.policies.protocols import (
    Allow,
    ClusterScore,
    Defer,
    GatePolicy,
    GateVerdict,
    Offer,
    ScorePolicy,
    ScoreQuestion,
    WaitEnded,
)
from roost_engine.prediction.predictors import Predictors
from roost_engine.scoring.graph_score import GraphScore
from roost_engine.scoring.heuristic import HeuristicScore
from roost_formats.models.score import GRAPH_MODEL, load_onnx_graph
from roost_sim.figures.outcome import Outcome
from roost_sim.information.policy_information import PolicyInformation
from roost_sim.runs.simulation import Run, introduce, prepare
from roost_train.environments.copies import Report, run_copies
from roost_train.environments.decision_run import Choices
from roost_train.environments.rewards import RATES, Reward
from roost_train.environments.slot_views import SlotInput

CANDIDATE_COUNT = 32
_CLOSE = -1


class Slot(StrEnum):
    """Which decision of a pass an agent makes."""

    ORDER = "order"
    PLACEMENT = "placement"
    GATE = "gate"


class Reads(StrEnum):
    """What an agent reads of a candidate in the placement slot; it makes a model of that kind."""

    SCORE = "score"  # the candidate by itself
    GRAPH = "graph"  # the job and what surrounds the candidate too, by the graph that ships


class _Closed(BaseException):
    """Ends the simulation's thread: the engine catches whatever else a policy raises."""


# What comes from the thread: a decision, the end, or what went wrong.
_Message: TypeAlias = "Choices[SlotInput] | BaseException | None"
# (what is seen, mask, the teacher's action) to the action
_Ask: TypeAlias = Callable[[SlotInput, NDArray[np.bool_], int], int]


@dataclass(frozen=True, slots=True)
class _Trial:
    """The agent's wish to know what actions would come to, in place of its answer."""

    actions: Sequence[int]
    ahead_s: float
    follow: Callable[[Choices[SlotInput]], int] | None


class SlotRun:
    """A decision_run.DecisionRun; see the module.

    Args:
        run: what to simulate. The agent decides in the place of one part of its policy.
        slot: which part; not the order.
        reward: what is added up between decisions.
        candidate_count: of a placement, the most to choose from: the best by the heuristic.
        warm_count: the teacher decides until so many jobs have arrived, and nothing counts.
        limits: of the gate slot.
        reads: of the placement slot.
    """

    def __init__(
        self,
        run: Run,
        slot: Slot,
        reward: Reward = Reward.COMPLETION,
        *,
        candidate_count: int = CANDIDATE_COUNT,
        warm_count: int = 0,
        limits: GateLimits | None = None,
        reads: Reads = Reads.SCORE,
    ) -> None:
        self._slot, self._run, self._reads = slot, run, reads
        self.seed, self.forced_count = run.seed, 0
        self._candidate_count, self._limits = candidate_count, limits or GateLimits()
        self._rate, self._gpu_count = RATES[reward], run.cluster.gpu_count
        self._warm_count, self._reward, self._counts = warm_count, 0.0, not warm_count
        self._since_s, self._horizon_s = 0.0, inf
        self._report: Report | None = None  # of a copy that is run ahead
        self._follow: Callable[[Choices[SlotInput]], int] | None = None
        prepared = prepare(run, self._build)
        self.driver, self._arrivals = prepared.driver, prepared.arrivals
        self._questions: SimpleQueue[_Message] = SimpleQueue()
        self._answers: SimpleQueue[int | _Trial] = SimpleQueue()
        self._outcomes: SimpleQueue[NDArray[np.float64] | BaseException] = SimpleQueue()
        self._due: Choices[SlotInput] | None = None
        self._teachers = 0
        self._has_begun = self._is_over = False

    def _build(self, information: PolicyInformation) -> Policies:
        """Make the policies of the run, with the asking policy in one slot."""
        policies = self._run.policy.build(information)
        predictors = policies.predictors or Predictors(information.speed_table())
        if self._slot is Slot.GATE:
            gate = _AskedGate(policies.gate, predictors, self._ask, self._limits)
            return replace(policies, gate=gate, predictors=predictors)
        score = _AskedScore(policies.score, predictors, self._ask, self._candidate_count)
        score.is_handed_over = self._is_handed_over
        if self._reads is Reads.GRAPH:
            score.graph = load_onnx_graph(GRAPH_MODEL, lambda: 0.0)
            score.graph.expect(partial(communication, predictors.speed, information.speed_table()))
        return replace(policies, score=score, predictors=predictors)

    # -- the agent's side ------------------------------------------------------------------

    def next_choices(self) -> Choices[SlotInput] | None:
        """Advance to the next decision; None: every job has ended."""
        if self._is_over:
            return None
        if not self._has_begun:
            self._has_begun = True
            Thread(target=self._simulate, name=f"episode {self.seed}", daemon=True).start()
        message = self._questions.get()
        if isinstance(message, BaseException):
            self._is_over = True
            raise message
        self._due, self._is_over = message, message is None
        return message

    def choose(self, action: int) -> None:
        """Carry a decision out.

        Raises:
            ValueError: the mask forbids it, or no decision is due.
        """
        if self._due is None or not self._due.mask[action]:
            raise ValueError(f"action {action} may not be chosen now")
        self._due = None
        self._answers.put(action)

    def outcomes(
        self,
        actions: Sequence[int],
        ahead_s: float,
        follow: Callable[[Choices[SlotInput]], int] | None,
    ) -> NDArray[np.float64]:
        """Return the reward from the due decision to a horizon after each action, [action].

        The simulation's own thread forks the process, once for each action; it stays where it is.

        Args:
            actions: allowed ones.
            ahead_s: to the horizon; inf: to the end of the run.
            follow: decides after the action; None: the teacher does.

        Raises:
            ValueError: the mask forbids an action, or no decision is due.
            TrainError: a copy failed.
        """
        if self._due is None or not self._due.mask[list(actions)].all():
            raise ValueError(f"actions {list(actions)} may not be chosen now")
        self._answers.put(_Trial(actions, ahead_s, follow))
        found = self._outcomes.get()
        if isinstance(found, BaseException):
            raise found
        return found

    def teachers_choice(self, choices: Choices[SlotInput]) -> int:
        """Return the action of the run's own policy in this slot."""
        return self._teachers

    def take_reward(self) -> float:
        """Return what was added up since the last call of this, or the last choices."""
        reward, self._reward = self._reward, 0.0
        return reward

    def finish(self) -> Outcome:
        """Return the results of a run that is over."""
        return self.driver.finish()

    def close(self) -> None:
        """Give up a run that is not over: its thread ends."""
        if not self._has_begun or self._is_over:
            return
        message = self._due or self._questions.get()
        self._due, self._is_over = None, True
        if isinstance(message, Choices):
            self._answers.put(_CLOSE)

    # -- the simulation's side, in its own thread --------------------------------------------

    def _simulate(self) -> None:
        failure: BaseException | None = None
        try:
            driver = self.driver
            driver.begin(introduce(self._run.cluster), self._arrivals)
            while driver.now_s < self._horizon_s and self._advance():
                pass
        except _Closed:
            return
        except BaseException as error:  # noqa: BLE001  raised again in the agent's thread
            failure = error
        if self._report is None:
            self._questions.put(failure)
        elif failure is None:
            self._report.outcome(self._reward)
        else:
            self._report.failure(failure)

    def _advance(self) -> bool:
        """Advance by one moment, and add up the reward until then.

        A decision within the moment belongs to its time: what the time before it was worth is
        added when the plug-in asks (`_add_up`), at the rate from before the moment.
        """
        self._present_rate = self._rate(self.driver, self._gpu_count)
        moved = self.driver.advance()
        self._add_up()
        return moved

    def _add_up(self) -> None:
        now_s = min(self.driver.now_s, self._horizon_s)
        self._reward += self._present_rate * (now_s - self._since_s)
        self._since_s = now_s

    def _ask(self, seen: SlotInput, mask: NDArray[np.bool_], teachers: int) -> int:
        if mask.sum() == 1:
            self.forced_count += 1
            return int(np.argmax(mask))
        if self.driver.arrived_count < self._warm_count:
            return teachers
        if self._report is not None:
            return self._followed(seen, mask, teachers)
        self._add_up()
        reward = self.take_reward() if self._counts else 0.0
        if not self._counts:
            self._counts, self._reward = True, 0.0
        self._teachers = teachers
        at_s = self.driver.now_s
        self._questions.put(Choices(at_s=at_s, seen=seen, mask=mask, reward=reward))
        while isinstance(answer := self._answers.get(), _Trial):
            if (action := self._tried(answer)) is not None:
                return action
        if answer == _CLOSE:
            raise _Closed
        return answer

    def _tried(self, trial: _Trial) -> int | None:
        """Run a copy ahead for each action; returns the action in the copies."""
        try:
            found = run_copies(len(trial.actions))
        except BaseException as error:  # noqa: BLE001  raised again in the agent's thread
            self._outcomes.put(error)
            return None
        if isinstance(found, tuple):
            number, self._report = found
            self._follow = trial.follow
            self._horizon_s = self.driver.now_s + trial.ahead_s
            return trial.actions[number]
        self._outcomes.put(found)
        return None

    def _is_handed_over(self) -> bool:
        """Whether this is a copy in which the teacher decides: nothing need be described."""
        return self._report is not None and self._follow is None

    def _followed(self, seen: SlotInput, mask: NDArray[np.bool_], teachers: int) -> int:
        """Return the action in a copy that is run ahead."""
        if self._follow is None:
            return teachers
        self._teachers = teachers
        choices = Choices(at_s=self.driver.now_s, seen=seen, mask=mask, reward=0.0)
        try:
            return self._follow(choices)
        except Exception as error:  # noqa: BLE001  the engine would let its heuristic answer
            assert self._report is not None
            self._report.failure(error)


class _AskedScore:
    """A ClusterScore that lets an agent pick one of the candidates."""

    name = "asked"

    def __init__(
        self, teacher: ScorePolicy, predictors: Predictors, ask: _Ask, candidate_count: int
    ) -> None:
        self._teacher, self._predictors, self._ask = teacher, predictors, ask
        self._candidate_count, self._heuristic = candidate_count, HeuristicScore()
        self.graph: GraphScore | None = None  # describes the candidates, where the agent reads it
        self.is_handed_over: Callable[[], bool] = lambda: False

    def score(self, features: NDArray[np.float32]) -> NDArray[np.float32]:
        """See ScorePolicy: without a question there is nothing to ask the agent."""
        return self._teacher.score(features)

    def score_within(self, question: ScoreQuestion) -> NDArray[np.float32]:
        """See ClusterScore: 1 for the picked candidate, 0 for the others."""
        features = question.features
        teachers = self._teachers_scores(question)
        if self.is_handed_over():
            return teachers
        shown, lines = np.arange(len(features)), features
        if self.graph is not None:
            # Of candidates that no model can tell apart, the first is the one that it takes.
            lines = np.concatenate(self.graph.described(question), axis=1)
            shown = np.sort(np.unique(lines, axis=0, return_index=True)[1])
        if len(shown) > self._candidate_count:
            best = np.argsort(-self._heuristic.score(features[shown]), kind="stable")
            shown = shown[np.sort(best[: self._candidate_count])]
        wanted = np.flatnonzero(shown == int(np.argmax(teachers)))
        mask = np.ones(len(shown) + 1, dtype=np.bool_)
        mask[-1] = False
        gpus = question.candidates.shape.gpu_count
        context = context_of(question.job, gpus, question.cluster, self._predictors)
        seen = SlotInput(lines[shown], context)
        picked = self._ask(seen, mask, int(wanted[0]) if len(wanted) else 0)
        scores = np.zeros(len(features), dtype=np.float32)
        scores[shown[picked]] = 1.0
        return scores

    def _teachers_scores(self, question: ScoreQuestion) -> NDArray[np.float32]:
        if isinstance(self._teacher, ClusterScore):
            return self._teacher.score_within(question)
        return self._teacher.score(question.features)


class _AskedGate:
    """A GatePolicy that lets an agent take or decline each offer that could be closer."""

    name = "asked"

    def __init__(
        self, teacher: GatePolicy, predictors: Predictors, ask: _Ask, limits: GateLimits
    ) -> None:
        self._teacher, self._predictors, self._ask = teacher, predictors, ask
        self._limits = limits

    def decide(self, offer: Offer) -> GateVerdict:
        """See GatePolicy."""
        limits, verdict = self._limits, self._teacher.decide(offer)
        may_wait = limits.may_wait(offer)
        seen = SlotInput(
            offer_of(offer, self._predictors, limits.most_wait_s),
            context_of(offer.job.spec, offer.shape.gpu_count, offer.cluster, self._predictors),
        )
        mask = np.array([True, may_wait])
        if self._ask(seen, mask, int(may_wait and isinstance(verdict, Defer))) == 0:
            return Allow()
        return limits.deferred(offer, "the agent waits for a closer place")

    def note(self, outcome: WaitEnded) -> None:
        """See GatePolicy."""
        self._teacher.note(outcome)
