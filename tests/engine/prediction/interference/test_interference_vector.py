"""prediction.interference.interference_vector: fractions and masks."""

import numpy as np
import pytest

from roost_engine.prediction.interference.interference_vector import (
    COLUMN,
    COLUMNS,
    MASK,
    PRESENT,
    QUANTITIES,
    VECTOR_COLUMNS,
    WIDTH,
    fraction,
    variation,
    vector,
)

NAN = float("nan")


def test_columns_match_the_layout() -> None:
    assert len(VECTOR_COLUMNS) == WIDTH == PRESENT + 1
    assert len(COLUMNS) == 2 * len(QUANTITIES)
    assert VECTOR_COLUMNS[MASK.start + COLUMN["nic_mean"]] == "nic_mean_known"


def test_absent_is_not_zero() -> None:
    idle, unknown = vector({"sm": 0.0}), vector({})
    at = COLUMN["sm_mean"]
    assert idle[at] == unknown[at] == 0
    assert idle[MASK.start + at] == 1
    assert not unknown[MASK].any()
    assert unknown[PRESENT] == 1


def test_nan_and_negative_readings_are_absent() -> None:
    assert not vector({"sm": NAN, "memory": -1.0})[MASK].any()
    assert np.isnan(fraction("pcie", -5.0))
    assert np.isnan(fraction("power", float("inf")))


def test_quantities_without_a_limit_saturate() -> None:
    assert fraction("power", 350.0) == 0.5
    assert fraction("pcie", 63e9) == 0.5
    assert fraction("sm", 1.3) == 1.0
    assert fraction("clock", 1e30) == pytest.approx(1.0)


def test_an_unknown_quantity_is_refused() -> None:
    with pytest.raises(KeyError):
        vector({"humidity": 0.5})


def test_variations_have_columns_of_their_own() -> None:
    found = vector({"power": 0.5, "power_variation": 0.25, "clock_variation": NAN})
    assert found[COLUMN["power_mean"]] == 0.5
    assert found[COLUMN["power_variation"]] == 0.25
    assert found[MASK].sum() == 2.0


@pytest.mark.parametrize(
    ("mean", "square", "expected"),
    [
        (2.0, 4.0, 0.0),
        (2.0, 5.0, 1 / 3),  # deviation 1, half of the mean: 0.5 / 1.5
        (2.0, 3.9999999, 0.0),  # rounding
    ],
)
def test_variation_of_known_values(mean: float, square: float, expected: float) -> None:
    assert variation(mean, square) == pytest.approx(expected)


def test_a_mean_of_zero_has_no_variation() -> None:
    assert np.isnan(variation(0.0, 0.0))
    assert np.isnan(variation(NAN, NAN))
