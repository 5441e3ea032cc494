"""The policies that an operator can name: those that are part of Roost, and models in a folder.

A policy is named `order:las`, or `las` where only one slot has a policy of that name. A model is
named by its file without `.onnx`, and its manifest says which slot it is for.
Page: docs/policies.md.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from types import MappingProxyType

from roost_engine.domain.errors import PolicyError, UnknownPolicy
from roost_engine.plugins.stacks import (
    BUILTIN_MODEL,
    GRAPH_MODEL,
    NEIGHBOURS_MODEL,
    NO_MODEL,
    GateKind,
    OrderKind,
    PlacementKind,
    PreemptionKind,
)
from roost_engine.policies.canary import Slot
from roost_formats.models.manifest import manifest_path
from roost_formats.models.order import BUILTIN_SELECTOR
from roostd.config.config import Config
from roostd.config.plain_file import NO_FILE, is_no_file

FOLDER = "models"
"""Beside the journal: the models that can be promoted."""

SELECTOR = "selector"
"""The job selector that ships with Roost."""

_LARGEST_MANIFEST_BYTES = 1 << 20
_KINDS: Mapping[Slot, type[StrEnum]] = MappingProxyType(
    {
        Slot.ORDER: OrderKind,
        Slot.PLACEMENT: PlacementKind,
        Slot.GATE: GateKind,
        Slot.PREEMPTION: PreemptionKind,
    }
)
_SLOT_OF_MODEL: Mapping[str, Slot] = MappingProxyType(
    {
        "order": Slot.ORDER,
        "gate": Slot.GATE,
        "score": Slot.SCORE,
        "graph": Slot.SCORE,
        "interference": Slot.SCORE,
    }
)


@dataclass(frozen=True, slots=True)
class PolicyName:
    """A policy of a slot.

    Attributes:
        path: of a model; "" for a policy that is part of Roost.
    """

    slot: Slot
    name: str
    path: str = ""

    def __str__(self) -> str:
        """Write it as an operator does: order:las."""
        return f"{self.slot}:{self.name}"


def known_policies(state_folder: Path) -> Iterator[PolicyName]:
    """Yield every policy that can be named: those of Roost first, then the models."""
    for slot in Slot:
        if slot is Slot.SCORE:
            yield PolicyName(slot, NO_MODEL)
            yield PolicyName(slot, BUILTIN_MODEL)
            yield PolicyName(slot, GRAPH_MODEL)
            yield PolicyName(slot, NEIGHBOURS_MODEL)
        else:
            yield from (PolicyName(slot, kind.value) for kind in _KINDS[slot])
        if slot is Slot.ORDER:
            yield PolicyName(slot, SELECTOR, str(BUILTIN_SELECTOR))
    folder = state_folder / FOLDER
    for path in sorted(folder.glob("*.onnx")) if folder.is_dir() else ():
        slot_of_model = _slot_of(path)
        if slot_of_model is not None:
            yield PolicyName(slot_of_model, path.stem, str(path))


def find_policy(text: str, state_folder: Path) -> PolicyName:
    """Return the policy that an operator named.

    Raises:
        UnknownPolicy: there is none, or several slots have one.
    """
    prefix, colon, rest = text.partition(":")
    wanted, slots = (rest, [prefix]) if colon else (text, list(Slot))
    if colon and prefix not in list(Slot):
        raise UnknownPolicy(f"no slot {prefix}; there are {', '.join(Slot)}")
    known = list(known_policies(state_folder))
    found = [policy for policy in known if policy.name == wanted and policy.slot in slots]
    if len(found) == 1:
        return found[0]
    if found:
        raise UnknownPolicy(f"{text} is ambiguous: want {' or '.join(map(str, found))}")
    path = state_folder / FOLDER / f"{Path(wanted).name}.onnx"
    if path.exists():
        raise UnknownPolicy(f"{path}: {_why_no_slot(path)}")
    names = ", ".join(str(policy) for policy in known if policy.slot in slots)
    raise UnknownPolicy(f"no policy {text}; there are {names}; models belong into {path.parent}")


def policy_of(config: Config, slot: Slot) -> PolicyName:
    """Return the policy that a configuration names for a slot; a model's name is its path."""
    stack = config.choice.in_effect
    match slot:
        case Slot.ORDER:
            return PolicyName(slot, stack.order)
        case Slot.PLACEMENT:
            return PolicyName(slot, stack.placement)
        case Slot.GATE:
            return PolicyName(slot, stack.gate)
        case Slot.PREEMPTION:
            return PolicyName(slot, stack.preemption)
        case Slot.SCORE:
            shipped = (NO_MODEL, BUILTIN_MODEL, GRAPH_MODEL, NEIGHBOURS_MODEL)
            is_file = stack.model not in shipped
            return PolicyName(slot, stack.model, stack.model if is_file else "")


def with_policy(config: Config, policy: PolicyName) -> Config:
    """Return a configuration with another policy in one slot.

    An order or a gate that is a model leaves `order.kind` or `gate.kind` as it is: the engine asks
    the model in its place.

    Raises:
        UnknownPolicy: this version has no such policy; another one that ran here before had it.
    """
    section, key = ("policy", "model") if policy.slot is Slot.SCORE else (policy.slot.value, "kind")
    if policy.slot is Slot.SCORE:
        value: object = policy.path or policy.name
    elif policy.path:
        return config
    else:
        value = _kind_named(policy)
    changed = getattr(config, section).model_copy(update={key: value})
    return config.model_copy(update={section: changed})


def _kind_named(policy: PolicyName) -> StrEnum:
    kinds = _KINDS[policy.slot]
    if policy.name not in list(kinds):
        raise UnknownPolicy(f"no policy {policy} in this version; there are {', '.join(kinds)}")
    return kinds(policy.name)


def _slot_of(path: Path) -> Slot | None:
    """Return the slot of a model; None where its manifest names none that can be promoted."""
    try:
        return _SLOT_OF_MODEL.get(_kind_of(path))
    except PolicyError:
        return None


def _why_no_slot(path: Path) -> str:
    try:
        return f"a model of kind {_kind_of(path)} has no slot; want {' or '.join(_SLOT_OF_MODEL)}"
    except PolicyError as error:
        return str(error)


def _kind_of(path: Path) -> str:
    """Return the kind that a model's manifest names.

    Raises:
        PolicyError: it cannot be read.
    """
    beside = manifest_path(path)
    try:
        if is_no_file(beside):
            raise PolicyError(f"{beside}: {NO_FILE}")
        if beside.stat().st_size > _LARGEST_MANIFEST_BYTES:
            raise PolicyError(f"{beside}: larger than 1 MiB")
        manifest = json.loads(beside.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise PolicyError(f"{beside}: the manifest cannot be read: {error}") from error
    kind = manifest.get("kind", "score") if isinstance(manifest, dict) else None
    if not isinstance(kind, str):
        raise PolicyError(f"{beside}: the manifest names no kind")
    return kind
