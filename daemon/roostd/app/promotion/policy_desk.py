"""The way to production: shadow, evaluate, promote, canary, roll back. Page: docs/policies.md.

Each change is audited first, then written to the state folder, then put into a fresh engine, as a
reload of the configuration does. Nothing is awaited between the last two.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from pathlib import Path

import structlog

from roost_engine.domain.errors import JournalError, PolicyError, PolicyRefused
from roost_engine.plugins.plugins import Knowledge, Models, Plugins
from roost_engine.policies.canary import CANARY_SLOTS, Slot
from roost_engine.prediction.speed.speed_table import ModelSpeeds
from roost_formats.journal.evaluation import Contender, EvaluationTask
from roost_formats.journal.journal import FILE_NAME as JOURNAL_NAME
from roostd.app.promotion.policy_evaluator import Evaluator
from roostd.app.promotion.policy_watch import PolicyWatch
from roostd.app.promotion.promoted_policies import (
    check_unchanged,
    configured_with,
    extended,
    identity_of,
    plugins_with,
    score_of,
)
from roostd.app.promotion.promotion_terms import figures_of, promise, refusal_of
from roostd.config.config import Config, PoliciesSection
from roostd.config.policy_names import (
    FOLDER,
    PolicyName,
    find_policy,
    policy_of,
)
from roostd.ops import audit
from roostd.ops.promotions import (
    Promotion,
    Promotions,
    Rollback,
    ShadowRequest,
    StoredEvaluation,
    read_promotions,
    write_promotions,
)
from roostd.state import DaemonState

_log = structlog.get_logger(__name__)

_WEEK_S = 7 * 86_400.0
_KEEP_EVERY_S = 10.0
_DAEMON = "roostd"


class PolicyDesk:
    """See the module.

    Args:
        state: the daemon's; its configuration is the operator's with what is promoted.
        configured: the operator's configuration.
        evaluator: compares two policies elsewhere.
        restart: replaces the engine by a fresh one.
        settle: waits until the journal has every step so far.
        speeds: returns those of the models that users may name.
    """

    def __init__(
        self,
        state: DaemonState,
        configured: Config,
        evaluator: Evaluator,
        restart: Callable[[], None],
        settle: Callable[[], Awaitable[None]],
        speeds: Callable[[], tuple[ModelSpeeds, ...]],
    ) -> None:
        self._state, self._evaluator = state, evaluator
        self._restart, self._settle, self._speeds = restart, settle, speeds
        self.watch = PolicyWatch(state)
        self._evaluating = asyncio.Lock()
        self._kept_s = 0.0
        state.promotions, state.promotions_fault = read_promotions(self._folder)
        self.configure(configured)

    @property
    def _folder(self) -> Path:
        return self._state.config.paths.state_dir

    @property
    def _rules(self) -> PoliciesSection:
        return self._state.config.policies

    @property
    def configured(self) -> Config:
        """The operator's configuration, without what is promoted."""
        return self._configured

    def configure(self, config: Config) -> None:
        """Put the promotions into a configuration, and that into the state."""
        self._configured = config
        self._state.promotion_faults.clear()
        self._state.config = configured_with(
            config, self._state.promotions, self._state.promotion_faults
        )

    def shadow(self, name: str, by: str, caller: Mapping[str, object]) -> None:
        """Let a policy decide in shadow; "": none.

        Raises:
            PolicyError: there is no such policy, or it does not load.
            JournalError: the disk does not take it.
        """
        request = None
        if name:
            policy = find_policy(name, self._folder)
            self._load(policy)
            request = ShadowRequest(
                slot=policy.slot, name=policy.name, path=policy.path, since_epoch_s=time.time()
            )
        self._audit("shadow_policy", by, caller, policy=name)
        self._apply(replace(self._state.promotions, shadow=request))

    async def evaluate(
        self, name: str, by: str, last_s: float, caller: Mapping[str, object]
    ) -> StoredEvaluation:
        """Compare a policy with the one that decides, on the site's journal.

        Raises:
            PolicyError: there is no such policy, it does not load, there is no comparison, or the
                model's file was changed meanwhile.
            JournalError: the disk does not take the result.
        """
        policy = find_policy(name, self._folder)
        identity = self._load(policy)
        if self._evaluating.locked():
            raise PolicyRefused("another policy is being evaluated; wait until that is done")
        self._check_files()
        async with self._evaluating:
            await self._settle()
            against = str(self.active(policy.slot))
            found = await self._evaluator.evaluate(self._task(policy, last_s or _WEEK_S))
        if self._load(policy) != identity:
            raise PolicyRefused(f"{policy} was changed while it was evaluated; evaluate it again")
        stored = StoredEvaluation(
            slot=policy.slot,
            policy=str(policy),
            identity=identity,
            against=against,
            at_epoch_s=time.time(),
            found=found,
            refusal=refusal_of(found, self._rules),
        )
        self._audit("evaluate_policy", by, caller, policy=str(policy), **figures_of(found))
        self._keep(self._state.promotions.with_evaluation(stored))
        return stored

    def promote(
        self,
        name: str,
        by: str,
        caller: Mapping[str, object],
        *,
        share_frac: float = 1.0,
        force: bool = False,
    ) -> None:
        """Let a policy decide for a share of the users, or for all.

        Raises:
            PolicyError: there is no such policy, it does not load, or it may not.
            JournalError: the disk does not take it.
        """
        policy = find_policy(name, self._folder)
        facts = {"policy": str(policy), "share_frac": share_frac, "force": force}
        try:
            identity = self._load(policy)
            self._check_share(policy, share_frac)
            stored = self._comparison(policy, identity)
            refusal = self._refusal(policy, stored, share_frac)
            if refusal and not force:
                raise PolicyRefused(f"{policy}: {refusal}")
        except PolicyError as error:
            self._audit("promote_policy_refused", by, caller, **facts, reason=str(error))
            raise
        promotion = Promotion(
            slot=policy.slot,
            name=policy.name,
            path=policy.path,
            identity=identity,
            share_frac=share_frac,
            at_epoch_s=self._state.clock.to_epoch_s(self._state.clock.now_s()),
            by=by,
            is_forced=bool(refusal),
            evidence=promise(stored, self._rules),
        )
        figures = {} if stored is None else figures_of(stored.found)
        self._audit("promote_policy", by, caller, **facts, refusal=refusal, **figures)
        self._apply(self._state.promotions.with_promotion(promotion))

    def roll_back(
        self, slot_name: str, by: str, caller: Mapping[str, object], reason: str = "asked for"
    ) -> None:
        """Take a promoted policy out of its slot: the canary if there is one, or else the other.

        Args:
            slot_name: "": the slot whose policy was promoted last.
            by: the administrator.
            caller: facts for the audit log.
            reason: why.

        Raises:
            PolicyRefused: nothing is promoted there.
            JournalError: the disk does not take it.
        """
        found = [
            one for one in self._state.promotions.all() if not slot_name or one.slot == slot_name
        ]
        if not found:
            where = f"in slot {slot_name}" if slot_name else "in any slot"
            raise PolicyRefused(f"no policy is promoted {where}; the configured one decides")
        last = max(found, key=lambda one: (one.share_frac < 1.0, one.at_epoch_s))
        if not slot_name:
            last = max(found, key=lambda one: one.at_epoch_s)
        self._roll_back(last, by, caller, reason)

    def _roll_back(
        self, promotion: Promotion, by: str, caller: Mapping[str, object], reason: str
    ) -> None:
        self._audit("roll_back_policy", by, caller, policy=str(promotion), reason=reason)
        rollback = _rollback_of(promotion, by, reason)
        self._apply(self._state.promotions.without(promotion, rollback))

    def extended(self, plugins: Plugins) -> tuple[Plugins, Models]:
        """Return the choice of policies of a fresh engine, with what is promoted."""
        return extended(plugins, self._state)

    def poll(self) -> None:
        """Take policies out that fall behind, and keep the evidence against the others."""
        for promotion, reason in list(self.watch.broken()):
            _log.error("policy_rolled_back", policy=str(promotion), reason=reason)
            try:
                self._roll_back(promotion, _DAEMON, {}, reason)
            except JournalError as error:
                # The disk is full: the policy must go all the same.
                _log.error("rollback_not_kept", error=str(error))
                self._take_out(promotion, reason)
        if self.watch.is_changed and time.monotonic() - self._kept_s > _KEEP_EVERY_S:
            self._kept_s = time.monotonic()
            self.keep_evidence()

    def keep_evidence(self) -> None:
        """Write the evidence to disk, if there is any that is not."""
        if self.watch.is_changed:
            self.watch.is_changed = False
            try:
                write_promotions(self._folder, self._state.promotions)
            except JournalError as error:
                _log.warning("evidence_not_kept", error=str(error))

    def active(self, slot: Slot) -> PolicyName:
        """Return the policy that decides in a slot, beside a canary for all other users."""
        promoted = self._state.promotions.promoted.get(slot)
        if promoted is not None and slot not in self._state.promotion_faults:
            return PolicyName(slot, promoted.name, promoted.path)
        return policy_of(self._configured, slot)

    def identity(self, policy: PolicyName) -> str:
        """Return the identity of a model; "" for a policy of Roost's own.

        Raises:
            PolicyError: the model fails a check of the loader.
        """
        return identity_of(policy)

    def _load(self, policy: PolicyName) -> str:
        """Return the identity of a policy that loads.

        Raises:
            PolicyRefused: a check of the loader failed.
        """
        try:
            return identity_of(policy)
        except PolicyError as error:
            raise PolicyRefused(f"{policy} cannot be loaded: {error}") from error

    def _check_files(self) -> None:
        """Check that the promoted models that decide are still the files in the folder.

        The simulator reads the files: it would compare with models that do not decide.

        Raises:
            PolicyRefused: one is not.
        """
        for slot, promotion in self._state.promotions.promoted.items():
            if slot in self._state.promotion_faults:
                continue  # the configured policy decides
            try:
                check_unchanged(promotion)
            except PolicyError as error:
                raise PolicyRefused(
                    f"{promotion} decides from memory: {error}, after a reload of roostd, which"
                    " lets the configured policy decide"
                ) from error

    def _check_share(self, policy: PolicyName, share_frac: float) -> None:
        if share_frac < 1.0 and policy.slot not in CANARY_SLOTS:
            raise PolicyRefused(
                f"slot {policy.slot} has no canary: its policy decides about jobs of all users at"
                " once; promote it without --canary"
            )
        other = self._state.promotions.canary
        if other is not None and other.slot is not policy.slot:
            raise PolicyRefused(f"{other} is the canary at present; promote it, or roll it back")
        if self.active(policy.slot) == policy:
            raise PolicyRefused(f"{policy} decides already")

    def _comparison(self, policy: PolicyName, identity: str) -> StoredEvaluation | None:
        """Return the newest comparison of a policy with the one that decides, if it is young."""
        against, now_s = str(self.active(policy.slot)), time.time()
        for stored in reversed(self._state.promotions.evaluations):
            if (stored.policy, stored.identity, stored.against) == (str(policy), identity, against):
                age_s = now_s - stored.at_epoch_s
                return stored if age_s <= self._rules.evaluation_max_age_s else None
        return None

    def _refusal(
        self, policy: PolicyName, stored: StoredEvaluation | None, share_frac: float
    ) -> str:
        """Return why a policy may not be promoted; "" if it may."""
        if stored is None:
            return (
                f"it was not compared with {self.active(policy.slot)} lately: roostctl policy"
                f" evaluate {policy}"
            )
        if refusal := refusal_of(stored.found, self._rules):
            return refusal
        if share_frac < 1.0 or policy.slot not in CANARY_SLOTS:
            return ""
        canary, wanted = self._state.promotions.canary, self._rules.canary_job_count
        count = canary.evidence.job_count if canary and str(canary) == str(policy) else 0
        if count >= wanted:
            return ""
        return (
            f"{count} jobs have ended under it as a canary, want {wanted}: roostctl policy promote"
            f" {policy} --canary 10%"
        )

    def _task(self, policy: PolicyName, last_s: float) -> EvaluationTask:
        state, speeds = self._state, self._speeds()
        plugins, _ = extended(
            state.config.choice.plugins(speeds, Knowledge()), state, has_canary=False
        )
        candidate, _ = plugins_with(policy, state.config, speeds, plugins)
        score = state.engine.policies.score.name
        other = score_of(policy).name if policy.slot is Slot.SCORE else score
        folder = self._folder / FOLDER
        paths = {str(path) for path in folder.glob("*.onnx")}
        if (model := state.config.choice.in_effect.model).startswith("/"):
            paths.add(model)
        return EvaluationTask(
            journal=str(self._folder / JOURNAL_NAME),
            active=Contender(plugins=plugins, score=score),
            candidate=Contender(plugins=candidate, score=other),
            config=replace(state.engine.config, standing_pins=False),
            model_paths=tuple(sorted(paths)),
            last_s=last_s,
        )

    def _apply(self, promotions: Promotions) -> None:
        """Keep promotions and put them into effect at once."""
        self._keep(promotions)
        self.configure(self._configured)
        self._restart()

    def _keep(self, promotions: Promotions) -> None:
        write_promotions(self._folder, promotions)
        self._state.promotions, self.watch.is_changed = promotions, False

    def _take_out(self, promotion: Promotion, reason: str) -> None:
        rollback = _rollback_of(promotion, _DAEMON, reason)
        self._state.promotions = self._state.promotions.without(promotion, rollback)
        self.configure(self._configured)
        self._restart()

    def _audit(self, action: str, by: str, caller: Mapping[str, object], **facts: object) -> None:
        digest = audit.append(self._folder, action, by, **facts, **caller)
        _log.info(action, by=by, **facts, **caller, chain=digest)


def _rollback_of(promotion: Promotion, by: str, reason: str) -> Rollback:
    return Rollback(
        slot=promotion.slot,
        policy=str(promotion),
        at_epoch_s=time.time(),
        by=by,
        reason=reason,
    )
