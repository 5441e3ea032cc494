"""The delay gates of the daemon, as simulations build them.

A name may carry numbers: `delay:longest_s=14400:delay_weight=0.5` is the gate of roostd with these
keys of its configuration's gate section. That is how one tunes it, and compares what came out.
"""

from collections.abc import Mapping
from dataclasses import fields

from roost_engine.domain.model import JobId
from roost_engine.gate.delay import DelayConfig, DelayGate
from roost_engine.gate.fixed_delay import FixedDelay
from roost_engine.gate.timers import TimerConfig
from roost_engine.prediction.predictors import Predictors
from roost_sim.errors import SimError
from roost_sim.information.told_speeds import ToldSpeeds
from roost_sim.worlds.tier_efficiency import JobProfile, TierEfficiency

TUNABLE = "delay"
_TIMER_KEYS = tuple(field.name for field in fields(TimerConfig))
_GATE_KEYS = tuple(field.name for field in fields(DelayConfig) if field.name != "timers")

FIXED_TIMERS_S: Mapping[str, float] = {
    "delay-fixed-1m": 60.0,
    "delay-fixed-5m": 300.0,
    "delay-fixed-15m": 900.0,
    "delay-fixed-1h": 3_600.0,
    "delay-fixed-4h": 14_400.0,
}


class GateNumbersError(SimError):
    """The numbers behind a gate's name cannot be used."""


def delay_gate(
    config: DelayConfig,
    tiers: TierEfficiency | None,
    profile_of: Mapping[JobId, JobProfile],
) -> DelayGate:
    """The production gate, with the profiles of the simulation for its speed table."""
    profiles = [profile_of[job_id] for job_id in profile_of]
    if tiers is None or not profiles:
        return DelayGate(config)
    return DelayGate(config, Predictors(ToldSpeeds.of(tiers, profiles)))


def fixed_gate(timer_s: float) -> FixedDelay:
    """A timer for a node, and as long again for a rack: Dally's manual timers are 1 and 2."""
    return FixedDelay(timer_s, 2 * timer_s)


def delay_config(numbers: Mapping[str, float]) -> DelayConfig:
    """The gate's numbers, the given ones in place of the defaults.

    Raises:
        GateNumbersError: there is no such number, or it cannot be that.
    """
    for key in numbers:
        if key not in (*_GATE_KEYS, *_TIMER_KEYS):
            known = ", ".join((*_GATE_KEYS, *_TIMER_KEYS))
            raise GateNumbersError(f"no number {key!r} of the delay gate: there are {known}")
    timers = {key: value for key, value in numbers.items() if key in _TIMER_KEYS}
    gate = {key: value for key, value in numbers.items() if key in _GATE_KEYS}
    try:
        if "window_count" in timers:
            timers["window_count"] = int(timers["window_count"])
        return DelayConfig(timers=TimerConfig(**timers), **gate)  # type: ignore[arg-type]
    except (ValueError, OverflowError) as error:
        raise GateNumbersError(f"delay gate: {error}") from error


def parse_numbers(name: str) -> dict[str, float]:
    """Read the numbers of a name such as `delay:longest_s=14400`.

    Raises:
        GateNumbersError: something is not KEY=NUMBER.
    """
    found: dict[str, float] = {}
    for word in name.split(":")[1:]:
        key, _, value = word.partition("=")
        try:
            found[key] = float(value)
        except ValueError as error:
            raise GateNumbersError(f"{name}: {word!r} is not KEY=NUMBER") from error
    return found


def name_of(numbers: Mapping[str, float]) -> str:
    """The name of the gate with these numbers."""
    return ":".join((TUNABLE, *(f"{key}={value:.10g}" for key, value in numbers.items())))
