"""The stack in effect: the one that `stack` names, with the parts that other settings replace."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from math import inf
from typing import TypeVar

from roost_engine.engine import EngineConfig
from roost_engine.plugins.plugins import Knowledge, Plugins
from roost_engine.plugins.stacks import STACKS, GateKind, OrderKind, PreemptionKind, Stack
from roost_engine.prediction.speed.speed_table import ModelSpeeds
from roost_engine.queue.learned_order import Fairness
from roost_formats.yaml.tree import KeyPath
from roostd.config.decisions import (
    EngineSection,
    GateSection,
    OrderSection,
    PlacementSection,
    PolicySection,
    PreemptionSection,
)
from roostd.config.values import NEVER, Section

_T = TypeVar("_T")

_FREQUENT = (
    PreemptionKind.LAS_MOVES,
    PreemptionKind.LAS_CLOSER_MOVES,
    PreemptionKind.LEARNED_MOVES,
    PreemptionKind.KNOWN_LEFT_MOVES,
    PreemptionKind.LEASES,
)
_TIMED = (GateKind.DELAY, GateKind.UPLINK_DELAY)  # gates that have longest_s
# The rules that ask for run times.
_PREDICTED = (PreemptionKind.LEARNED_MOVES, PreemptionKind.KNOWN_LEFT_MOVES)
# Of the keys of `order`, those that kinds other than `learned` have.
_WITHOUT_AGEING = ("longest_wait_s",)
_OF_KNOWN_LEFT = (*_WITHOUT_AGEING, "reads_limits", "run_time_model")
_OF_KIND: Mapping[OrderKind, tuple[str, ...]] = {
    OrderKind.LEARNED_LEFT: (*_OF_KNOWN_LEFT, "earned_trust", "passing_frac", "most_delay_s"),
    OrderKind.KNOWN_LEFT: _OF_KNOWN_LEFT,
    OrderKind.LAS: _WITHOUT_AGEING,
    OrderKind.S_RANK: _WITHOUT_AGEING,
}
_NETWORK_ONLY = ("patience_s", "restart_s", "cooldown_s", "budget_per_hour", "moves")
_OF_SEPARATE = ("restart_s", "cooldown_s", "budget_per_hour")  # sharing.separate has these too
_OF_EVERY_GATE = ("kind", "speeds")


def known_stack(name: str) -> str:
    """Return a name of a stack as it is.

    Raises:
        ValueError: no stack has this name; the message has the nearest one.
    """
    if name in STACKS:
        return name
    near = get_close_matches(name, STACKS, n=1)
    cure = f"did you mean {near[0]}?" if near else f"there are {', '.join(STACKS)}"
    raise ValueError(f"no stack {name}: {cure}")


@dataclass(frozen=True, slots=True, kw_only=True)
class StackChoice:
    """Which policies decide, by the configuration.

    Attributes:
        named: the stack that the configuration names.
        order, placement, policy, gate, preemption, engine: the sections, whose parts replace those
            of the stack unless they are null.
        partitions: those that allow preemption.
        separates: whether sharing.separate stops jobs there, whatever the stack does.
    """

    named: Stack
    order: OrderSection
    placement: PlacementSection
    policy: PolicySection
    gate: GateSection
    preemption: PreemptionSection
    engine: EngineSection
    partitions: tuple[str, ...]
    separates: bool = False

    @property
    def in_effect(self) -> Stack:
        """The stack with the parts that the configuration gives."""
        named = self.named
        return Stack(
            name=named.name,
            order=_either(self.order.kind, named.order),
            placement=_either(self.placement.kind, named.placement),
            model=_either(self.policy.model, named.model),
            gate=_either(self.gate.kind, named.gate),
            patience_s=_either(self.engine.patience_s, named.patience_s),
            preemption=_either(self.preemption.kind, named.preemption),
        )

    def _given(self) -> Mapping[str, tuple[KeyPath, object]]:
        """Return the setting of each part of a stack, by the part's name: its key and its value."""
        return {
            "order": (("order", "kind"), self.order.kind),
            "placement": (("placement", "kind"), self.placement.kind),
            "model": (("policy", "model"), self.policy.model),
            "gate": (("gate", "kind"), self.gate.kind),
            "patience_s": (("engine", "patience_s"), self.engine.patience_s),
            "preemption": (("preemption", "kind"), self.preemption.kind),
        }

    @property
    def in_words(self) -> str:
        """The name of the stack, with the parts that replace its own: "roost, gate.kind open"."""
        stack, given = self.named, self._given()
        others = [
            f"{'.'.join(path)} {_said(value)}"
            for part, (path, value) in given.items()
            if value is not None and value != getattr(stack, part)
        ]
        return ", ".join((stack.name, *others))

    def from_stack(self) -> Mapping[KeyPath, tuple[object, str]]:
        """Return the value of each setting that is null and what it comes from, by its key."""
        stack, source = self.in_effect, f"stack {self.named.name}"
        found: dict[KeyPath, tuple[object, str]] = {
            path: (getattr(stack, part), source)
            for part, (path, value) in self._given().items()
            if value is None
        }
        if self.preemption.lease_s is None:
            lease_s = self.preemption.lease_of(stack.preemption)
            found["preemption", "lease_s"] = lease_s, f"preemption.kind {stack.preemption}"
        return found

    def plugins(self, speeds: tuple[ModelSpeeds, ...], knowledge: Knowledge) -> Plugins:
        """Return the choice of policies for the engine and for the journal."""
        stack = self.in_effect
        return Plugins(
            stack=self.in_words,
            order=stack.order,
            placement=stack.placement,
            gate=self.gate.to_core(stack.gate),
            preemption=self.preemption.to_core(stack.preemption, self.partitions),
            speeds=speeds,
            knowledge=knowledge,
            any_gpus=True,
            learned_order=self.order.to_core(),
            longest_wait_s=inf if stack.order.has_ageing else self.order.longest_wait_s,
            ends=self.order.ends(stack.order),
        )

    def engine_config(self) -> EngineConfig:
        """Return the numbers of the engine."""
        return self.engine.to_core(self.in_effect.patience_s)

    def problems(self) -> Iterator[tuple[KeyPath, str]]:
        """Yield the settings that contradict the stack, each with what is wrong and the cure."""
        yield from self._order_problems()
        yield from self._gate_problems()
        kind = self.in_effect.preemption
        if kind is PreemptionKind.NONE and self.preemption.kind is None and not self.separates:
            for name in self.partitions:
                yield (
                    ("partitions", name, "preemption"),
                    f"stack {self.named.name} stops no job; remove this, or set preemption.kind:"
                    " network, or a stack that stops jobs, such as roost",
                )
        if kind in _FREQUENT:
            for name in _NETWORK_ONLY:
                if _is_chosen(self.preemption, name, self.preemption.kind):
                    yield (
                        ("preemption", name),
                        f"kind {kind} does not have it; remove it, or set preemption.kind: network",
                    )

    def _order_problems(self) -> Iterator[tuple[KeyPath, str]]:
        kind, order = self.in_effect.order, self.order
        for name in OrderSection.model_fields:
            if name == "kind" or not _is_chosen(order, name, order.kind):
                continue
            if name in _OF_KIND.get(kind, ()):
                continue
            if name == "run_time_model" and self.in_effect.preemption in _PREDICTED:
                continue
            if name in _WITHOUT_AGEING or kind is not OrderKind.LEARNED:
                other = OrderKind.LAS if name in _WITHOUT_AGEING else OrderKind.LEARNED
                cure = f"remove it, or set order.kind: {other}"
                yield ("order", name), f"kind {kind} does not have it; {cure}"
        has_band = kind is not OrderKind.LEARNED or order.fairness is Fairness.BAND
        if not has_band and not _is_default(order, "band"):
            cure = "remove it, or set order.fairness: band"
            yield ("order", "band"), f"fairness {order.fairness} does not have it; {cure}"

    def _gate_problems(self) -> Iterator[tuple[KeyPath, str]]:
        """Yield that the limit on every gate would end waits that the gate in effect allows."""
        most_s, longest_s = self.engine.gate_longest_s, self.gate.longest_s
        if self.in_effect.gate not in _TIMED or most_s > longest_s:
            return
        if "gate_longest_s" in self.engine.model_fields_set:
            yield (
                ("engine", "gate_longest_s"),
                f"{most_s:.0f} is not more than gate.longest_s, {longest_s:.0f}: raise it, lower"
                " gate.longest_s, or set gate.kind: open",
            )
        else:
            yield (
                ("gate", "longest_s"),
                f"{longest_s:.0f} is not less than engine.gate_longest_s, {most_s:.0f}: lower it,"
                " raise engine.gate_longest_s, or set gate.kind: open",
            )

    def unused(self) -> Iterator[tuple[KeyPath, str]]:
        """Yield the settings that have no effect, each with the reason and the cure.

        These are no errors: `gate.kind: open` and `preemption.kind: none` are what an operator sets
        in a hurry, and the numbers stay for the way back.
        """
        stack = self.in_effect
        if stack.preemption is PreemptionKind.NONE:
            for name in (*_NETWORK_ONLY, "lease_s"):
                is_read = self.separates and name in _OF_SEPARATE
                if not is_read and _is_chosen(self.preemption, name, self.preemption.kind):
                    cure = "remove it, or set preemption.kind"
                    yield ("preemption", name), f"no effect with kind none; {cure}"
        for name in GateSection.model_fields:
            if self._gate_reads(stack, name) or not _is_chosen(self.gate, name, self.gate.kind):
                continue
            cure = "remove it, or set gate.kind: delay or uplink-delay"
            if name == "uplink_frac":
                cure = "remove it, or set gate.kind: uplink-delay"
            yield ("gate", name), f"no effect with kind {stack.gate}; {cure}"

    def _gate_reads(self, stack: Stack, name: str) -> bool:
        if name in _OF_EVERY_GATE:
            return True
        if name == "uplink_frac":
            return stack.gate is GateKind.UPLINK_DELAY
        return stack.gate in _TIMED

    def notes(self) -> Iterator[str]:
        """Yield what an operator should know of a stack that a figure made attractive."""
        kind = self.in_effect.preemption
        is_chosen = kind in _FREQUENT
        if is_chosen and not self.partitions:
            yield (
                f"stack {self.named.name} stops running jobs ({kind}), and no partition allows it:"
                " set partitions.NAME.preemption, or stack: roost-no-preemption"
            )


def _is_chosen(section: Section, name: str, kind: object) -> bool:
    """Return whether a setting was given in order to have an effect.

    A default beside `kind` is such a setting too: `fairness: free` asks for something. In a section
    with most of its keys it is not: that is deploy/roostd.yaml, perhaps of an older release.
    """
    if not _is_default(section, name):
        return True
    given = section.model_fields_set
    is_listing = 2 * len(given) > len(type(section).model_fields)
    return kind is not None and name in given and not is_listing


def _is_default(section: Section, name: str) -> bool:
    return bool(getattr(section, name) == type(section).model_fields[name].default)


def _said(value: object) -> str:
    if isinstance(value, float):
        return NEVER if value == inf else f"{value:g}"
    return str(value)


def _either(given: _T | None, default: _T) -> _T:
    return default if given is None else given
