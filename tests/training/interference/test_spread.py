"""roost_train.interference.spread: intervals as wide as a job's seconds a step say."""

import numpy as np
import pytest
from numpy.typing import NDArray

from roost_engine.prediction.interference.interference_model import UNKNOWN
from roost_engine.prediction.interference.interference_vector import vector
from roost_train.interference.spread import INTERVAL, Spread, fit_spread


def jobs(*step_times: float) -> NDArray[np.float32]:
    return np.stack([vector({"step_time": each}) for each in step_times])


def test_a_spread_falls_with_the_step_time() -> None:
    assert Spread(0.1, 0.2, 0.25).of(jobs(0.0, 0.5, 1.0)).tolist() == pytest.approx([0.3, 0.2, 0.1])
    assert Spread(0.1, 0.2, 0.25).of(UNKNOWN[None]).tolist() == pytest.approx([0.15])


def test_what_was_drawn_is_found_and_holds_for_jobs_of_other_step_times() -> None:
    rng = np.random.default_rng(1)
    own = jobs(*rng.uniform(0.4, 1.0, 4000).tolist())  # long steps, as on an old GPU
    true = Spread(0.1, 0.3)
    found = fit_spread(own, rng.normal(0.0, true.of(own)))
    assert (found.base, found.by_step) == pytest.approx((0.1, 0.3), rel=0.2)
    short = jobs(*rng.uniform(0.0, 0.2, 4000).tolist())
    inside = np.abs(rng.normal(0.0, true.of(short))) <= INTERVAL * found.of(short)
    assert 0.86 < inside.mean() < 0.94


def test_the_same_spread_everywhere_has_no_second_term() -> None:
    rng = np.random.default_rng(2)
    own = jobs(*rng.uniform(0.0, 1.0, 4000).tolist())
    found = fit_spread(own, rng.normal(0.0, 0.2, 4000))
    assert found.by_step <= 0.25 * found.base
    assert found.of(own).mean() == pytest.approx(0.2, rel=0.05)


def test_its_interval_holds_nine_tenths_of_what_it_was_fitted_to() -> None:
    rng = np.random.default_rng(3)
    own = jobs(*rng.uniform(0.0, 1.0, 500).tolist())
    missed = rng.standard_t(2.0, 500)  # tails far heavier than a normal distribution's
    inside = np.abs(missed) <= INTERVAL * fit_spread(own, missed).of(own)
    assert inside.mean() == pytest.approx(0.9, abs=0.01)
