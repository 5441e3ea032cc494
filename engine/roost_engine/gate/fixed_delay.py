"""Gates that learn nothing, as baselines: a fixed wait, or an endless wait."""

from dataclasses import dataclass
from math import inf

from roost_engine.cluster.tiers import closest_tier
from roost_engine.domain.tier import Tier
from roost_engine.policies.protocols import Allow, Defer, GateVerdict, Offer, WaitEnded


@dataclass(frozen=True, slots=True)
class FixedDelay:
    """Defers each job for a fixed time while it is offered less than its closest tier.

    Both timers count from when the job could first have been placed.

    Attributes:
        node_timer_s: T_M, how long a job that fits on one node declines GPUs in one rack.
        rack_timer_s: T_R, how long a job that fits on one node or in one rack declines GPUs across
            racks.
    """

    node_timer_s: float
    rack_timer_s: float

    def __post_init__(self) -> None:
        if not (self.node_timer_s >= 0 and self.rack_timer_s >= 0):
            pair = f"{self.node_timer_s:g} and {self.rack_timer_s:g}"
            raise ValueError(f"want timers of 0 s or more, got {pair}")

    def decide(self, offer: Offer) -> GateVerdict:
        """See policies.GatePolicy."""
        closest = closest_tier(offer.cluster, offer.job.spec)
        if offer.tier <= closest:
            return Allow()
        timer_s = self.node_timer_s if offer.tier == Tier.RACK else self.rack_timer_s
        until_s = offer.at_s - offer.waited_s + timer_s
        if until_s <= offer.at_s:
            return Allow()
        return Defer(until_s=until_s, reason=f"waits for GPUs {Tier(closest).in_words}")

    def note(self, outcome: WaitEnded) -> None:
        """See policies.GatePolicy."""


def always_wait() -> FixedDelay:
    """Return a gate with which a job takes no tier but the closest that it could ever have."""
    return FixedDelay(inf, inf)
