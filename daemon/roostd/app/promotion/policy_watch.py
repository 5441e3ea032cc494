"""Watches the jobs of promoted policies: what is observed must not fall behind what was predicted.

Two rules take a policy out. The evidence of its ended jobs reaches the limit
(`prediction.evidence`), or one of its waiting jobs has waited longer than was predicted at most:
a job that never starts never ends, so the first rule alone would not see it.
Page: docs/policies.md.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from roost_engine.domain.actions import Action
from roost_engine.domain.events import Event, JobEnded
from roost_engine.domain.model import JobId
from roost_engine.domain.tier import Tier
from roost_engine.job_record import JobRecord
from roost_engine.policies.canary import UserShare
from roost_engine.prediction.evidence import LIMIT
from roost_engine.prediction.speed.speed_predictor import SpeedPredictor
from roostd.ops.promotions import Promotion
from roostd.state import DaemonState

_ROUNDING_S = 1.0  # Slurm gives submission times in whole seconds


class PolicyWatch:
    """See the module.

    Args:
        state: has the promotions; their evidence is written there.
    """

    def __init__(self, state: DaemonState) -> None:
        self._state, self._typical = state, SpeedPredictor()
        self.is_changed = False  # whether there is evidence that is not on disk

    def observe(self, event: Event, actions: Sequence[Action]) -> None:
        """Count a job that has ended. Called after each step of the engine."""
        if not isinstance(event, JobEnded) or not self._state.promotions.all():
            return
        record = self._state.engine.managed(event.job_id)
        if record is None or record.started_s is None or not record.is_binding:
            return
        since_s = max(record.spec.submit_s, record.spec.eligible_s)
        lost = self._lost_frac(record, since_s, event.at_s)
        since_epoch_s = self._state.clock.to_epoch_s(since_s) + _ROUNDING_S
        self._count(record.spec.user_id, since_epoch_s, lost)

    def broken(self) -> Iterator[tuple[Promotion, str]]:
        """Yield the promotions that are to be taken out, each with the reason."""
        for promotion in self._state.promotions.all():
            evidence = promotion.evidence
            if evidence.is_conclusive:
                yield promotion, _in_words(promotion)
            elif evidence.wait_limit_s is not None:
                job_id, waited_s = self._longest_wait(promotion)
                if waited_s > evidence.wait_limit_s:
                    yield (
                        promotion,
                        f"job {job_id} has waited {waited_s:.0f} s; no more than"
                        f" {evidence.wait_limit_s:.0f} s was predicted",
                    )

    def _count(self, user_id: int, since_epoch_s: float, lost_frac: float) -> None:
        promotions = self._state.promotions
        canary = promotions.canary
        is_canary = canary is not None and UserShare(canary.share_frac).has(user_id)
        if canary is not None and since_epoch_s >= canary.at_epoch_s:
            evidence = canary.evidence
            evidence = (
                evidence.after(lost_frac, is_canary=True)
                if is_canary
                else evidence.after_other(lost_frac)
            )
            promotions = replace(promotions, canary=replace(canary, evidence=evidence))
            self.is_changed = True
        for slot, one in promotions.promoted.items():
            is_its_job = not (is_canary and canary is not None and canary.slot is slot)
            if is_its_job and since_epoch_s >= one.at_epoch_s:
                changed = replace(one, evidence=one.evidence.after(lost_frac, is_canary=False))
                promoted = {**promotions.promoted, slot: changed}
                promotions = replace(promotions, promoted=promoted)
                self.is_changed = True
        self._state.promotions = promotions

    def _lost_frac(self, record: JobRecord, since_s: float, ended_s: float) -> float:
        """Return the share of its completion time that a job did not use for its work."""
        predictors = self._state.engine.policies.predictors
        speed = self._typical if predictors is None else predictors.speed
        speeds = speed.estimate(record.spec).speeds
        by_tier = record.run_s_by_tier(ended_s)
        work_s = sum(by_tier[tier] * speeds.at(tier) for tier in Tier)
        if not work_s:
            work_s = record.run_s(ended_s)
        return min(max(1.0 - work_s / max(ended_s - since_s, 1e-9), 0.0), 1.0)

    def _longest_wait(self, promotion: Promotion) -> tuple[JobId, float]:
        """Return the waiting job that has waited longest under a promotion, and how long."""
        state, share = self._state, UserShare(promotion.share_frac)
        now_s, longest = state.clock.now_s(), (JobId(""), 0.0)
        promoted_s = now_s - (state.clock.to_epoch_s(now_s) - promotion.at_epoch_s)
        for job_id in state.engine.waiting():
            record = state.engine.record(job_id)
            if share.has(record.spec.user_id) and record.is_binding:
                since_s = max(record.spec.submit_s, record.spec.eligible_s, promoted_s)
                if now_s - since_s > longest[1]:
                    longest = job_id, now_s - since_s
        return longest


def _in_words(promotion: Promotion) -> str:
    evidence = promotion.evidence
    found = f"its {evidence.job_count} jobs lost {evidence.observed_frac or 0.0:.0%} of their time"
    against = f"; the evidence is {evidence.value:.0f}, the limit {LIMIT:.0f}"
    if promotion.share_frac < 1.0 and evidence.other_frac is not None:
        return f"{found}, those of other users {evidence.other_frac:.0%}{against}"
    if evidence.predicted_frac is None:
        return found + against
    return f"{found}, {evidence.predicted_frac:.0%} was predicted{against}"
