"""tier: which of two placements is closer, and how a tier is called."""

from roost_engine.domain.tier import Tier


def test_a_closer_tier_is_smaller() -> None:
    assert Tier.NODE < Tier.RACK < Tier.CLUSTER
    assert min(Tier.CLUSTER, Tier.NODE, Tier.RACK) is Tier.NODE


def test_each_tier_has_its_words() -> None:
    assert {tier: tier.in_words for tier in Tier} == {
        Tier.NODE: "on one node",
        Tier.RACK: "in one rack",
        Tier.CLUSTER: "across racks",
    }
