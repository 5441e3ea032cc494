import json

import numpy as np
import pytest
from numpy.typing import NDArray

from roost_train.improvement.evolution import Evolution


def ellipsoid(numbers: NDArray[np.float64]) -> float:
    """The least is at 1, 1, ...; one axis is a hundred times as steep as another."""
    steepness = np.logspace(0, 2, len(numbers))
    return float(steepness @ (numbers - 1.0) ** 2)


def rosenbrock(numbers: NDArray[np.float64]) -> float:
    """A bent valley whose least is at 1, 1: the covariance has to turn on the way."""
    return float(100.0 * (numbers[1] - numbers[0] ** 2) ** 2 + (1.0 - numbers[0]) ** 2)


def advance(search: Evolution, cost: object, count: int) -> None:
    for _ in range(count):
        candidates = search.ask()
        search.tell(candidates, [cost(one) for one in candidates])  # type: ignore[operator]


def test_a_steep_bowl_is_descended_to_its_least() -> None:
    search = Evolution(np.zeros(6), 0.5, 12, seed=1)
    advance(search, ellipsoid, 150)
    assert search.mean == pytest.approx(np.ones(6), abs=1e-4)
    assert search.step < 0.01


def test_a_bent_valley_is_followed() -> None:
    search = Evolution(np.array([-1.0, 1.0]), 0.3, 10, seed=3)
    advance(search, rosenbrock, 120)
    assert search.mean == pytest.approx([1.0, 1.0], abs=1e-3)


def test_only_the_order_of_the_costs_counts() -> None:
    one, other = (Evolution(np.zeros(3), 0.5, 8, seed=2) for _ in range(2))
    advance(one, ellipsoid, 10)
    advance(other, lambda numbers: np.log(ellipsoid(numbers)) * 7.0 - 5.0, 10)
    assert one.mean.tolist() == other.mean.tolist()


def test_the_first_move_by_hand() -> None:
    # Of four candidates two are parents, with raw weights ln(2.5) - ln(1) and ln(2.5) - ln(2).
    search = Evolution(np.zeros(2), 1.0, 4, seed=0)
    candidates = np.array([[4.0, 0.0], [1.0, 0.0], [0.0, 2.0], [0.0, 9.0]])
    search.tell(candidates, [3.0, 1.0, 2.0, 4.0])
    first = np.log(2.5) / (2 * np.log(2.5) - np.log(2.0))
    assert search.mean == pytest.approx([first, 2.0 * (1.0 - first)])


def test_a_search_continues_from_its_state_to_the_same_mean() -> None:
    whole = Evolution(np.zeros(4), 0.5, 8, seed=5)
    advance(whole, ellipsoid, 9)
    state = json.loads(json.dumps(whole.state()))
    advance(whole, ellipsoid, 9)
    continued = Evolution(np.zeros(4), 0.5, 8, seed=5)
    continued.restore(state)
    advance(continued, ellipsoid, 9)
    assert continued.mean.tolist() == whole.mean.tolist()
    assert continued.state() == whole.state()


def test_noise_in_the_costs_is_averaged() -> None:
    rng = np.random.default_rng(0)
    search = Evolution(np.zeros(5), 0.5, 20, seed=4)
    advance(search, lambda numbers: float(((numbers - 1) ** 2).sum() + rng.normal() * 0.3), 60)
    assert np.abs(search.mean - 1.0).max() < 0.35
