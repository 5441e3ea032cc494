"""What records of earlier versions lack or call otherwise, so that old journals stay readable.

A record is read in three steps: its name is translated, fields that it lacks are added, and what
can only be derived from the rest of the record is filled in once that is read.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from roost_engine.cluster.features import COLUMN
from roost_engine.domain.actions import Decision, Place
from roost_engine.domain.lazy import Lazy
from roost_engine.domain.tier import Tier

_RENAMED: Mapping[str, str] = {}
"""Names of record types, before and now."""


def present_name(name: str) -> str:
    """Return what a record type is called now."""
    return _RENAMED.get(name, name)


def completed(plain: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a record with the fields that an earlier version did not write."""
    if plain["$"] == "Placement" and "tier" not in plain:
        return {**plain, "tier": Tier.NODE.value}  # corrected by `finished`
    return plain


def finished(record: Any, plain: Mapping[str, Any]) -> Any:
    """Return a record with what had to be derived from the rest of it."""
    derive = _DERIVED.get(type(record).__name__)
    return record if derive is None else derive(record, plain)


def _decision(record: Decision, plain: Mapping[str, Any]) -> Decision:
    """Before 0.2 a placement's tier stood only among the features of its candidate."""
    if not plain["candidates"] or "tier" in plain["candidates"][0]:
        return record
    tiers = np.rint(record.features[:, COLUMN["tier_frac"]] * 2).astype(int).tolist()
    pairs = zip(record.candidates, tiers, strict=True)
    return replace(record, candidates=tuple(replace(one, tier=Tier(tier)) for one, tier in pairs))


def _place(record: Place, plain: Mapping[str, Any]) -> Place:
    if "tier" in plain["placement"]:
        return record
    chosen: Lazy[Decision] = record.decision
    tier = chosen.get().candidates[0].tier
    return replace(record, placement=replace(record.placement, tier=tier))


_DERIVED: Mapping[str, Callable[[Any, Mapping[str, Any]], Any]] = {
    "Decision": _decision,
    "Place": _place,
}
