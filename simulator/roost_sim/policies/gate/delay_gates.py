"""The numbers of the daemon's delay gate, read from names of gates.

A name may carry numbers: `delay:longest_s=14400:delay_weight=0.5` is the gate of roostd with these
keys in the gate section of its configuration. `roost-sim tune` and comparisons use such names.
Source: docs/delay.md.
"""

from collections.abc import Mapping
from dataclasses import fields

from roost_engine.gate.delay import DelayConfig
from roost_engine.gate.fixed_delay import FixedDelay
from roost_engine.gate.timers import TimerConfig
from roost_sim.policies.part_numbers import PartNumbersError

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


def fixed_gate(timer_s: float) -> FixedDelay:
    """Make a gate that waits `timer_s` for one node and twice that for one rack.

    Source: Dally's manual timers are in the ratio 1 to 2 (Sharma et al., arXiv 2401.16492).
    """
    return FixedDelay(timer_s, 2 * timer_s)


def delay_config(numbers: Mapping[str, float]) -> DelayConfig:
    """Return the gate's configuration: the given numbers, and defaults for the others.

    Raises:
        PartNumbersError: a key is unknown, or its value out of range.
    """
    for key in numbers:
        if key not in (*_GATE_KEYS, *_TIMER_KEYS):
            known = ", ".join((*_GATE_KEYS, *_TIMER_KEYS))
            raise PartNumbersError(f"no number {key!r} of the delay gate: there are {known}")
    timers = {key: value for key, value in numbers.items() if key in _TIMER_KEYS}
    gate = {key: value for key, value in numbers.items() if key in _GATE_KEYS}
    try:
        if "window_count" in timers:
            timers["window_count"] = int(timers["window_count"])
        return DelayConfig(timers=TimerConfig(**timers), **gate)  # type: ignore[arg-type]
    except (ValueError, OverflowError) as error:
        raise PartNumbersError(f"delay gate: {error}") from error


def name_of(numbers: Mapping[str, float]) -> str:
    """Return the name of the gate with these numbers."""
    return ":".join((TUNABLE, *(f"{key}={value:.10g}" for key, value in numbers.items())))
