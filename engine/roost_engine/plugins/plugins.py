"""The choice of an engine's policies as plain data that a journal can keep.

A journal's run begins with it: what was chosen, and what the policies knew by then. Whatever builds
policies from the same choice and reports the same events to them gets the same answers.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from math import inf
from types import MappingProxyType
from typing import assert_never

from roost_engine.domain.errors import PolicyError
from roost_engine.domain.pair_correction import PairCorrection
from roost_engine.gate.delay import DelayGate, DelayState
from roost_engine.gate.model_gate import GateModel, ModelGate
from roost_engine.plugins.gate_kinds import GateNumbers, make_gate
from roost_engine.plugins.policy_kinds import (
    PreemptionNumbers,
    communication,
    make_candidates,
    make_order,
    make_preemption,
)
from roost_engine.plugins.stacks import OrderKind, PlacementKind
from roost_engine.policies.canary import CanaryGate, CanaryOrder, CanaryScore, Slot, UserShare
from roost_engine.policies.heuristics import NoPreemption, OpenGate, PriorityOrder, ShapeByShape
from roost_engine.policies.preemption_protocols import PreemptPolicy
from roost_engine.policies.protocols import (
    CandidatePolicy,
    GatePolicy,
    OrderPolicy,
    ScorePolicy,
    TunableTimers,
)
from roost_engine.policies.slots import RUN_TIMES
from roost_engine.prediction.predictors import Predictors, PredictorsState
from roost_engine.prediction.run_time.foreseen_ends import EndsConfig
from roost_engine.prediction.run_time.history import RunTimeHistory
from roost_engine.prediction.run_time.history_state import HistoryState
from roost_engine.prediction.run_time.prediction_skill import LEFT_TRUST
from roost_engine.prediction.run_time.run_time_model import HISTORY_NAME, RunTimeBlend
from roost_engine.prediction.speed.speed_predictor import SpeedPredictor, SpeedState
from roost_engine.prediction.speed.speed_table import ModelSpeeds, TableOfSpeeds
from roost_engine.prediction.speed.tier_speeds import SpeedTable
from roost_engine.preemption.network_preemption import (
    NetworkPreemption,
    PreemptionState,
)
from roost_engine.queue.learned_order import LearnedOrderConfig
from roost_engine.queue.model_order import AnyOrderModel, order_by
from roost_engine.scoring.graph_jobs import ReadsCommunication
from roost_engine.scoring.heuristic import HeuristicScore
from roost_engine.scoring.neighbour_corrections import Corrections
from roost_engine.scoring.neighbour_cost import NeighbourAwareScore
from roost_engine.sharing.pairs import PairRule, Pairs, PairsState, SharingConfig
from roost_engine.sharing.separation_budget import SeparationBudget, SeparationState

HEURISTICS: Mapping[str, str] = MappingProxyType(
    {
        "order": PriorityOrder.name,
        "gate": OpenGate.name,
        "score": HeuristicScore.name,
        "preemption": NoPreemption.name,
        RUN_TIMES: HISTORY_NAME,
    }
)
"""By slot: the name of the heuristic that answers when the policy fails."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Policies:
    """The plug-ins of one engine.

    Attributes:
        order, gate, candidates, score, preemption: one for each step of a pass.
        predictors: what these policies expect of jobs; the engine reports waits and runs to them.
            None: no policy asks.
        timers: of the gate, if it has some that an operator may set.
        learned: the parts whose knowledge outlives the engine.
        ends: how predictions take part in reservations; None: time limits alone do.
        sharing: says which pairs of jobs may share a GPU; None: no pair.
        separation: when a pair that turned out bad is separated, and how often still; None: never.
    """

    order: OrderPolicy = field(default_factory=PriorityOrder)
    gate: GatePolicy = field(default_factory=OpenGate)
    candidates: CandidatePolicy = field(default_factory=ShapeByShape)
    score: ScorePolicy = field(default_factory=HeuristicScore)
    preemption: PreemptPolicy = field(default_factory=NoPreemption)
    predictors: Predictors | None = None
    timers: TunableTimers | None = None
    learned: "LearnedParts" = field(default_factory=lambda: LearnedParts())
    ends: EndsConfig | None = None
    sharing: PairRule | None = None
    separation: SeparationBudget | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LearnedParts:
    """The policies of an engine that learn something worth keeping over a restart."""

    gate: DelayGate | None = None
    preemption: NetworkPreemption | None = None
    sharing: Pairs | None = None
    separation: SeparationBudget | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Knowledge:
    """What policies learned, to be kept over restarts; None: nothing."""

    gate: DelayState | None = None
    preemption: PreemptionState | None = None
    sharing: PairsState | None = None
    predictors: PredictorsState | None = None
    separation: SeparationState | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Canary:
    """A second policy in one slot, for a share of the users.

    Attributes:
        slot: order, gate or score.
        share_frac: of the users, 0 to 1.
        order, gate: the candidate, in its slot.
        model: the candidate, if it is a model: "onnx:" and twelve digits of its sha256.
    """

    slot: Slot
    share_frac: float
    order: OrderKind = OrderKind.PRIORITY
    gate: GateNumbers = None
    model: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Models:
    """What an engine's policies ask that was read from files; None: there is none.

    Attributes:
        order, gate: take the place of Plugins.order and Plugins.gate.
        canary_order, canary_gate, canary_score: the canary's candidate.
    """

    order: AnyOrderModel | None = None
    gate: GateModel | None = None
    canary_order: AnyOrderModel | None = None
    canary_gate: GateModel | None = None
    canary_score: ScorePolicy | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Plugins:
    """The choice of policies.

    Attributes:
        stack: the name of the stack that it comes from, in words; "": from none.
        order: which order.
        placement: which rule proposes placements.
        gate: its numbers; None: every job takes the first offer.
        preemption: its numbers; None: no job is stopped.
        speeds: of the models that users may name.
        knowledge: what the policies know from the start.
        neighbours: how observed speeds correct the score of neighbours.
        any_gpus: whether Slurm chooses the GPUs of a job on several nodes where no index set is
            free on enough of them; False in journals of earlier versions.
        learned_order: the numbers of the order `learned`; `learned-left` has some of them too.
        longest_wait_s: see policies.BoundedOrder; inf, as in journals of earlier versions: no job
            goes first because it has waited.
        ends: how predictions take part in reservations; None, as in journals of earlier versions:
            time limits alone do.
        order_model: the name of the model in the order slot, "onnx:" and twelve digits; "": none,
            `order` decides.
        gate_model: the same of the gate slot.
        canary: a second policy in one slot, for some users; None: there is none.
        sharing: which jobs may share GPUs; None: none.
    """

    stack: str = ""
    order: OrderKind = OrderKind.PRIORITY
    placement: PlacementKind = PlacementKind.CONSOLIDATION
    gate: GateNumbers = None
    preemption: PreemptionNumbers = None
    speeds: tuple[ModelSpeeds, ...] = ()
    knowledge: Knowledge = Knowledge()
    neighbours: tuple[PairCorrection, ...] = ()
    any_gpus: bool = False
    learned_order: LearnedOrderConfig = field(default_factory=LearnedOrderConfig)
    longest_wait_s: float = inf
    ends: EndsConfig | None = None
    order_model: str = ""
    gate_model: str = ""
    canary: Canary | None = None
    sharing: SharingConfig | None = None

    @property
    def reads_predictors(self) -> bool:
        """Whether a policy asks what is expected of jobs."""
        canary = self.canary or Canary(slot=Slot.ORDER, share_frac=0.0)
        numbers = (self.gate, canary.gate, self.preemption)
        return (
            self.order.reads_predictors
            or canary.order.reads_predictors
            or bool(self.order_model or self.gate_model or canary.model)
            or any(found is not None and found.reads_predictors for found in numbers)
        )

    def policies(
        self,
        score: ScorePolicy,
        table: SpeedTable | None = None,
        run_times: RunTimeBlend | None = None,
        models: Models | None = None,
        history: RunTimeHistory | None = None,
    ) -> Policies:
        """Make the policies of a fresh engine.

        Args:
            score: scores the candidates.
            table: the speeds of models; None: `speeds`.
            run_times: a model of run times; None: the history of run times answers alone.
            models: other models; without the one of the order slot, `order` decides there.
            history: of run times, in place of an empty one.
        """
        models, predictors = models or Models(), None
        if self.reads_predictors:
            predictors = Predictors(
                TableOfSpeeds(self.speeds) if table is None else table,
                self.learned_order.reads_limits,
                run_times,
                history,
                LEFT_TRUST if self.order is OrderKind.LEARNED_LEFT else self.learned_order.trust,
                self.learned_order.earned_trust,
            )
            if self.knowledge.predictors is not None:
                predictors.restore(self.knowledge.predictors)
        for found in (score, models.canary_score):
            if isinstance(found, NeighbourAwareScore):
                found.corrections = Corrections(self.neighbours)
            if isinstance(found, ReadsCommunication):
                speeds = TableOfSpeeds(self.speeds) if table is None else table
                speed = SpeedPredictor(speeds) if predictors is None else predictors.speed
                found.expect(partial(communication, speed, speeds))
        policies = Policies(
            order=self._order(self.order, models.order, predictors),
            candidates=make_candidates(self.placement, self.any_gpus),
            score=score,
            predictors=predictors,
            ends=self.ends if predictors is not None else None,
        )
        policies = self._with_any_gate(policies, models.gate)
        policies = self._with_sharing(self._with_preemption(policies))
        return self._with_canary(policies, models)

    def _order(
        self, kind: OrderKind, model: AnyOrderModel | None, predictors: Predictors | None
    ) -> OrderPolicy:
        if model is not None:
            return order_by(model, predictors or Predictors())
        return make_order(kind, predictors, self.learned_order, self.longest_wait_s)

    def _with_canary(self, policies: Policies, models: Models) -> Policies:
        canary, predictors = self.canary, policies.predictors
        if canary is None:
            return policies
        share = UserShare(canary.share_frac)
        match canary.slot:
            case Slot.ORDER:
                order = self._order(canary.order, models.canary_order, predictors)
                return replace(policies, order=CanaryOrder(policies.order, order, share))
            case Slot.GATE:
                other = replace(self, gate=canary.gate)
                gate = other._with_any_gate(policies, models.canary_gate).gate
                return replace(policies, gate=CanaryGate(policies.gate, gate, share))
            case Slot.SCORE:
                score = models.canary_score or HeuristicScore()
                return replace(policies, score=CanaryScore(policies.score, score, share))
            case Slot.PLACEMENT | Slot.PREEMPTION:
                raise PolicyError(f"slot {canary.slot} has no canary")
            case _:
                assert_never(canary.slot)

    def _with_any_gate(self, policies: Policies, model: GateModel | None) -> Policies:
        """Return policies with a gate that is a model; without a model, the one of `gate`."""
        if model is None:
            return self._with_gate(policies)
        gate = ModelGate(model, policies.predictors or Predictors())
        return replace(policies, gate=gate)

    def _with_gate(self, policies: Policies) -> Policies:
        made = make_gate(self.gate, policies.predictors, self.knowledge.gate)
        learned = replace(policies.learned, gate=made.learned)
        return replace(policies, gate=made.gate, timers=made.timers, learned=learned)

    def _with_sharing(self, policies: Policies) -> Policies:
        if self.sharing is None:
            return policies
        pairs = Pairs(self.sharing)
        if self.knowledge.sharing is not None:
            pairs.restore(self.knowledge.sharing)
        separation = None
        if self.sharing.separation is not None:
            separation = SeparationBudget(self.sharing.separation)
            if self.knowledge.separation is not None:
                separation.restore(self.knowledge.separation)
        learned = replace(policies.learned, sharing=pairs, separation=separation)
        return replace(policies, sharing=pairs, separation=separation, learned=learned)

    def _with_preemption(self, policies: Policies) -> Policies:
        known = self.knowledge.preemption
        made = make_preemption(self.preemption, policies.predictors, known)
        learned = replace(policies.learned, preemption=made.learned)
        return replace(policies, preemption=made.rule, learned=learned)


def knowledge_of(policies: Policies, before: Knowledge) -> Knowledge:
    """Return what policies know by now, for a later engine; the rest stays as it was before.

    Open waits are left out: JobQueued brings them to a fresh engine.
    """
    found = _without_predictors(policies, before)
    if policies.predictors is not None:
        found = replace(found, predictors=policies.predictors.state())
    return found


def knowledge_without_tables(policies: Policies, before: Knowledge) -> Knowledge:
    """Return the same less what the predictors keep in tables, which may be much."""
    found = _without_predictors(policies, before)
    if policies.predictors is not None:
        return replace(found, predictors=policies.predictors.state_without_tables())
    if found.predictors is not None:
        others = replace(
            found.predictors,
            speed=SpeedState(stretches=found.predictors.speed.stretches),
            history=HistoryState(),
        )
        return replace(found, predictors=others)
    return found


def _without_predictors(policies: Policies, before: Knowledge) -> Knowledge:
    learned, found = policies.learned, before
    if learned.gate is not None:
        found = replace(found, gate=replace(learned.gate.state(), waits=()))
    if learned.preemption is not None:
        found = replace(found, preemption=learned.preemption.state())
    if learned.sharing is not None:
        found = replace(found, sharing=learned.sharing.state())
    if learned.separation is not None:
        found = replace(found, separation=learned.separation.state())
    return found
