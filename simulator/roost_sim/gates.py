"""The delay gates of the daemon, as simulations build them."""

from collections.abc import Mapping

from roost_sim.tier_efficiency import JobProfile, TierEfficiency
from roost_sim.told_speeds import ToldSpeeds
from roostd.core.delay import DelayConfig, DelayGate
from roostd.core.fixed_delay import FixedDelay
from roostd.core.model import JobId

FIXED_TIMERS_S: Mapping[str, float] = {
    "delay-fixed-1m": 60.0,
    "delay-fixed-5m": 300.0,
    "delay-fixed-15m": 900.0,
    "delay-fixed-1h": 3_600.0,
    "delay-fixed-4h": 14_400.0,
}


def delay_gate(
    config: DelayConfig,
    tiers: TierEfficiency | None,
    profile_of: Mapping[JobId, JobProfile],
) -> DelayGate:
    """The production gate, with the profiles of the simulation for its speed table."""
    profiles = [profile_of[job_id] for job_id in profile_of]
    if tiers is None or not profiles:
        return DelayGate(config)
    return DelayGate(config, ToldSpeeds.of(tiers, profiles))


def fixed_gate(timer_s: float) -> FixedDelay:
    """A timer for a node, and as long again for a rack: Dally's manual timers are 1 and 2."""
    return FixedDelay(timer_s, 2 * timer_s)
