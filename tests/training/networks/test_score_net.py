import tests.training.torch_library  # noqa: F401  (skips this module where torch is missing)

# isort: split
import numpy as np
import pytest
import torch
from tests.training.random_net import random_net

from roost_engine.cluster.features import COLUMN, COLUMNS, HEURISTIC_WEIGHTS
from roost_train.errors import ModelError
from roost_train.networks.score_net import LOADS_BEGIN, ScoreNet

pytestmark = pytest.mark.torch


def test_without_a_residual_the_score_is_that_of_the_skip() -> None:
    features = np.random.default_rng(0).random((3, 5, len(COLUMNS)))
    scores = random_net(gain=0.0).forward(torch.from_numpy(features)).numpy()
    assert scores.shape == (3, 5)
    np.testing.assert_allclose(scores, features @ HEURISTIC_WEIGHTS.astype(np.float64), atol=1e-12)


def test_forward_by_hand() -> None:
    wide = len(COLUMNS)
    column = [[1.0 if row == 0 else 0.0] for row in range(wide)]
    net = ScoreNet(
        skip=torch.zeros(wide, dtype=torch.float64),
        weight1=torch.tensor(column, dtype=torch.float64),
        bias1=torch.tensor([-0.25], dtype=torch.float64),
        weight2=torch.tensor([[2.0]], dtype=torch.float64),
        bias2=torch.tensor([0.5], dtype=torch.float64),
        weight3=torch.tensor([[-1.0]], dtype=torch.float64),
        bias3=torch.tensor([3.0], dtype=torch.float64),
    )
    features = torch.zeros(2, wide, dtype=torch.float64)
    features[0, 0] = 1.0
    # Active: 3 - (2 * (1 - 0.25) + 0.5). Cut off by the first layer: 3 - (2 * 0 + 0.5).
    assert net.forward(features).tolist() == [1.0, 2.5]


def test_the_exported_skip_is_split_where_the_loads_begin() -> None:
    weights = random_net().to_weights()
    shared, load = weights["skip_shared"][:, 0], weights["skip_load"][:, 0]
    assert not load[:LOADS_BEGIN].any()
    assert not shared[LOADS_BEGIN:].any()
    np.testing.assert_array_equal(shared + load, HEURISTIC_WEIGHTS)
    names = [name for name in COLUMN if COLUMN[name] >= LOADS_BEGIN]
    assert load[LOADS_BEGIN:].shape == (len(names),)
    assert {weight.dtype for weight in weights.values()} == {np.dtype(np.float32)}


def test_a_net_comes_back_from_its_weights() -> None:
    net = random_net()
    weights = net.to_weights()
    again = ScoreNet.from_weights(weights).to_weights()
    assert set(again) == set(weights)
    for name, weight in weights.items():
        np.testing.assert_array_equal(again[name], weight)


@pytest.mark.parametrize("change", ["missing", "surplus"])
def test_weights_of_another_origin_are_refused(change: str) -> None:
    weights = random_net().to_weights()
    if change == "missing":
        del weights["bias2"]
    else:
        weights["skip"] = weights["skip_load"]
    with pytest.raises(ModelError, match="a file of roost-train has"):
        ScoreNet.from_weights(weights)


def test_the_optimiser_gets_every_weight() -> None:
    net = random_net()
    for parameter in net.parameters():
        parameter.requires_grad_()
    net.forward(torch.ones(4, len(COLUMNS), dtype=torch.float64)).sum().backward()
    assert [parameter.grad is not None for parameter in net.parameters()] == [True] * 7
