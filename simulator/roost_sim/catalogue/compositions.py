"""Policies by name: compositions of an order, a placement rule, a gate and a preemption rule.

With four separate parts, a comparison shows which of them makes the difference. Any composition can
be written `order+placement+gate+preemption`; parts left off at the end take the default. A policy
shares GPUs by the rule after an `@`: `roost@measured`.
Page: docs/simulator/README.md.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from difflib import get_close_matches
from math import inf
from pathlib import Path
from typing import TypeVar

from roost_engine.domain.errors import PolicyError
from roost_engine.engine import EngineConfig
from roost_engine.gate.model_gate import ModelGate
from roost_engine.plugins.plugins import Plugins, Policies
from roost_engine.plugins.policy_kinds import ends_of
from roost_engine.plugins.stacks import STACKS, OrderKind, PlacementKind, Stack
from roost_engine.prediction.predictors import Predictors
from roost_engine.prediction.run_time.history import RunTimeHistory
from roost_engine.prediction.run_time.run_time_model import RunTimeBlend
from roost_engine.queue.learned_order import LearnedOrderConfig
from roost_engine.queue.model_order import order_by
from roost_formats.models.gate import load_onnx_gate
from roost_formats.models.model_order import load_onnx_order
from roost_formats.models.run_times import load_onnx_run_times
from roost_sim.catalogue.dated_stacks import DATED_STACKS
from roost_sim.catalogue.gates import GATES, gate_of, gate_part, has_arguments
from roost_sim.catalogue.orders import ORDERS, SELECTOR, order_part
from roost_sim.catalogue.placements import PLACEMENTS, has_own_model, placement_of, placement_part
from roost_sim.catalogue.preemptions import PREEMPTIONS, preemption_part
from roost_sim.catalogue.sharings import parse_sharing, sharing_of
from roost_sim.errors import SimError
from roost_sim.information.altered_history import AlteredHistory
from roost_sim.information.policy_information import PolicyInformation
from roost_sim.traces.shapes import JobShapeRule, ShapeRule
from roost_sim.worlds.fidelity import Regime

__all__ = [
    "GATES",
    "ORDERS",
    "PLACEMENTS",
    "POLICIES",
    "PREEMPTIONS",
    "Composition",
    "PolicyInformation",
    "PolicyNameError",
    "Regime",
    "ShapeRule",
    "find_policy",
]

Model = TypeVar("Model")


class PolicyNameError(SimError):
    """No policy, and no part of a policy, has this name."""


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


# The six baselines of TopDRL's evaluation are not published; these are the best documented ones,
# and TopDRL's own choice of GPUs without learning. "DRF" and "Tetris" are the laboratory's names.
TOPDRL_BASELINES = (
    ("fcfs-ff", "fifo", "first-fit"),
    ("fcfs-lb", "fifo", "load-balance-tree"),
    ("sjf-lb", "sjf", "load-balance-tree"),
    ("drf-lb", "smallest-first", "load-balance-tree"),
    ("tetris-lb", "largest-first", "load-balance-tree"),
    ("random", "random-order", "random"),
    ("fcfs-knn", "fifo", "knn"),
    ("sjf-knn", "sjf", "knn"),
)

NOT_PREEMPTIVE = (
    *("fifo", "sjf", "ssf", "drf", "optimus", "asrpt"),
    *("smallest-first", "largest-first", "random-order"),
)


def _preemptive(name: str, order: str, preemption: str, placement: str = "") -> Composition:
    return Composition(
        name=name, order=order, placement=placement or "consolidation", preemption=preemption
    )


_PREEMPTIVE_ORDERS = (
    ("srtf", "srtf-pays-moves"),
    ("srsf", "srsf-moves"),
    ("las", "las-moves"),
    ("gittins-2d", "gittins-moves"),
)

DATED = tuple(Composition(**stack._asdict()) for stack in DATED_STACKS)

BASELINES = (
    *DATED,
    *(_preemptive(name, name, rule) for name, rule in _PREEMPTIVE_ORDERS),
    *(_preemptive(f"{name}-strict", name, rule, "strict") for name, rule in _PREEMPTIVE_ORDERS),
    _preemptive("tiresias", "tiresias", "tiresias-moves", "skew"),
    _preemptive("tiresias-scattered", "tiresias", "tiresias", "skew-scattered"),
    _preemptive("tiresias-consolidated", "tiresias", "tiresias-moves"),
    _preemptive("tiresias-strict", "tiresias", "tiresias-moves", "strict"),
    _preemptive("tiresias-lucid", "tiresias-lucid", "tiresias-lucid"),
    _preemptive("tiresias-blox", "least-run-time", "least-run-time"),
    _preemptive("tiresias-dally", "las", "leases", "skew-dally"),
    _preemptive("gandiva", "longest-waiting", "time-slices"),
    _preemptive("gandiva-strict", "longest-waiting", "time-slices", "strict"),
    _preemptive("gandiva-dally", "latest-start", "leases", "machine-or-random"),
    _preemptive("themis", "themis", "themis-leases"),
    _preemptive("s-rank", "s-rank", "leases"),
    Composition(
        name="dally", order="s-rank", placement="first-found", gate="dally", preemption="leases"
    ),
    Composition(name="tetris", order="tetris", placement="tetris"),
    Composition(name="lif", order="fifo", placement="lif"),
    Composition(name="lwf", order="fifo", placement="lwf-1"),
    Composition(name="first-fit", order="fifo", placement="first-fit"),
    Composition(name="load-balance", order="fifo", placement="load-balance"),
    Composition(name="lwf-srsf", order="srsf", placement="lwf-1", preemption="srsf"),
    Composition(name="random", order="random-order", placement="random"),
    Composition(name="slurm", order="fifo", placement="slurm-24.05", gate="easy"),
    Composition(name="slurm-22.05", order="fifo", placement="slurm-22.05", gate="easy"),
    Composition(
        name="slurm-switches", order="fifo", placement="slurm-switches", gate="easy-switches"
    ),
)


def _of_stack(stack: Stack) -> Composition:
    """Return the policy that is a stack of roostd."""
    return Composition(
        name=stack.name,
        order=stack.order.value,
        placement=placement_of(stack),
        gate=gate_of(stack),
        preemption=stack.preemption.value,
    )


POLICIES: Mapping[str, Composition] = {
    composition.name: composition
    for composition in (
        *map(_of_stack, STACKS.values()),
        *(Composition(name=order, order=order) for order in NOT_PREEMPTIVE),
        *BASELINES,
        Composition(name="fifo-easy", order="fifo", gate="easy"),
        Composition(name="fifo-block", order="fifo", gate="block"),
        *(
            Composition(name=f"{order}-strict", order=order, placement="strict")
            for order in ("fifo", "sjf")
        ),
        # TopDRL with Roost's own selector, which was trained with reservations.
        Composition(name="topdrl", order=SELECTOR, placement="knn", gate="patient"),
        *(
            Composition(name=f"topdrl-{name}", order=order, placement=placement)
            for name, order, placement in TOPDRL_BASELINES
        ),
    )
}

_KINDS: tuple[tuple[str, Mapping[str, object]], ...] = (
    ("order", ORDERS),
    ("placement", PLACEMENTS),
    ("gate", GATES),
    ("preemption", PREEMPTIONS),
)


def find_policy(name: str) -> Composition:
    """Return the policy of a name, or the composition `order+placement+gate+preemption`.

    Either may be followed by `@` and the rule by which jobs share GPUs.

    Raises:
        PolicyNameError: no policy or part has this name; the message has the nearest name.
    """
    alone, at, sharing = name.partition("@")
    if at:
        try:
            parse_sharing(sharing)
        except PolicyError as error:
            raise PolicyNameError(str(error)) from error
        return replace(find_policy(alone), name=name, sharing=sharing)
    if name in POLICIES:
        return POLICIES[name]
    parts = name.split("+")
    if len(parts) == 1:
        raise PolicyNameError(_no_such("policy", name, POLICIES))
    if len(parts) > len(_KINDS):
        raise PolicyNameError(f"{name}: want at most order+placement+gate+preemption")
    chosen: dict[str, str] = {}
    for (kind, known), part in zip(_KINDS, parts, strict=False):
        if kind == "gate" and has_arguments(part):
            gate_part(part)
        elif kind == "order" and part.startswith(f"{SELECTOR}:"):
            order_part(part)
        elif kind == "preemption" and part.partition(":")[0] in known:
            preemption_part(part)
        elif part not in known and not (kind == "placement" and has_own_model(part)):
            raise PolicyNameError(_no_such(kind, part, known))
        chosen[kind] = part
    return Composition(name=name, **chosen)


def _no_such(kind: str, name: str, known: Mapping[str, object]) -> str:
    near = get_close_matches(name, known, n=1)
    cure = f"did you mean {near[0]}?" if near else f"there are {', '.join(known)}"
    return f"no {kind} {name!r}: {cure}"
