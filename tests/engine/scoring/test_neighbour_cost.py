"""roost_engine.scoring.neighbour_cost: a sentence, and a probability."""

import pytest

from roost_engine.domain.model import JobId
from roost_engine.scoring.neighbour_cost import NeighbourCost, above


def test_a_cost_is_a_sentence() -> None:
    assert NeighbourCost(JobId("7"), 0.1, 0.9, 0.05).in_words == (
        "job 7 is expected to cost 10 % of the speed (90 % sure that it is more than 2 %),"
        " and to lose 5 % of its own"
    )


@pytest.mark.parametrize(("mean", "probability"), [(0.02, 0.5), (0.12, 0.977), (-0.08, 0.023)])
def test_above_is_close_to_the_normal_distribution(mean: float, probability: float) -> None:
    assert above(mean, 0.05, 0.02) == pytest.approx(probability, abs=0.011)
