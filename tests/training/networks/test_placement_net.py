import tests.training.torch_library  # noqa: F401  (skips this module where torch is missing)

# isort: split
import numpy as np
import pytest
import torch

from roost_engine.cluster.features import COLUMNS
from roost_engine.scoring.heuristic import HeuristicScore
from roost_train.networks.placement_net import PlacementNet

pytestmark = pytest.mark.torch


def test_at_first_it_chooses_as_the_heuristic_does() -> None:
    torch.manual_seed(0)
    features = np.random.default_rng(0).random((40, len(COLUMNS))).astype(np.float32)
    with torch.inference_mode():
        found = PlacementNet()(torch.from_numpy(features)[None], torch.zeros(1, 1))[0].numpy()
    assert np.argmax(found) == np.argmax(HeuristicScore().score(features))
    assert np.corrcoef(found, HeuristicScore().score(features))[0, 1] > 0.99


def test_no_context_is_read() -> None:
    net = PlacementNet()
    features = torch.rand(2, 3, len(COLUMNS))
    assert torch.equal(net(features, torch.zeros(2, 5)), net(features, torch.ones(2, 5)))


def test_a_residual_scores_exactly_as_the_heuristic() -> None:
    # Eighths and sixteenths of points have no rounding that depends on the order of additions.
    drawn = np.random.default_rng(1).integers(0, 9, (30, len(COLUMNS))) / 8.0
    drawn[:, 5:] = 0.0
    features = drawn.astype(np.float32)
    with torch.inference_mode():
        found = PlacementNet.residual()(torch.from_numpy(features)[None], torch.zeros(1, 1))[0]
    assert np.array_equal(found.numpy(), 10.0 * HeuristicScore().score(features))
