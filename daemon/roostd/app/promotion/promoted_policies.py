"""Puts promoted policies in the place of the configured ones, in a fresh engine.

A promoted model must still be the file that was promoted, byte for byte; otherwise the configured
policy decides, and log and status say so.
"""

import time
from dataclasses import replace
from pathlib import Path

import structlog

from roost_engine.domain.errors import PolicyError
from roost_engine.plugins.plugins import Canary, Models, Plugins
from roost_engine.policies.canary import Slot
from roost_engine.policies.protocols import ScorePolicy
from roost_engine.prediction.speed.speed_table import ModelSpeeds
from roost_engine.scoring.heuristic import HeuristicScore
from roost_formats.models.gate import load_onnx_gate
from roost_formats.models.model_order import load_onnx_order
from roost_formats.models.score import load_any_score, score_file
from roostd.config.config import Config
from roostd.config.policy_names import PolicyName, with_policy
from roostd.ops.promotions import Promotion, Promotions
from roostd.state import DaemonState

_log = structlog.get_logger(__name__)


def name_of(promotion: Promotion) -> PolicyName:
    """Return the policy of a promotion."""
    return PolicyName(promotion.slot, promotion.name, promotion.path)


def identity_of(policy: PolicyName) -> str:
    """Load a policy and return its identity: "onnx:" and twelve digits; "" for one of Roost's own.

    Raises:
        PolicyError: it is a model that fails a check of the loader.
    """
    if policy.slot is Slot.SCORE:
        path = score_file(policy.path or policy.name)
        return "" if path is None else load_any_score(path, time.perf_counter).name
    if not policy.path:
        return ""
    if policy.slot is Slot.GATE:
        return load_onnx_gate(Path(policy.path), time.perf_counter).name
    return load_onnx_order(Path(policy.path), time.perf_counter).name


def configured_with(config: Config, promotions: Promotions, faults: dict[Slot, str]) -> Config:
    """Return a configuration with the policies that are promoted for all users.

    Args:
        config: as the operator wrote it.
        promotions: those in effect.
        faults: receives why a promoted model cannot be used, by slot.
    """
    for slot, promotion in promotions.promoted.items():
        try:
            check_unchanged(promotion)
            config = with_policy(config, name_of(promotion))
        except PolicyError as error:
            faults[slot] = str(error)
            _log.error("promoted_policy_unusable", policy=str(promotion), error=str(error))
    return config


def extended(
    plugins: Plugins, state: DaemonState, *, has_canary: bool = True
) -> tuple[Plugins, Models]:
    """Return an engine's choice of policies with promoted models, and the canary.

    Args:
        plugins: by the configuration in effect.
        state: has the promotions, and receives what is wrong with them.
        has_canary: False leaves the canary out.
    """
    models = Models()
    for slot in (Slot.ORDER, Slot.GATE):
        promoted = state.promotions.promoted.get(slot)
        if promoted is not None and promoted.path and slot not in state.promotion_faults:
            plugins, models = with_model(plugins, models, name_of(promoted))
    canary = state.promotions.canary
    if canary is None or not has_canary:
        return plugins, models
    try:
        check_unchanged(canary)
        return _with_canary(plugins, models, canary, state.config)
    except PolicyError as error:
        state.promotion_faults[canary.slot] = f"canary: {error}"
        _log.error("promoted_policy_unusable", policy=str(canary), error=str(error))
        return plugins, models


def with_model(plugins: Plugins, models: Models, policy: PolicyName) -> tuple[Plugins, Models]:
    """Return a choice of policies in which a model decides in the order slot or the gate slot.

    Raises:
        PolicyError: the model fails a check of the loader.
    """
    if policy.slot is Slot.GATE:
        gate = load_onnx_gate(Path(policy.path), time.perf_counter)
        return replace(plugins, gate_model=gate.name), replace(models, gate=gate)
    order = load_onnx_order(Path(policy.path), time.perf_counter)
    return replace(plugins, order_model=order.name), replace(models, order=order)


def plugins_with(
    policy: PolicyName, config: Config, speeds: tuple[ModelSpeeds, ...], plugins: Plugins
) -> tuple[Plugins, Models]:
    """Return a choice of policies with another policy in one slot, for all users.

    Args:
        policy: the other one.
        config: in effect.
        speeds: of the models that users may name.
        plugins: the present choice, without a canary.

    Raises:
        PolicyError: the policy is a model that fails a check of the loader.
    """
    changed = with_policy(config, policy).choice.plugins(speeds, plugins.knowledge)
    order, gate = plugins.order_model, plugins.gate_model
    if policy.slot is Slot.ORDER:
        order = ""
    if policy.slot is Slot.GATE:
        gate = ""
    changed = replace(changed, order_model=order, gate_model=gate)
    if policy.path and policy.slot in (Slot.ORDER, Slot.GATE):
        return with_model(changed, Models(), policy)
    return changed, Models()


def _with_canary(
    plugins: Plugins, models: Models, canary: Promotion, config: Config
) -> tuple[Plugins, Models]:
    other = with_policy(config, name_of(canary)).choice
    found = Canary(slot=canary.slot, share_frac=canary.share_frac, model=canary.identity)
    match canary.slot:
        case Slot.GATE if canary.path:
            gate = load_onnx_gate(Path(canary.path), time.perf_counter)
            models = replace(models, canary_gate=gate)
        case Slot.GATE:
            found = replace(found, gate=other.gate.to_core(other.in_effect.gate))
        case Slot.ORDER if canary.path:
            model = load_onnx_order(Path(canary.path), time.perf_counter)
            models = replace(models, canary_order=model)
        case Slot.ORDER:
            found = replace(found, order=other.in_effect.order)
        case _:
            models = replace(models, canary_score=score_of(name_of(canary)))
    return replace(plugins, canary=found), models


def score_of(policy: PolicyName) -> ScorePolicy:
    """Load a score policy.

    Raises:
        PolicyError: it is a model that fails a check of the loader.
    """
    path = score_file(policy.path or policy.name)
    return HeuristicScore() if path is None else load_any_score(path, time.perf_counter)


def check_unchanged(promotion: Promotion) -> None:
    """Check that a promoted model is still what it was.

    Raises:
        PolicyError: it cannot be loaded, or it is another file.
    """
    found = identity_of(name_of(promotion))
    if found != promotion.identity:
        raise PolicyError(
            f"{promotion.path}: is {found}, and {promotion.identity} was promoted; put the file"
            " back, or promote this one"
        )
