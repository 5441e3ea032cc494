"""A history whose predictions are wrong by a random factor."""

import numpy as np
import pytest

from roost_engine.prediction.history import RunTimeHistory
from roost_engine.prediction.run_times import BAND_COUNT
from roost_engine.testing.builders import job
from roost_sim.information.noisy_history import NoisyHistory, moved


@pytest.mark.parametrize("band_count", [-100.0, -1.5, 0.0, 0.25, 3.0, 100.0])
def test_moving_keeps_the_sum(band_count: float) -> None:
    fracs = np.arange(BAND_COUNT) / np.arange(BAND_COUNT).sum()
    found = moved(fracs, band_count)
    assert found.sum() == pytest.approx(1.0)
    assert (found >= 0).all()


def test_moving_by_nothing_changes_nothing() -> None:
    fracs = np.full(BAND_COUNT, 1.0 / BAND_COUNT)
    np.testing.assert_array_equal(moved(fracs, 0.0), fracs)


def learned(history: RunTimeHistory) -> RunTimeHistory:
    for number in range(50):
        history.add(job(f"9{number}"), 1_000.0, 0.0)
    return history


def test_a_job_keeps_its_factor_and_others_have_another() -> None:
    history = learned(NoisyHistory(1.0, seed=3))
    rests_s = [history.times(job(name), 0.0, at_s).rest_s() for name, at_s in (("1", 0.0),) * 2]
    assert rests_s[0] == rests_s[1]
    assert history.times(job("2"), 0.0, 0.0).rest_s() != rests_s[0]


def test_factors_have_the_spread_that_was_asked_for() -> None:
    true_s = learned(RunTimeHistory()).times(job("1"), 0.0, 0.0).quantile_s(0.5)
    history = learned(NoisyHistory(1.0, seed=3))
    logs = [
        np.log(history.times(job(str(number)), 0.0, 0.0).quantile_s(0.5) / true_s)
        for number in range(400)
    ]
    assert np.std(logs) == pytest.approx(1.0, abs=0.15)
    assert np.mean(logs) == pytest.approx(0.0, abs=0.2)
