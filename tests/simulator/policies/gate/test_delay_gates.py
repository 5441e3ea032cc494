"""The daemon's delay gates, built by name and number."""

import pytest

from roost_engine.gate.dally import DallyGate
from roost_engine.gate.delay import DelayConfig, DelayGate
from roost_engine.gate.fixed_delay import FixedDelay
from roost_sim.catalogue.compositions import find_policy
from roost_sim.catalogue.gates import GATES, gate_part
from roost_sim.errors import SimError
from roost_sim.information.policy_information import PolicyInformation
from roost_sim.policies.gate.delay_gates import delay_config, name_of
from roost_sim.policies.part_numbers import parse_numbers

NOTHING = PolicyInformation(work_s={}, seed=0)


class TestNames:
    def test_every_gate_can_be_built(self) -> None:
        for name in GATES:
            assert find_policy(f"fifo+consolidation+{name}").build(NOTHING).gate is not None

    def test_the_delay_gates_are_the_daemons(self) -> None:
        assert isinstance(gate_part("delay").build(NOTHING), DelayGate)
        assert isinstance(gate_part("dally").build(NOTHING), DallyGate)
        assert gate_part("delay-fixed-5m").build(NOTHING) == FixedDelay(300.0, 600.0)

    def test_numbers_in_a_name_take_the_place_of_the_defaults(self) -> None:
        part = find_policy("fifo+consolidation+delay:longest_s=60:quantile_frac=0.8")
        gate = part.build(NOTHING).gate
        assert isinstance(gate, DelayGate)
        assert (gate.config.longest_s, gate.config.timers.quantile_frac) == (60.0, 0.8)
        assert gate.config.delay_weight == DelayConfig().delay_weight

    def test_names_read_back(self) -> None:
        numbers = {"longest_s": 86_400.0, "delay_weight": 0.25}
        assert parse_numbers(name_of(numbers)) == numbers
        assert name_of({}) == "delay"

    def test_whole_numbers_stay_whole(self) -> None:
        assert delay_config({"window_count": 50.0}).timers.window_count == 50

    @pytest.mark.parametrize(
        ("gate", "told"),
        [
            ("delay:patience=3", "no number 'patience'"),
            ("delay:longest_s=soon", "not KEY=NUMBER"),
            ("delay:longest_s", "not KEY=NUMBER"),
            ("delay:", "not KEY=NUMBER"),
            ("delay:quantile_frac=2", "want a quantile"),
            ("delay:longest_s=nan", "want longest_s"),
            ("delay:window_count=inf", "delay gate:"),
            ("dely", "did you mean delay?"),
        ],
    )
    def test_bad_names_say_what_is_wrong(self, gate: str, told: str) -> None:
        with pytest.raises(SimError, match=told.replace("?", r"\?")):
            find_policy(f"fifo+consolidation+{gate}")
