"""A net whose skip is the heuristic, for tests that need some net and no training."""

import numpy as np
import torch

from roost_engine.cluster.features import HEURISTIC_WEIGHTS
from roost_train.networks.score_net import ScoreNet


def random_net(seed: int = 0, gain: float = 0.1) -> ScoreNet:
    """Make a net with a random residual of that size; gain 0: the heuristic alone."""
    torch.manual_seed(seed)
    return ScoreNet.random(HEURISTIC_WEIGHTS.astype(np.float64), hidden=8, gain=gain)
