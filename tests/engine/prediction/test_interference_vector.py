"""roost_engine.prediction.interference_vector: fractions, masks, windows."""

import numpy as np
import pytest

from roost_engine.prediction.interference_vector import (
    COLUMN,
    COLUMNS,
    MASK,
    PRESENT,
    QUANTITIES,
    VECTOR_COLUMNS,
    WIDTH,
    LoadWindow,
    fraction,
    known_frac,
    vector,
)

NAN = float("nan")


def sample(*rows: dict[str, float]) -> np.ndarray:
    found = np.full((len(rows), len(QUANTITIES)), NAN)
    for gpu, row in enumerate(rows):
        for quantity, value in row.items():
            found[gpu, QUANTITIES.index(quantity)] = value
    return found


def test_columns_match_the_layout() -> None:
    assert len(VECTOR_COLUMNS) == WIDTH == PRESENT + 1
    assert VECTOR_COLUMNS[MASK.start + COLUMN["nic_mean"]] == "nic_mean_known"


def test_absent_is_not_zero() -> None:
    idle, unknown = vector({"sm": 0.0}), vector({})
    at = COLUMN["sm_mean"]
    assert idle[at] == unknown[at] == 0
    assert idle[MASK.start + at] == 1
    assert not unknown[MASK].any()
    assert unknown[PRESENT] == 1
    assert known_frac(np.stack([idle, unknown])).tolist() == pytest.approx([1 / 9, 0.0])


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


def test_a_window_gives_mean_and_variation_over_gpus_that_reported() -> None:
    window = LoadWindow()
    window.add(sample({"sm": 0.2}, {"sm": 0.4, "nic": 0.5}))
    window.add(sample({"sm": 0.9}, {}))
    row = window.vector()
    assert row[COLUMN["sm_mean"]] == pytest.approx(0.6)
    cov = 0.3 / 0.6
    assert row[COLUMN["sm_variation"]] == pytest.approx(cov / (1 + cov))
    assert row[COLUMN["nic_mean"]] == pytest.approx(0.5)
    # One sample of a quantity has no variation, and a quantity never reported has neither.
    assert not row[MASK.start + COLUMN["nic_variation"]]
    assert not row[MASK.start + COLUMN["power_mean"]]


def test_a_window_forgets_old_samples() -> None:
    window = LoadWindow(2)
    for value in (1.0, 0.25, 0.25):
        window.add(sample({"sm": value}))
    assert len(window) == 2
    assert window.vector()[COLUMN["sm_mean"]] == pytest.approx(0.25)


def test_an_empty_window_and_a_silent_driver_know_nothing() -> None:
    window = LoadWindow()
    assert not window.vector()[MASK].any()
    window.add(sample({}))
    window.add(np.zeros((0, len(QUANTITIES))))
    assert not window.vector()[MASK].any()


def test_an_idle_quantity_has_no_variation() -> None:
    window = LoadWindow()
    for _ in range(3):
        window.add(sample({"nic": 0.0}))
    row = window.vector()
    assert row[MASK.start + COLUMN["nic_mean"]] == 1
    assert row[MASK.start + COLUMN["nic_variation"]] == 0
    assert len(COLUMNS) == 2 * len(QUANTITIES)
