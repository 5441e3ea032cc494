"""Speeds by tier: how fast a job or a model runs on one node, in one rack and across racks."""

from dataclasses import dataclass
from math import isfinite
from typing import Protocol

from roost_engine.domain.tier import Tier

_LEAST_SPEED_FRAC = 1e-3


@dataclass(frozen=True, slots=True)
class TierSpeeds:
    """Speed on one node, in one rack and across racks, above 0; only their ratios matter.

    Made of numbers that are no speeds, or that grow with the distance, it holds what is left of
    them: a farther tier is never faster.
    """

    node_frac: float
    rack_frac: float
    across_frac: float

    def __post_init__(self) -> None:
        at_most = 1.0
        for name in ("node_frac", "rack_frac", "across_frac"):
            value = getattr(self, name)
            known = min(max(value, _LEAST_SPEED_FRAC), at_most) if isfinite(value) else at_most
            object.__setattr__(self, name, known)
            at_most = known

    def at(self, tier: int) -> float:
        """Speed on a tier: 0 one node, 1 one rack, 2 across racks."""
        return (self.node_frac, self.rack_frac, self.across_frac)[tier]

    def lost_frac(self, closest: int) -> float:
        """Return what a job loses one tier farther than its closest tier; 0 at the last one.

        For a job that fits on a node: 1 - speed(rack) / speed(node).
        """
        next_out = min(closest + 1, Tier.CLUSTER)
        return 1.0 - self.at(next_out) / self.at(closest)


UNKNOWN_SPEEDS = TierSpeeds(1.0, 0.7, 0.6)
"""Without any table: about the median of public profiles on 8 GPUs."""


class SpeedTable(Protocol):
    """Speeds of models that jobs may name."""

    def speeds(self, model: str, gpu_count: int) -> TierSpeeds | None:
        """Return the speeds of one model on so many GPUs; None: no such model."""

    def typical(self, gpu_count: int) -> TierSpeeds:
        """Return the speeds of a job of which nothing else is known."""


class NoTable:
    """Knows no model."""

    def speeds(self, model: str, gpu_count: int) -> TierSpeeds | None:
        """See SpeedTable."""
        return None

    def typical(self, gpu_count: int) -> TierSpeeds:
        """See SpeedTable. A job of one GPU does not communicate."""
        return UNKNOWN_SPEEDS if gpu_count > 1 else TierSpeeds(1.0, 1.0, 1.0)
