"""Reads records of earlier versions, which lack some fields and have other names for some.

A record is read in three steps: its name is compared with the present and earlier names of the
expected type, missing fields are added, and fields that derive from others are filled in once those
are read.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from roost_engine.cluster.features import COLUMN
from roost_engine.domain.actions import Decision, Place
from roost_engine.domain.lazy import Lazy
from roost_engine.domain.tier import Tier

_EARLIER_NAMES: Mapping[str, tuple[str, ...]] = {
    "LoadsSeen": ("LoadSeen",),
    "OpenWait": ("Spell",),
    "ReleaseToSlurm": ("LetGo",),
    "SpeedState": ("SensitivityState",),
    "WaitSample": ("Wait",),  # the action has that name too, so the expected type decides
}
"""The names under which earlier versions wrote a record type, by its present name."""


def is_name_of(name: str, kind: Any) -> bool:
    """Return whether this or an earlier version writes that name for records of a type."""
    present = getattr(kind, "__name__", "")
    return name == present or name in _EARLIER_NAMES.get(present, ())


def completed(plain: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a record with the fields that an earlier version did not write."""
    complete = _COMPLETED.get(plain["$"])
    return plain if complete is None else complete(plain)


def _loads_seen(plain: Mapping[str, Any]) -> Mapping[str, Any]:
    """Make the load of one node, of which there was an event for each, one of several nodes."""
    load = plain["load"]
    return {
        "$": plain["$"],
        "at_s": plain["at_s"],
        "names": [plain["name"]],
        "load": {**load, "shape": [1, *load["shape"]]},
    }


def _placement(plain: Mapping[str, Any]) -> Mapping[str, Any]:
    """Add a tier, which placements lacked before 0.2; `finished` replaces it by the right one."""
    return plain if "tier" in plain else {**plain, "tier": Tier.NODE.value}


def _delay_state(plain: Mapping[str, Any]) -> Mapping[str, Any]:
    """Rename `spells` to `waits`, and drop the predictors, which were in here before 0.2."""
    if "spells" not in plain:
        return plain
    return {"$": plain["$"], "timers": plain["timers"], "waits": plain["spells"]}


def _knowledge(plain: Mapping[str, Any]) -> Mapping[str, Any]:
    """Move the predictors' state out of the gate's, where it was before 0.2."""
    gate = plain.get("gate")
    if "predictors" in plain or gate is None or "runs" not in gate:
        return plain
    predictors = {"$": "PredictorsState", "speed": gate["sensitivity"]}
    return {**plain, "predictors": predictors}


def _predictors_state(plain: Mapping[str, Any]) -> Mapping[str, Any]:
    """Drop what a second predictor of run times knew, which there was before 0.2."""
    return {name: value for name, value in plain.items() if name != "run_time"}


def _learned_order(plain: Mapping[str, Any]) -> Mapping[str, Any]:
    """Trust predictions always, as the order did before 0.2, where the record does not say."""
    return {"earned_trust": False, **plain}


_COMPLETED: Mapping[str, Callable[[Mapping[str, Any]], Mapping[str, Any]]] = {
    "DelayState": _delay_state,
    "Knowledge": _knowledge,
    "LearnedOrderConfig": _learned_order,
    "LoadSeen": _loads_seen,
    "Placement": _placement,
    "PredictorsState": _predictors_state,
}


def finished(record: Any, plain: Mapping[str, Any]) -> Any:
    """Return a record with the fields that derive from its other fields."""
    derive = _DERIVED.get(type(record).__name__)
    return record if derive is None else derive(record, plain)


def _decision(record: Decision, plain: Mapping[str, Any]) -> Decision:
    """Set the candidates' tiers, which before 0.2 were only in the features."""
    if not plain["candidates"] or "tier" in plain["candidates"][0]:
        return record
    tiers = np.rint(record.features[:, COLUMN["tier_frac"]] * 2).astype(int).tolist()
    pairs = zip(record.candidates, tiers, strict=True)
    return replace(record, candidates=tuple(replace(one, tier=Tier(tier)) for one, tier in pairs))


def _place(record: Place, plain: Mapping[str, Any]) -> Place:
    """Set the placement's tier from the chosen candidate, see `_decision`."""
    if "tier" in plain["placement"]:
        return record
    chosen: Lazy[Decision] = record.decision
    tier = chosen.get().candidates[0].tier
    return replace(record, placement=replace(record.placement, tier=tier))


_DERIVED: Mapping[str, Callable[[Any, Mapping[str, Any]], Any]] = {
    "Decision": _decision,
    "Place": _place,
}
