"""roost_engine.plugins.gate_kinds: the gate of each kind, and what an engine does with it."""

import pytest

from roost_engine.gate.dally import DallyGate
from roost_engine.gate.delay import DelayConfig, DelayGate
from roost_engine.gate.timers import TimersState
from roost_engine.plugins.gate_kinds import gate_numbers, make_gate
from roost_engine.plugins.stacks import GateKind
from roost_engine.policies.heuristics import OpenGate
from roost_engine.policies.protocols import GatePolicy
from roost_engine.policies.slots import name_of


@pytest.mark.parametrize(
    ("kind", "gate"),
    [
        (GateKind.OPEN, OpenGate),
        (GateKind.DELAY, DelayGate),
        (GateKind.UPLINK_DELAY, DelayGate),
        (GateKind.DALLY, DallyGate),
    ],
)
def test_each_kind_makes_its_gate(kind: GateKind, gate: type[GatePolicy]) -> None:
    assert type(make_gate(gate_numbers(kind)).gate) is gate


@pytest.mark.parametrize("kind", list(GateKind))
def test_a_gate_has_the_name_of_its_kind(kind: GateKind) -> None:
    assert name_of(make_gate(gate_numbers(kind)).gate) == kind


def test_only_the_gate_that_spares_uplinks_waits_for_a_rack_because_of_them() -> None:
    assert gate_numbers(GateKind.DELAY) == DelayConfig(uplink_frac=0.0)
    assert gate_numbers(GateKind.UPLINK_DELAY) == DelayConfig(uplink_frac=0.1)


def test_a_gate_that_learns_begins_with_what_is_known() -> None:
    gate = DelayGate()
    gate.timers.pin("8/high", 30.0)

    made = make_gate(DelayConfig(), known=gate.state())

    assert made.learned is made.gate
    assert made.timers is not None
    assert made.timers.pinned_s("8/high") == 30.0
    assert make_gate(None).learned is None
    assert gate.state().timers != TimersState()
