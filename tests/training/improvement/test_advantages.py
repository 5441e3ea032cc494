"""Advantages by hand."""

from math import exp, inf

import numpy as np
import pytest

from roost_train.improvement.advantages import advantages, discounts


def test_two_decisions_by_hand() -> None:
    # δ(2) = 4 - 1 = 3; δ(1) = 2 + 0.5 · 1 - 3 = -0.5; A(1) = -0.5 + 0.5 · 0.8 · 3 = 0.7.
    found = advantages([2.0, 4.0], [3.0, 1.0], [0.5, 0.9], 0.8)
    assert found == pytest.approx([0.7, 3.0])


def test_with_a_trace_of_one_it_is_the_return_less_the_value() -> None:
    rewards, values = [1.0, -2.0, 5.0], [0.5, 0.25, -1.0]
    returns = [1.0 - 2.0 + 5.0, -2.0 + 5.0, 5.0]
    found = advantages(rewards, values, [1.0, 1.0, 1.0], 1.0)
    assert found == pytest.approx(np.array(returns) - values)


def test_with_a_trace_of_zero_it_is_one_step() -> None:
    found = advantages([1.0, 2.0], [10.0, 20.0], [0.5, 0.5], 0.0)
    assert found == pytest.approx([1.0 + 0.5 * 20.0 - 10.0, 2.0 - 20.0])


def test_a_critic_that_foresees_everything_leaves_no_advantage() -> None:
    found = advantages([1.0, 1.0, 1.0], [3.0, 2.0, 1.0], [1.0, 1.0, 1.0], 0.95)
    assert found == pytest.approx([0.0, 0.0, 0.0])


def test_discounts_follow_the_time_between_decisions() -> None:
    assert discounts([0.0, 0.0, 50.0, 60.0], 100.0) == pytest.approx([1.0, exp(-0.5), exp(-0.1)])
    assert discounts([0.0, 7.0, 9.0], inf) == pytest.approx([1.0, 1.0])
