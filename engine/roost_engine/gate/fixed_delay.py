"""Gates without a memory: timers set by hand, or none that ends. To compare with."""

from dataclasses import dataclass
from math import inf

from roost_engine.cluster.tiers import closest_tier
from roost_engine.domain.tier import Tier
from roost_engine.policies import Allow, Defer, GateVerdict, Offer, OpenGate, WaitEnded

NeverWait = OpenGate


@dataclass(frozen=True, slots=True)
class FixedDelay:
    """Every job waits so long for the closest tier that it could have, and no longer.

    Attributes:
        node_timer_s: T_M, before a job that fits on a node takes GPUs of one rack.
        rack_timer_s: T_R, before a job that fits in a rack takes GPUs across racks; counted, as
            T_M is, from when it could first have been placed.
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
    """Nobody takes less than the closest tier that it could ever have."""
    return FixedDelay(inf, inf)
