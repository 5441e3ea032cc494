import numpy as np
import pytest
from numpy.typing import NDArray

from roost_train.runtimes.run_time_figures import (
    QUANTILES,
    figures,
    pinball,
    quantiles_s,
    rank_correlation,
)


def array(*values: float) -> NDArray[np.float64]:
    return np.array(values)


def test_pinball_by_hand() -> None:
    predicted = np.full((len(QUANTILES), 1), 2.0)
    # One above: q each, mean 0.5. One below: 1 - q each, mean 0.5.
    assert pinball(predicted, array(3.0)) == pytest.approx(0.5)
    assert pinball(predicted, array(1.0)) == pytest.approx(0.5)
    predicted[0] = 0.0  # the 10 % quantile, 3 below the truth: 0.1 of 3
    assert pinball(predicted, array(3.0)) == pytest.approx((0.3 + 0.25 + 0.5 + 0.75 + 0.9) / 5)


def test_rank_correlation_shares_ranks_of_equal_values() -> None:
    assert rank_correlation(array(1, 2, 9), array(3, 5, 6)) == pytest.approx(1.0)
    assert rank_correlation(array(1, 2, 9), array(6, 5, 3)) == pytest.approx(-1.0)
    # Ranks 0.5, 0.5, 2 and 0, 1, 2: 1.5 / sqrt(1.5 · 2)
    assert rank_correlation(array(1, 1, 2), array(1, 2, 3)) == pytest.approx(1.5 / 3**0.5)
    assert rank_correlation(array(4, 4, 4), array(1, 2, 3)) == 0.0


def test_quantiles_of_a_distribution_in_one_band() -> None:
    fracs = np.zeros((2, 33))
    fracs[:, 1] = 1.0  # from 10 s to 15 s
    assert quantiles_s(fracs)[:, 0].tolist() == pytest.approx([10.5, 11.25, 12.5, 13.75, 14.5])


def test_an_interval_is_judged_and_a_number_has_none() -> None:
    table = np.array(QUANTILES)[:, None] * np.full((1, 4), 100.0)
    run_s, is_new = array(5.0, 50.0, 70.0, 95.0), np.array([False, True, False, False])
    found = figures("x", table, run_s, is_new)
    assert (found.inside_frac, found.new_user_ln_error, found.job_count) == (0.5, 0.0, 4)
    point = figures("y", array(50.0, 100.0, 70.0, 95.0), run_s, is_new)
    assert point.inside_frac is None
    assert point.new_user_ln_error == pytest.approx(np.log(2))
    nobody = figures("z", table, run_s, np.zeros(4, dtype=bool))
    assert nobody.new_user_ln_error is None
