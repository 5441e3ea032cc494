"""waiting_curve: estimates by hand after Kaplan and Meier, fading, and the best further wait."""

from math import exp, inf, nan

import pytest

from roost_engine.gate.waiting_curve import WaitHistory, WaitingCurve, WaitSample, exponential_prior

FOREVER_S = 1e12


def curve_of(*waits: tuple[float, bool]) -> WaitingCurve:
    """Return the curve of waits, each (seconds, is answered), with equal weights."""
    history = WaitHistory(FOREVER_S, 1000)
    for waited_s, is_answered in waits:
        history.add(WaitSample(0.0, waited_s, is_answered))
    return history.curve(0.0)


def test_without_censoring_s_is_the_fraction_of_longer_waits() -> None:
    curve = curve_of((10, True), (20, True), (20, True), (40, True))
    # 4 waits: 3/4 last longer than 10 s, 1/4 longer than 20 s. The longest halves what is left.
    assert curve.times_s == (10, 20, 40)
    assert curve.left == pytest.approx((0.75, 0.25, 0.125))


def test_a_censored_wait_counts_for_as_long_as_it_lasted() -> None:
    curve = curve_of((10, True), (20, False), (30, True), (40, False))
    # at 10 s 1 of 4 is answered: 3/4; at 30 s 1 of the 2 left: 3/4 · 1/2 = 3/8.
    assert curve.times_s == (10, 30)
    assert curve.left == pytest.approx((3 / 4, 3 / 8))
    # Beyond 40 s: 2 answers in 10 + 20 + 30 + 40 = 100 s waited, 0.02 a second.
    assert curve.left_after(90) == pytest.approx(3 / 8 * exp(-50 * 0.02))
    # S = 1/10 at 40 + ln(3/8 / 0.1) / 0.02 = 106 s. Dally records 10 and 30 s alone: 40 s.
    assert curve.quantile_s(0.9) == pytest.approx(106.09, abs=0.01)


def test_of_equal_waits_the_answered_one_comes_first() -> None:
    # Both are at risk at 10 s: 1 of 2 is answered.
    assert curve_of((10, False), (10, True)).left == pytest.approx((0.5,))


def test_quantile_is_the_first_time_by_which_enough_are_answered() -> None:
    curve = curve_of(*((float(number), True) for number in range(1, 11)))
    assert curve.quantile_s(0.9) == 9
    assert curve.quantile_s(0.05) == 1


def test_waits_longer_than_any_known_end_at_the_rate_of_all() -> None:
    curve = curve_of((10, True), (20, True), (20, True), (40, True))
    assert curve.left_after(9) == 1.0
    # Of the 3 that waited longer than 10 s, 2 are answered within 10 s more.
    assert curve.left_after(20) == pytest.approx(curve.left_after(10) / 3)
    # No known wait lasted 50 s. There were 4 answers in 90 s waited.
    assert curve.left_after(60) == pytest.approx(curve.left_after(50) * exp(-10 * 4 / 90))


def test_weight_halves_with_age() -> None:
    history = WaitHistory(100.0, 10)
    history.add(WaitSample(0.0, 10.0, True))
    history.add(WaitSample(100.0, 20.0, True))
    # At 100 s the first weighs 1/2, the second 1: (1/2) / (3/2) = 1/3 are answered after 10 s.
    assert history.curve(100.0).left == pytest.approx((2 / 3, 1 / 3))
    assert history.weight(200.0) == pytest.approx(0.25 + 0.5)


def test_waits_that_end_in_the_future_weigh_as_much_as_new_ones() -> None:
    history = WaitHistory(1.0, 10)
    history.add(WaitSample(1e9, 10.0, True))
    assert history.weight(0.0) == 1


def test_only_the_newest_waits_are_remembered() -> None:
    history = WaitHistory(FOREVER_S, 2)
    for waited_s in (10.0, 20.0, 30.0):
        history.add(WaitSample(0.0, waited_s, True))
    assert [wait.waited_s for wait in history.waits()] == [20, 30]


@pytest.mark.parametrize("waited_s", [nan, inf, -inf, -1.0, 0.0])
def test_waits_without_a_finite_length_above_0_are_dropped(waited_s: float) -> None:
    history = WaitHistory(FOREVER_S, 10)
    history.add(WaitSample(0.0, waited_s, True))
    history.add(WaitSample(nan, 10.0, True))
    assert not history.waits()
    assert history.curve(0.0) == WaitingCurve()


def test_an_empty_curve_never_answers() -> None:
    curve = WaitingCurve()
    assert curve.quantile_s(0.9) == inf
    assert curve.left_after(100) == 1.0
    assert curve.best_stop(0, 1e9, 1e9, 1) == 0


def test_a_curve_of_censored_waits_never_answers() -> None:
    curve = curve_of((10, False), (20, False))
    assert curve.left_after(100) == 1.0
    assert curve.best_stop(0, 1e9, 1e9, 0.001) == 0
    assert curve.quantile_s(0.9) == inf


def test_the_weights_of_a_prior_count() -> None:
    history = WaitHistory(FOREVER_S, 10)
    history.add(WaitSample(0.0, 10.0, True))
    curve = history.curve(0.0, prior=((30.0, 3.0), (50.0, 1.0)))
    # The weights sum to 5: 1 is answered at 10 s, 3 of the other 4 at 30 s, and the last wait of
    # the prior is censored.
    assert curve.left == pytest.approx((4 / 5, 1 / 5))
    assert curve.end_s == 50


def test_the_prior_has_the_octiles_and_the_mean_of_an_exponential() -> None:
    prior = exponential_prior(100.0, 2.0)
    assert sum(weight for _, weight in prior) == pytest.approx(2.0)
    # exp(-t / mean) is 7/8, 5/8, 3/8 at the octiles; 3 answers in 300 s make a mean of 100 s.
    assert [exp(-waited_s / 100.0) for waited_s, _ in prior[:3]] == pytest.approx(
        [7 / 8, 5 / 8, 3 / 8]
    )
    assert sum(waited_s for waited_s, _ in prior) == pytest.approx(300.0)


class TestBestStop:
    """Half of the waits end after 10 s, the others after 100 s."""

    curve = WaitingCurve((10.0, 100.0), (0.5, 0.0), 100.0)

    def test_stops_where_waiting_for_the_next_step_does_not_pay(self) -> None:
        # worth(10) = 40 · 1/2 - 10 = 10; worth(100) = 40 - (10 + 1/2 · 90) = -15
        assert self.curve.best_stop(0, 40, 1000, 1) == 10

    def test_waits_for_the_next_step_where_that_pays(self) -> None:
        # worth(10) = 200 · 1/2 - 10 = 90; worth(100) = 200 - 55 = 145
        assert self.curve.best_stop(0, 200, 1000, 1) == 100

    def test_does_not_wait_where_no_step_pays(self) -> None:
        # worth(10) = 19 · 1/2 - 10 < 0; worth(100) = 19 - 55 < 0
        assert self.curve.best_stop(0, 19, 1000, 1) == 0

    def test_time_already_waited_is_not_a_cost(self) -> None:
        # After 50 s only the long waits continue: worth(50) = 60 · 1 - 50 = 10.
        assert self.curve.best_stop(50, 60, 1000, 1) == 50
        assert self.curve.best_stop(50, 49, 1000, 1) == 0

    def test_a_lower_weight_makes_a_wait_cheaper(self) -> None:
        # worth(100) = 60 - 0.25 · 55 = 46.25 beats worth(10) = 30 - 2.5 = 27.5
        assert self.curve.best_stop(0, 60, 1000, 0.25) == 100

    def test_never_exceeds_the_longest_wait(self) -> None:
        assert self.curve.best_stop(0, 1e9, 99, 1) == 10
        assert self.curve.best_stop(0, 1e9, 0, 1) == 0

    @pytest.mark.parametrize("gain_s", [0.0, -5.0, nan])
    def test_does_not_wait_without_a_gain(self, gain_s: float) -> None:
        assert self.curve.best_stop(0, gain_s, 1000, 1) == 0

    def test_beyond_the_longest_known_wait_the_rate_of_answers_decides(self) -> None:
        # 1 answer in 10 + 30 = 40 s waited. Beyond 30 s each second of waiting gains gain / 40.
        curve = curve_of((10, True), (30, False))
        assert curve.best_stop(0, 200, 1000, 1) == 1000
        # worth(10) = 30 · 1/2 - 10 = 5, and 30 / 40 < 1: no longer wait pays.
        assert curve.best_stop(0, 30, 1000, 1) == 10
        assert curve.best_stop(10, 30, 1000, 1) == 0
