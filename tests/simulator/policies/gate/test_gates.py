"""policies.gates and worlds.told_speeds: the daemon's gates by name, and what they know of jobs."""

from collections.abc import Mapping

import pytest

from roost_engine.domain.model import JobId
from roost_engine.gate.dally import DallyGate
from roost_engine.gate.delay import DelayConfig, DelayGate
from roost_engine.gate.fixed_delay import FixedDelay
from roost_engine.prediction.speed import TierSpeeds
from roost_sim.catalogue.compositions import PolicyInformation, find_policy
from roost_sim.catalogue.gates import GATES, gate_part
from roost_sim.clusters.cluster_file import load_cluster
from roost_sim.errors import SimError
from roost_sim.information.profile_speeds import ProfileSpeeds, named_models
from roost_sim.policies.gate.delay_gates import delay_config, name_of, parse_numbers
from roost_sim.worlds.fitted_profiles import PROFILES
from roost_sim.worlds.profiles import Profile
from roost_sim.worlds.tier_efficiency import TierEfficiency

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


class TestProfileSpeeds:
    tiers = TierEfficiency.of(load_cluster("small"))
    table = ProfileSpeeds.of(tiers, PROFILES)

    def test_a_profile_is_known_by_its_name(self) -> None:
        profile = PROFILES[0]
        found = self.table.speeds(profile.name, 8)
        assert found == TierSpeeds(*self.tiers.efficiencies(profile, 8))
        assert self.table.speeds("unheard-of", 8) is None

    def test_what_is_typical_lies_between_the_best_and_the_worst(self) -> None:
        each = [self.table.speeds(profile.name, 8) for profile in PROFILES]
        rack = sorted(one.rack_frac for one in each if one is not None)
        assert rack[0] < self.table.typical(8).rack_frac < rack[-1]
        assert self.table.typical(1) == TierSpeeds(1.0, 1.0, 1.0)


class TestNamedModels:
    profile_of: Mapping[JobId, Profile] = dict.fromkeys(
        (JobId(str(number)) for number in range(2_000)), PROFILES[0]
    )

    def test_the_share_that_names_its_model(self) -> None:
        assert len(named_models(self.profile_of, 1.0, 0)) == 2_000
        assert named_models(self.profile_of, 0.0, 0) == {}
        assert len(named_models(self.profile_of, 0.3, 0)) == pytest.approx(600, rel=0.1)

    def test_more_name_it_and_nobody_stops(self) -> None:
        few, many = (named_models(self.profile_of, frac, 3) for frac in (0.2, 0.5))
        assert few.keys() < many.keys()

    def test_the_seed_decides_who(self) -> None:
        one, other = (named_models(self.profile_of, 0.5, seed) for seed in (0, 1))
        assert one.keys() != other.keys()
