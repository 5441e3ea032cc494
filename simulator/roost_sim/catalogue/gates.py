"""Gates by name: whether a job takes an offer or waits, and which jobs may pass a blocked job.

Definitions: docs/simulator/README.md, docs/delay.md.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from math import inf
from pathlib import Path

from roost_engine.engine import Passing
from roost_engine.gate.fixed_delay import always_wait
from roost_engine.plugins.gate_kinds import GateNumbers, gate_numbers, make_gate
from roost_engine.plugins.stacks import GateKind, Stack
from roost_engine.policies.heuristics import OpenGate
from roost_engine.policies.protocols import GatePolicy
from roost_engine.prediction.predictors import Predictors
from roost_sim.information.policy_information import PolicyInformation
from roost_sim.policies.gate.delay_gates import (
    FIXED_TIMERS_S,
    TUNABLE,
    delay_config,
    fixed_gate,
)
from roost_sim.policies.gate.switch_wait import MAX_SWITCH_WAIT_S, SwitchWait
from roost_sim.policies.part_numbers import parse_numbers
from roost_sim.worlds.fidelity import Regime


@dataclass(frozen=True, slots=True, kw_only=True)
class GatePart:
    """One gate: how to build it, and for which jobs nodes are reserved.

    Attributes:
        source: its definition in a line, with the paper.
        build: makes the engine's plug-in.
        patience_s: a job that has waited so long gets a reservation; inf: other jobs may pass it
            for ever, as in most published simulators; None: as configured.
        passing: which jobs may pass a job that has a reservation.
        regime: what it knows about run times.
        asks_speed: whether it learns from how fast jobs run.
        numbers: of a gate that roostd has too: the engine's plug-ins make it from them, in place of
            `build`.
        model: the file of a trained gate, which decides in place of `build`.
        waits_for_ever: whether the engine's limit on waits does not hold for it. The limit counts
            from the submission, so it may not hold for Slurm's own wait either: that counts from
            the first offer, which may come later than the limit.
    """

    source: str
    build: Callable[[PolicyInformation], GatePolicy]
    patience_s: float | None = inf
    passing: Passing = Passing.EASY
    regime: Regime = Regime.NONE
    asks_speed: bool = False
    numbers: GateNumbers = None
    model: Path | None = None
    waits_for_ever: bool = False


def _waits(timer_s: float) -> GatePart:
    return GatePart(
        source=f"waits {timer_s:g} s for one node, {2 * timer_s:g} s for one rack",
        build=lambda information: fixed_gate(timer_s),
    )


_DELAY = (
    "Roost's own: waits where that is expected to pay; learned waiting curves, run lengths and "
    "sensitivities"
)
_RESERVES = "a job that has waited out the patience has a reservation, by all jobs' time limits"


_UPLINK = f"{_DELAY}; before it runs across racks a job waits for a tenth of its run at least"


def _as_in_roostd(numbers: GateNumbers, source: str) -> GatePart:
    return GatePart(
        source=source,
        build=lambda information: make_gate(numbers, Predictors(information.speed_table())).gate,
        asks_speed=numbers is not None and numbers.reads_predictors,
        numbers=numbers,
    )


GATES: Mapping[str, GatePart] = {
    "open": GatePart(
        source="takes every offer; all jobs may pass a job that does not fit",
        build=lambda information: OpenGate(),
    ),
    "patient": GatePart(
        source=f"takes every offer; {_RESERVES}",
        build=lambda information: OpenGate(),
        patience_s=None,
        regime=Regime.LIMIT,
    ),
    "easy": GatePart(
        source="Lifka, JSSPP 1995: EASY backfill, the first job that does not fit has a "
        "reservation, by all jobs' time limits",
        build=lambda information: OpenGate(),
        patience_s=0.0,
        regime=Regime.LIMIT,
    ),
    "block": GatePart(
        source="takes every offer; no job passes the first job that does not fit",
        build=lambda information: OpenGate(),
        patience_s=0.0,
        passing=Passing.NOBODY,
    ),
    TUNABLE: _as_in_roostd(gate_numbers(GateKind.DELAY), _DELAY),
    "patient-delay": replace(
        _as_in_roostd(gate_numbers(GateKind.DELAY), _DELAY),
        source=f"{_DELAY}; {_RESERVES}",
        patience_s=None,
        regime=Regime.LIMIT,
    ),
    "uplink-delay": _as_in_roostd(gate_numbers(GateKind.UPLINK_DELAY), _UPLINK),
    "patient-uplink-delay": replace(
        _as_in_roostd(gate_numbers(GateKind.UPLINK_DELAY), _UPLINK),
        source=f"{_UPLINK}; {_RESERVES}",
        patience_s=None,
        regime=Regime.LIMIT,
    ),
    "dally": _as_in_roostd(
        gate_numbers(GateKind.DALLY),
        "Sharma et al., arXiv 2401.16492, as coded: mean + 2 sigma of past waits, leases "
        "of an hour, a history of 24",
    ),
    **{name: _waits(timer_s) for name, timer_s in FIXED_TIMERS_S.items()},
    "switch-wait": GatePart(
        source=f"Slurm's --switches=1 with max_switch_wait: {MAX_SWITCH_WAIT_S:g} s for one rack",
        build=lambda information: SwitchWait(),
        waits_for_ever=True,
    ),
    "easy-switches": GatePart(
        source="easy, and switch-wait",
        build=lambda information: SwitchWait(),
        patience_s=0.0,
        regime=Regime.LIMIT,
        waits_for_ever=True,
    ),
    "always-wait": GatePart(
        source="takes only the closest tier that the job could ever have",
        build=lambda information: always_wait(),
        waits_for_ever=True,
    ),
}


_MODEL_PREFIXES = {"model:": "open", "patient-model:": "patient"}
"""By the beginning of a trained gate's name: the gate that is like it but for the model."""


def _model(part: GatePart, file: str) -> GatePart:
    """Take the offers that a trained gate takes."""
    path = Path(file)
    source = f"Roost's own: the trained gate {path.name}"
    if part.patience_s is None:
        source += f"; {_RESERVES}"
    return replace(part, source=source, asks_speed=True, model=path)


def gate_part(name: str) -> GatePart:
    """Return the gate of a name.

    `delay:KEY=NUMBER:...` is the delay gate with other numbers; `model:FILE` and
    `patient-model:FILE` are a trained gate.

    Raises:
        PartNumbersError: the numbers cannot be used.
        KeyError: no gate has this name.
    """
    if name.startswith(f"{TUNABLE}:"):
        return _as_in_roostd(delay_config(parse_numbers(name)), _DELAY)
    for prefix, alike in _MODEL_PREFIXES.items():
        if name.startswith(prefix):
            return _model(GATES[alike], name.removeprefix(prefix))
    return GATES[name]


def has_arguments(name: str) -> bool:
    """Return whether a gate's name says more than which gate it is."""
    return name.startswith((f"{TUNABLE}:", *_MODEL_PREFIXES))


def gate_of(stack: Stack) -> str:
    """Return the name of the gate of a stack, with its reservations.

    roostd has the two apart, as `gate.kind` and `engine.patience_s`.
    """
    kind = stack.gate.value
    patient = "patient" if stack.gate is GateKind.OPEN else f"patient-{kind}"
    return patient if stack.patience_s < inf and patient in GATES else kind
