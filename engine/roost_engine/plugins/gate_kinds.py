"""Gates by the kinds and numbers that a configuration gives."""

from dataclasses import dataclass
from typing import TypeAlias, assert_never

from roost_engine.gate.dally import DallyConfig, DallyGate
from roost_engine.gate.delay import DelayConfig, DelayGate, DelayState
from roost_engine.plugins.stacks import GateKind
from roost_engine.policies.heuristics import OpenGate
from roost_engine.policies.protocols import GatePolicy, TunableTimers
from roost_engine.prediction.predictors import Predictors

GateNumbers: TypeAlias = DelayConfig | DallyConfig | None


@dataclass(frozen=True, slots=True, kw_only=True)
class MadeGate:
    """A gate, and what else an engine does with it.

    Attributes:
        gate: decides.
        timers: those that an operator may set; None: it has none.
        learned: the gate, if its knowledge outlives the engine.
    """

    gate: GatePolicy
    timers: TunableTimers | None = None
    learned: DelayGate | None = None


def gate_numbers(kind: GateKind) -> GateNumbers:
    """Return the numbers of a kind of gate where no setting changes them."""
    match kind:
        case GateKind.OPEN:
            return None
        case GateKind.DELAY:
            return DelayConfig()
        case GateKind.UPLINK_DELAY:
            return DelayConfig(uplink_frac=0.1)
        case GateKind.DALLY:
            return DallyConfig()
        case _:
            assert_never(kind)


def make_gate(
    numbers: GateNumbers, predictors: Predictors | None = None, known: DelayState | None = None
) -> MadeGate:
    """Make a gate.

    Args:
        numbers: of the gate; None: every job takes the first offer.
        predictors: what is expected of jobs.
        known: what a gate that learns knows from the start.
    """
    match numbers:
        case None:
            return MadeGate(gate=OpenGate())
        case DallyConfig():
            return MadeGate(gate=DallyGate(numbers))
        case DelayConfig():
            gate = DelayGate(numbers, predictors)
            if known is not None:
                gate.restore(known)
            return MadeGate(gate=gate, timers=gate.timers, learned=gate)
        case _:
            assert_never(numbers)
