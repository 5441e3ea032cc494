"""prediction.interference.interference_model: cases, the prior, and checks of answers."""

import numpy as np
import pytest

from roost_engine.domain.errors import PolicyError
from roost_engine.domain.tier import Tier
from roost_engine.prediction.interference.interference_model import (
    BESIDE_COLUMNS,
    LEVELS,
    UNKNOWN,
    Cases,
    PriorModel,
    Slowdowns,
    checked,
)
from roost_engine.prediction.interference.interference_vector import WIDTH, vector
from roost_engine.testing.interference_cases import case_of


def test_a_case_has_one_block_of_columns_for_each_level() -> None:
    busy = vector({"sm": 0.5})
    cases = case_of(UNKNOWN, {"nic": [busy, busy]}, Tier.RACK)
    assert cases.beside.shape == (1, len(BESIDE_COLUMNS)) == (1, len(LEVELS) * WIDTH)
    assert cases.level("nic")[0].tolist() == (2 * busy).tolist()
    assert not cases.level("gpu").any()
    assert cases.tier[0].tolist() == [0, 1, 0]


def test_the_sum_does_not_depend_on_the_order_to_the_last_bit() -> None:
    some = [vector({"sm": value, "nic": 1 / (value + 3)}) for value in (0.1, 0.7, 0.33)]
    one, two = case_of(UNKNOWN, {"gpu": some}), case_of(UNKNOWN, {"gpu": some[::-1]})
    assert one.beside.tobytes() == two.beside.tobytes()


def test_the_prior_is_wide_on_a_gpu_and_costs_nothing_elsewhere() -> None:
    prior = PriorModel()
    alone = prior.slowdowns(Cases.empty(1))
    assert alone.mean[0] == 0
    beside = prior.slowdowns(case_of(UNKNOWN, {"gpu": [UNKNOWN]}))
    assert beside.mean[0] == pytest.approx(0.53 * np.tanh(1), rel=1e-5)
    assert beside.spread[0] > 0.3
    off = prior.slowdowns(case_of(UNKNOWN, {"nic": [UNKNOWN]}))
    assert off.mean[0] == 0
    assert off.spread[0] > alone.spread[0]


@pytest.mark.parametrize(
    ("mean", "spread", "why"),
    [
        ([0.1, 0.1], [0.1], "want"),
        ([np.nan], [0.1], "not finite"),
        ([-0.5], [0.1], "below 0"),
        ([9.0], [0.1], "below 0 or above"),
        ([0.1], [0.0], "no spread"),
    ],
)
def test_answers_that_cannot_be_used_are_refused(
    mean: list[float], spread: list[float], why: str
) -> None:
    answer = Slowdowns(np.array(mean, np.float32), np.array(spread, np.float32))
    with pytest.raises(PolicyError, match=why):
        checked("model", answer, 1)


def test_rounding_below_zero_is_zero() -> None:
    answer = Slowdowns(np.array([-1e-7], np.float32), np.array([0.1], np.float32))
    assert checked("model", answer, 1).mean[0] == 0
