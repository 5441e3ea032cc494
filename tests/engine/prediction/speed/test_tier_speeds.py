"""tier_speeds: speeds that never grow with the distance, whatever they are made of."""

from math import inf, nan

import pytest

from roost_engine.domain.tier import Tier
from roost_engine.prediction.speed.tier_speeds import UNKNOWN_SPEEDS, NoTable, TierSpeeds


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ((1.0, 0.5, 0.25), (1.0, 0.5, 0.25)),
        ((0.5, 0.9, 0.7), (0.5, 0.5, 0.5)),
        ((nan, 0.5, inf), (1.0, 0.5, 0.5)),
        ((2.0, -1.0, 0.5), (1.0, 1e-3, 1e-3)),
    ],
)
def test_a_farther_tier_is_never_faster(
    given: tuple[float, float, float], kept: tuple[float, float, float]
) -> None:
    speeds = TierSpeeds(*given)
    assert tuple(speeds.at(tier) for tier in Tier) == kept


def test_what_is_lost_is_relative_to_the_closest_tier_that_a_job_can_have() -> None:
    speeds = TierSpeeds(1.0, 0.8, 0.4)
    assert speeds.lost_frac(Tier.NODE) == pytest.approx(0.2)
    assert speeds.lost_frac(Tier.RACK) == pytest.approx(0.5)
    assert speeds.lost_frac(Tier.CLUSTER) == 0.0


def test_without_a_table_one_gpu_does_not_communicate() -> None:
    assert NoTable().speeds("bert", 8) is None
    assert NoTable().typical(8) == UNKNOWN_SPEEDS
    assert NoTable().typical(1) == TierSpeeds(1.0, 1.0, 1.0)
