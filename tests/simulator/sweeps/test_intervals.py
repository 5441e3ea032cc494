from math import sqrt

import pytest

from roost_sim.sweeps.intervals import Interval, mean_of, ratio_of, t975


@pytest.mark.parametrize(
    ("freedom", "point"),
    # Any table of Student's t, column 0.975.
    [(1, 12.706), (9, 2.262), (30, 2.042), (40, 2.021), (60, 2.000), (120, 1.980), (10**6, 1.960)],
)
def test_points_of_students_t(freedom: int, point: float) -> None:
    assert t975(freedom) == pytest.approx(point, abs=6e-4)


def test_no_point_without_a_degree_of_freedom() -> None:
    with pytest.raises(ValueError, match="got 0"):
        t975(0)


def test_mean_of_three_values() -> None:
    # Deviations -1, 0, 1: variance 2 / 2 = 1; half an interval 4.303 * sqrt(1 / 3).
    estimate = mean_of([3, 1, 2])
    assert estimate is not None
    assert estimate.ci95 is not None
    assert (estimate.mean, estimate.least, estimate.most) == (2, 1, 3)
    assert estimate.ci95.high == pytest.approx(2 + 4.303 / sqrt(3))
    assert estimate.ci95.low == pytest.approx(2 - 4.303 / sqrt(3))


def test_one_seed_has_no_interval() -> None:
    mean, ratio = mean_of([5]), ratio_of([3], [2])
    assert mean is not None
    assert ratio is not None
    assert (mean.mean, mean.ci95, ratio.mean, ratio.ci95) == (5, None, 1.5, None)


def test_nothing_has_no_mean_and_nothing_relative_to_0_a_ratio() -> None:
    assert mean_of([]) is ratio_of([], []) is ratio_of([1, 2], [1, 0]) is None


def test_ratios_are_of_pairs() -> None:
    # Pairs 10/100 and 300/200; the ratio of the means would be 310/300.
    ratio = ratio_of([10, 300], [100, 200])
    assert ratio is not None
    assert ratio.mean == pytest.approx((0.1 + 1.5) / 2)
    # Two draws of two: both the first with probability 1/4, so the tails reach each of them.
    assert ratio.ci95 == Interval(0.1, 1.5)


def test_a_ratio_that_is_the_same_in_every_seed_is_certain() -> None:
    ratio = ratio_of([1, 2, 4], [2, 4, 8])
    assert ratio is not None
    assert ratio.ci95 == Interval(0.5, 0.5)


def test_the_bootstrap_comes_out_alike_each_time() -> None:
    values, baseline = [1.0, 2.0, 4.0, 9.0], [2.0, 3.0, 3.0, 3.0]
    assert ratio_of(values, baseline) == ratio_of(values, baseline)


def test_a_bootstrap_interval_is_narrower_than_the_range_and_holds_the_mean() -> None:
    ratio = ratio_of([float(number) for number in range(1, 13)], [6.0] * 12)
    assert ratio is not None
    assert ratio.ci95 is not None
    assert ratio.least < ratio.ci95.low < ratio.mean < ratio.ci95.high < ratio.most
