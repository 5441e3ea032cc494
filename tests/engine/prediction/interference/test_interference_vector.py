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
