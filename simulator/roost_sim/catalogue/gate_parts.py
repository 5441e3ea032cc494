"""Gates by name: now or later, and who may pass a job that has no room."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from math import inf

from roost_engine.engine import Passing
from roost_engine.gate.dally import DallyGate
from roost_engine.gate.delay import DelayConfig
from roost_engine.gate.fixed_delay import always_wait
from roost_engine.policies import GatePolicy, OpenGate
from roost_sim.information.knowledge import Knowledge
from roost_sim.policies.gate.delay_gates import (
    FIXED_TIMERS_S,
    TUNABLE,
    delay_config,
    delay_gate,
    fixed_gate,
    parse_numbers,
)
from roost_sim.policies.gate.switch_wait import MAX_SWITCH_WAIT_S, SwitchWait
from roost_sim.worlds.fidelity import Regime


@dataclass(frozen=True, slots=True, kw_only=True)
class GatePart:
    """Now or later, and for whom nodes are kept free.

    Attributes:
        patience_s: who has waited so long has nodes reserved; inf: everybody may pass for ever, as
            most published simulators have it; None: as configured.
        passing: who may pass a job that has a reservation.
        regime: what it is told of run times.
        asks_speed: whether it learns from how fast jobs run.
    """

    source: str
    build: Callable[[Knowledge], GatePolicy]
    patience_s: float | None = inf
    passing: Passing = Passing.EASY
    regime: Regime = Regime.NONE
    asks_speed: bool = False


def _waits(timer_s: float) -> GatePart:
    return GatePart(
        source=f"waits {timer_s:g} s for one node, {2 * timer_s:g} s for one rack",
        build=lambda knowledge: fixed_gate(timer_s),
    )


_DELAY = (
    "Roost's own: waits where that is expected to pay; learned waiting curves, run lengths and "
    "sensitivities"
)
_RESERVES = "who has waited out the patience has a reservation by the time limits of all"


def _delay(config: DelayConfig) -> GatePart:
    return GatePart(
        source=_DELAY,
        build=lambda knowledge: delay_gate(config, knowledge.tiers, knowledge.profile_of),
        asks_speed=True,
    )


GATES: Mapping[str, GatePart] = {
    "open": GatePart(
        source="takes every offer; all may pass a job without room",
        build=lambda knowledge: OpenGate(),
    ),
    "patient": GatePart(
        source=f"takes every offer; {_RESERVES}",
        build=lambda knowledge: OpenGate(),
        patience_s=None,
        regime=Regime.LIMIT,
    ),
    "easy": GatePart(
        source="Lifka, JSSPP 1995: EASY backfill, the first job without room has a reservation "
        "by the time limits of all",
        build=lambda knowledge: OpenGate(),
        patience_s=0.0,
        regime=Regime.LIMIT,
    ),
    "block": GatePart(
        source="takes every offer; nobody passes the first job without room",
        build=lambda knowledge: OpenGate(),
        patience_s=0.0,
        passing=Passing.NOBODY,
    ),
    TUNABLE: _delay(DelayConfig()),
    "patient-delay": replace(
        _delay(DelayConfig()),
        source=f"{_DELAY}; {_RESERVES}",
        patience_s=None,
        regime=Regime.LIMIT,
    ),
    "dally": GatePart(
        source="Sharma et al., arXiv 2401.16492, as coded: mean + 2 sigma of past waits, leases "
        "of an hour, a history of 24",
        build=lambda knowledge: DallyGate(),
    ),
    **{name: _waits(timer_s) for name, timer_s in FIXED_TIMERS_S.items()},
    "switch-wait": GatePart(
        source=f"Slurm's --switches=1 with max_switch_wait: {MAX_SWITCH_WAIT_S:g} s for one rack",
        build=lambda knowledge: SwitchWait(),
    ),
    "easy-switches": GatePart(
        source="easy, and switch-wait",
        build=lambda knowledge: SwitchWait(),
        patience_s=0.0,
        regime=Regime.LIMIT,
    ),
    "always-wait": GatePart(
        source="takes nothing but the closest tier that the job could ever have",
        build=lambda knowledge: always_wait(),
    ),
}


def gate_part(name: str) -> GatePart:
    """Look a gate up; `delay:KEY=NUMBER:...` is the delay gate with other numbers.

    Raises:
        GateNumbersError: the numbers cannot be used.
        KeyError: there is no such gate.
    """
    if name.startswith(f"{TUNABLE}:"):
        return _delay(delay_config(parse_numbers(name)))
    return GATES[name]
