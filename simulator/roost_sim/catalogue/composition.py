"""A composition: a policy made of an order, a placement rule, a gate and a preemption rule.

Page: docs/simulator/README.md.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from math import inf
from pathlib import Path
from typing import TypeVar

from roost_engine.domain.errors import PolicyError
from roost_engine.engine import EngineConfig
from roost_engine.gate.model_gate import ModelGate
from roost_engine.plugins.plugins import Plugins, Policies
from roost_engine.plugins.policy_kinds import ends_of
from roost_engine.plugins.stacks import OrderKind, PlacementKind
from roost_engine.prediction.predictors import Predictors
from roost_engine.prediction.run_time.history import RunTimeHistory
from roost_engine.prediction.run_time.run_time_model import RunTimeBlend
from roost_engine.queue.learned_order import LearnedOrderConfig
from roost_engine.queue.model_order import order_by
from roost_formats.models.gate import load_onnx_gate
from roost_formats.models.model_order import load_onnx_order
from roost_formats.models.run_times import load_onnx_run_times
from roost_sim.catalogue.gates import gate_part
from roost_sim.catalogue.orders import order_part
from roost_sim.catalogue.placements import placement_part
from roost_sim.catalogue.preemptions import preemption_part
from roost_sim.catalogue.sharings import parse_sharing, sharing_of
from roost_sim.errors import SimError
from roost_sim.information.altered_history import AlteredHistory
from roost_sim.information.policy_information import PolicyInformation
from roost_sim.traces.shapes import JobShapeRule, ShapeRule
from roost_sim.worlds.fidelity import Regime

Model = TypeVar("Model")


@dataclass(frozen=True, slots=True, kw_only=True)
class Composition:
    """A policy: one part of each kind, by name; `sharing` "": two jobs never share a GPU."""

    name: str
    order: str
    placement: str = "consolidation"
    gate: str = "open"
    preemption: str = "none"
    sharing: str = ""

    @property
    def regime(self) -> Regime:
        """What it knows about run times: the most that any of its parts knows."""
        parts = (
            order_part(self.order).regime,
            placement_part(self.placement).regime,
            gate_part(self.gate).regime,
            preemption_part(self.preemption).regime,
        )
        return min(parts, key=list(Regime).index)

    @property
    def asks_speed(self) -> bool:
        """Whether a part of it depends on how fast jobs run."""
        parts = order_part(self.order), gate_part(self.gate), preemption_part(self.preemption)
        separates = bool(self.sharing) and parse_sharing(self.sharing)[1].separates
        return separates or any(part.asks_speed for part in parts)

    @property
    def asks_limits(self) -> bool:
        """Whether jobs need time limits, because a part of it depends on them."""
        return gate_part(self.gate).regime is Regime.LIMIT

    @property
    def shapes(self) -> ShapeRule:
        """The rule by which GPU counts become shapes."""
        return placement_part(self.placement).shapes

    def shapes_by_job(self, information: PolicyInformation) -> JobShapeRule | None:
        """Return the rule for shapes that depend on the job too; None: they do not."""
        rule = placement_part(self.placement).shapes_by_job
        return None if rule is None else rule(information)

    @property
    def source(self) -> str:
        """The definitions of its parts, with the papers."""
        parts = [order_part(self.order).source, placement_part(self.placement).source]
        if self.gate != "open":
            parts.append(gate_part(self.gate).source)
        if self.preemption != "none":
            parts.append(preemption_part(self.preemption).source)
        if self.sharing:
            parts.append(parse_sharing(self.sharing)[0].source)
        return "; ".join(parts)

    def build(self, information: PolicyInformation) -> Policies:
        """Make the engine's plug-ins: as roostd makes the parts that it has too."""
        order, placement = order_part(self.order), placement_part(self.placement)
        gate, rule = gate_part(self.gate), preemption_part(self.preemption)
        # A selector reads the same predictors as the learned order.
        kind = order.kind or (OrderKind.LEARNED if order.model else OrderKind.PRIORITY)
        plugins = Plugins(
            order=kind,
            ends=ends_of(kind),
            placement=placement.kind or PlacementKind.CONSOLIDATION,
            gate=gate.numbers,
            preemption=None if rule.numbers is None else rule.numbers(information),
            any_gpus=True,
            learned_order=replace(
                order.learned or LearnedOrderConfig(),
                reads_limits=not information.limits_are_drawn,
            ),
            longest_wait_s=order.longest_wait_s,
        )
        policies = plugins.policies(
            placement.score(information),
            information.speed_table(),
            _blend(information),
            history=_history(information, plugins),
        )
        if order.model is not None and policies.predictors is not None:
            model = _loaded(load_onnx_order, order.model)
            policies = replace(policies, order=order_by(model, policies.predictors))
        elif order.kind is None:
            policies = replace(policies, order=order.build(information))
        if placement.kind is None:
            policies = replace(policies, candidates=placement.candidates(information))
        if gate.model is not None:
            predictors = policies.predictors or Predictors(information.speed_table())
            asked = ModelGate(_loaded(load_onnx_gate, gate.model), predictors)
            policies = replace(policies, gate=asked, predictors=predictors)
        elif gate.numbers is None:
            policies = replace(policies, gate=gate.build(information))
        if rule.numbers is None:
            policies = replace(policies, preemption=rule.build(information))
        if self.sharing:
            _, numbers = parse_sharing(self.sharing)
            rule_of_pairs = sharing_of(self.sharing, information)
            separation = numbers.separation()
            policies = replace(policies, sharing=rule_of_pairs, separation=separation)
        return policies

    def engine_config(self, default: EngineConfig) -> EngineConfig:
        """Return the engine's numbers, with those that define the policy.

        A policy whose first job has nodes reserved at once is plain Slurm, or a scheduler in its
        place: there no job is pinned by Roost.
        """
        gate = gate_part(self.gate)
        patience_s = default.patience_s if gate.patience_s is None else gate.patience_s
        placement = placement_part(self.placement)
        is_pinned = default.standing_pins and gate.patience_s != 0.0
        return replace(
            default,
            patience_s=patience_s,
            passing=gate.passing,
            gate_longest_s=inf if gate.waits_for_ever else default.gate_longest_s,
            standing_pins=is_pinned,
            agents=max(default.agents, placement.agents),
            forwards=default.forwards and placement.forwards,
            wider_after_s=placement.wider_after_s,
        )


def _history(information: PolicyInformation, plugins: Plugins) -> RunTimeHistory | None:
    spec, reads_limits = information.predictions, plugins.learned_order.reads_limits
    if not spec.alters_history:
        return None
    return AlteredHistory(spec, information.seed, reads_limits)


def _blend(information: PolicyInformation) -> RunTimeBlend | None:
    path = information.predictions.model
    if path is None:
        return None
    model = _loaded(load_onnx_run_times, path)
    return RunTimeBlend(model=model, zero_epoch_s=information.zero_epoch_s)


def _loaded(load: Callable[[Path, Callable[[], float]], Model], path: Path) -> Model:
    """Load a model with a clock that stands still: a slow machine must not change a result.

    Raises:
        SimError: the model cannot be loaded.
    """
    if not path.name:
        raise SimError("a policy names no file of its model; want model:FILE")
    try:
        return load(path, lambda: 0.0)
    except PolicyError as error:
        raise SimError(f"{path}: {error}") from error
