"""The speed table of simulated profiles, and the jobs that name their model."""

from collections.abc import Mapping

import pytest

from roost_engine.domain.model import JobId
from roost_engine.prediction.speed.tier_speeds import TierSpeeds
from roost_sim.clusters.cluster_file import load_cluster
from roost_sim.information.profile_speeds import ProfileSpeeds, named_models
from roost_sim.worlds.speed.fitted_profiles import PROFILES
from roost_sim.worlds.speed.profiles import Profile
from roost_sim.worlds.speed.tier_efficiency import TierEfficiency


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

    def test_jobs_that_name_their_model_still_do_at_a_higher_fraction(self) -> None:
        few, many = (named_models(self.profile_of, frac, 3) for frac in (0.2, 0.5))
        assert few.keys() < many.keys()

    def test_the_seed_decides_which_jobs_name_their_model(self) -> None:
        one, other = (named_models(self.profile_of, 0.5, seed) for seed in (0, 1))
        assert one.keys() != other.keys()
