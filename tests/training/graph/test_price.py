import tests.training.torch_library  # noqa: F401  (skips this module where torch is missing)

# isort: split

import pytest

from roost_train.graph.price import PriceTrial, best_price, try_prices
from roost_train.networks.graph_net import GraphNet

pytestmark = pytest.mark.torch


def test_a_high_price_decides_as_the_heuristic_does() -> None:
    done = list[int]()
    (trial,) = try_prices(
        GraphNet.random(0), 0, 2, 40, (1000.0,), lambda number, loss: done.append(number)
    )
    assert trial.jct_ratio == pytest.approx(1.0, abs=1e-9)
    assert done == [1, 2]


def test_the_best_price_has_the_shortest_completion_times() -> None:
    trials = [PriceTrial(price=p, jct_ratio=r) for p, r in ((1.0, 0.9), (0.1, 0.9), (3.0, 1.1))]
    assert best_price(trials) == 0.1
