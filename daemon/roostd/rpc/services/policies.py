"""The services about policies: questions for operators, changes for administrators."""

from collections.abc import Mapping
from math import isfinite
from typing import Protocol

from roost_engine.domain.errors import PolicyError, UnknownPolicy
from roost_engine.domain.model import JobId, NodeShare
from roost_engine.policies.canary import Slot
from roost_engine.prediction.evidence import LIMIT
from roost_formats.journal.evaluation import PolicyFigures, Ratio
from roost_formats.journal.shadow import Choice
from roost_proto.v1 import policy_pb2 as pb
from roost_proto.v1 import policy_pb2_grpc as pb_grpc
from roostd.config.config import Config
from roostd.config.policy_names import PolicyName, known_policies, policy_of
from roostd.ops.promotions import Promotion, Rollback, StoredEvaluation
from roostd.rpc.access.socket_front import facts_of_caller
from roostd.rpc.errors import Context
from roostd.state import DaemonState

_LONGEST_S = 366 * 86_400.0


class PolicyDesk(Protocol):
    """Lets one policy take over from another; each method may raise PolicyError."""

    @property
    def configured(self) -> Config:
        """The operator's configuration, without what is promoted."""

    def active(self, slot: Slot) -> PolicyName:
        """Return the policy that decides in a slot, beside a canary for all other users."""

    def identity(self, policy: PolicyName) -> str:
        """Return the identity of a model; "" for a policy of Roost's own."""

    def shadow(self, name: str, by: str, caller: Mapping[str, object]) -> None:
        """Let a policy decide in shadow; "": none."""

    async def evaluate(
        self, name: str, by: str, last_s: float, caller: Mapping[str, object]
    ) -> StoredEvaluation:
        """Compare a policy with the one that decides, on the site's journal."""

    def promote(
        self,
        name: str,
        by: str,
        caller: Mapping[str, object],
        *,
        share_frac: float = 1.0,
        force: bool = False,
    ) -> None:
        """Let a policy decide for a share of the users, or for all."""

    def roll_back(self, slot_name: str, by: str, caller: Mapping[str, object]) -> None:
        """Take a promoted policy out of its slot; "": the one that was promoted last."""


class PoliciesService(pb_grpc.PoliciesServicer):
    """Answers operators."""

    def __init__(self, state: DaemonState, desk: PolicyDesk) -> None:
        self._state, self._desk = state, desk

    async def ListPolicies(
        self, request: pb.ListPoliciesRequest, context: Context
    ) -> pb.ListPoliciesResponse:
        """See policy.proto."""
        folder = self._state.config.paths.state_dir
        return pb.ListPoliciesResponse(
            policies=[self._choice(policy) for policy in known_policies(folder)]
        )

    async def ShowPolicies(
        self, request: pb.ShowPoliciesRequest, context: Context
    ) -> pb.ShowPoliciesResponse:
        """See policy.proto."""
        return shown(self._state, self._desk, request.slot)

    async def ExplainShadow(
        self, request: pb.ExplainShadowRequest, context: Context
    ) -> pb.ExplainShadowResponse:
        """See policy.proto."""
        figures = self._state.shadow
        choice = None if figures is None else figures.choices.get(JobId(request.job_id))
        if choice is None:
            return pb.ExplainShadowResponse()
        now_s = self._state.clock.now_s()
        return pb.ExplainShadowResponse(
            is_known=True,
            slot=choice.slot,
            policy=choice.policy,
            differs=choice.differs,
            active=_place(choice.active, now_s),
            shadow=None if choice.shadow is None else _place(choice.shadow, now_s),
            reason=choice.reason,
        )

    def _choice(self, policy: PolicyName) -> pb.PolicyChoice:
        promotions = self._state.promotions
        canary, shadow = promotions.canary, promotions.shadow
        identity, fault = "", ""
        try:
            identity = self._desk.identity(policy)
        except PolicyError as error:
            fault = str(error)
        is_canary = canary is not None and str(canary) == str(policy)
        in_shadow = shadow and (shadow.slot, shadow.name)
        return pb.PolicyChoice(
            slot=policy.slot,
            name=policy.name,
            path=policy.path,
            identity=identity,
            fault=fault,
            is_active=_is_same(self._desk.active(policy.slot), policy),
            is_configured=_is_same(policy_of(self._desk.configured, policy.slot), policy),
            canary_frac=canary.share_frac if canary is not None and is_canary else 0.0,
            is_shadow=in_shadow == (policy.slot, policy.name),
        )


class PolicyAdminService(pb_grpc.PolicyAdminServicer):
    """Makes changes for administrators."""

    def __init__(self, state: DaemonState, desk: PolicyDesk) -> None:
        self._state, self._desk = state, desk

    async def Shadow(self, request: pb.ShadowRequest, context: Context) -> pb.ShowPoliciesResponse:
        """See policy.proto."""
        self._desk.shadow(request.name, request.by, facts_of_caller(context.peer()))
        return shown(self._state, self._desk)

    async def Evaluate(self, request: pb.EvaluateRequest, context: Context) -> pb.PolicyEvaluation:
        """See policy.proto."""
        if not (isfinite(request.last_s) and 0.0 <= request.last_s <= _LONGEST_S):
            raise UnknownPolicy(f"want a window of 0 to {_LONGEST_S:.0f} s")
        stored = await self._desk.evaluate(
            request.name, request.by, request.last_s, facts_of_caller(context.peer())
        )
        return _evaluation(stored)

    async def Promote(
        self, request: pb.PromoteRequest, context: Context
    ) -> pb.ShowPoliciesResponse:
        """See policy.proto."""
        share = request.canary_frac
        if not (isfinite(share) and 0.0 <= share < 1.0):
            raise UnknownPolicy(f"want a canary share above 0 and below 1, got {share:g}")
        self._desk.promote(
            request.name,
            request.by,
            facts_of_caller(context.peer()),
            share_frac=share or 1.0,
            force=request.force,
        )
        return shown(self._state, self._desk)

    async def Rollback(
        self, request: pb.RollbackRequest, context: Context
    ) -> pb.ShowPoliciesResponse:
        """See policy.proto."""
        self._desk.roll_back(_slot(request.slot), request.by, facts_of_caller(context.peer()))
        return shown(self._state, self._desk)


def shown(state: DaemonState, desk: PolicyDesk, slot_name: str = "") -> pb.ShowPoliciesResponse:
    """Return what decides in one slot, or in all.

    Raises:
        UnknownPolicy: there is no such slot.
    """
    wanted = _slot(slot_name)
    return pb.ShowPoliciesResponse(
        slots=[_slot_state(state, desk, slot) for slot in Slot if slot == wanted or not wanted],
        shadow=_shadow(state),
        fault=state.promotions_fault,
    )


def _slot(name: str) -> str:
    if name and name not in list(Slot):
        raise UnknownPolicy(f"no slot {name}; there are {', '.join(Slot)}")
    return name


def _slot_state(state: DaemonState, desk: PolicyDesk, slot: Slot) -> pb.SlotState:
    promotions = state.promotions
    promoted, canary = promotions.promoted.get(slot), promotions.canary
    rollback = promotions.rollbacks.get(slot)
    stored = next((one for one in reversed(promotions.evaluations) if one.slot is slot), None)
    fault = state.promotion_faults.get(slot, "")
    is_canary_fault = fault.startswith("canary: ")
    return pb.SlotState(
        slot=slot,
        configured=policy_of(desk.configured, slot).name,
        active=desk.active(slot).name,
        promotion=None
        if promoted is None
        else _promotion(promoted, "" if is_canary_fault else fault),
        canary=_promotion(canary, fault if is_canary_fault else "")
        if canary is not None and canary.slot is slot
        else None,
        last_rollback=None if rollback is None else _rollback(rollback),
        last_evaluation=None if stored is None else _evaluation(stored),
    )


def _rollback(rollback: Rollback) -> pb.PolicyRollback:
    return pb.PolicyRollback(
        policy=rollback.policy,
        at_epoch_s=rollback.at_epoch_s,
        by=rollback.by,
        reason=rollback.reason,
    )


def _promotion(promotion: Promotion, fault: str) -> pb.Promotion:
    evidence = promotion.evidence
    return pb.Promotion(
        policy=str(promotion),
        share_frac=promotion.share_frac,
        at_epoch_s=promotion.at_epoch_s,
        by=promotion.by,
        is_forced=promotion.is_forced,
        fault=fault,
        predicted_lost_frac=evidence.predicted_frac,
        observed_lost_frac=evidence.observed_frac,
        job_count=evidence.job_count,
        other_lost_frac=evidence.other_frac,
        other_job_count=evidence.other_count,
        evidence=evidence.value,
        evidence_limit=LIMIT,
    )


def _shadow(state: DaemonState) -> pb.ShadowState | None:
    request, figures = state.promotions.shadow, state.shadow
    if request is None or figures is None:
        return None
    gain_s = figures.gain_sum_s / figures.gain_count if figures.gain_count else None
    return pb.ShadowState(
        slot=request.slot,
        policy=f"{request.slot}:{request.name}",
        since_epoch_s=request.since_epoch_s,
        decision_count=figures.decision_count,
        elsewhere_count=figures.elsewhere_count,
        waiting_count=figures.waiting_count,
        expected_gain_s=gain_s,
        backlog=figures.backlog,
        fault=figures.fault,
    )


def _evaluation(stored: StoredEvaluation) -> pb.PolicyEvaluation:
    found = stored.found
    return pb.PolicyEvaluation(
        slot=stored.slot,
        at_epoch_s=stored.at_epoch_s,
        job_count=found.job_count,
        left_out_count=found.left_out_count,
        window_s=found.window_s,
        active=_figures(stored.against, found.active),
        candidate=_figures(stored.policy, found.candidate),
        avg_ratio=_ratio(found.avg_ratio),
        p99_ratio=_ratio(found.p99_ratio),
        recorded_avg_jct_s=found.recorded_avg_jct_s,
        refusal=stored.refusal,
    )


def _figures(policy: str, figures: PolicyFigures) -> pb.PolicyFigures:
    return pb.PolicyFigures(
        policy=policy,
        avg_jct_s=figures.avg_jct_s,
        p99_jct_s=figures.p99_jct_s,
        lost_frac=figures.lost_frac,
        preemption_count=figures.preemption_count,
    )


def _ratio(ratio: Ratio) -> pb.PolicyRatio:
    return pb.PolicyRatio(value=ratio.value, low=ratio.low, high=ratio.high)


def _place(choice: Choice, now_s: float) -> pb.ShadowPlace:
    end_s = choice.expected_end_s
    return pb.ShadowPlace(
        ago_s=max(now_s - choice.at_s, 0.0),
        place=",".join(map(_share, choice.shares)),
        tier=choice.tier,
        expected_s=None if end_s is None else end_s - choice.at_s,
    )


def _share(share: NodeShare) -> str:
    return f"{share.node}:{'+'.join(map(str, share.gpu_indices))}"


def _is_same(one: PolicyName, other: PolicyName) -> bool:
    if one.path or other.path:
        return one.path == other.path and one.slot is other.slot
    return str(one) == str(other)
