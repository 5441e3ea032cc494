"""prediction.interference.interference_estimates: arrays by level become cases."""

import numpy as np
import pytest

from roost_engine.prediction.interference.interference_estimates import InterferenceEstimates
from roost_engine.prediction.interference.interference_model import Cases, PriorModel, Slowdowns
from roost_engine.prediction.interference.interference_vector import WIDTH
from roost_engine.scoring.neighbour_levels import LEVELS


class FakeModel:
    """Answers the sum of `socket`, and records the tiers that it was asked about."""

    def __init__(self) -> None:
        self.name, self.tiers = "fake", list[list[float]]()

    def slowdowns(self, cases: Cases) -> Slowdowns:
        self.tiers = cases.tier.tolist()
        mean = cases.level("socket")[:, 0] * cases.own[:, 0]
        return Slowdowns(mean, np.full(len(mean), 0.1, np.float32))

    def means(self, cases: Cases) -> np.ndarray:
        return self.slowdowns(cases).mean


def beside(level: str, vectors: np.ndarray) -> np.ndarray:
    """Neighbours on one level: [case, level, width]."""
    found = np.zeros((len(vectors), len(LEVELS), WIDTH), dtype=np.float32)
    found[:, LEVELS.index(level)] = vectors
    return found


def test_levels_and_tiers_reach_the_model() -> None:
    model = FakeModel()
    estimates = InterferenceEstimates(model)
    own = np.stack([estimates.vector({"sm": frac}) for frac in (0.5, 1.0)])
    mean, spread = estimates.slowdowns(own, beside("socket", own), np.array([0, 2]))
    assert mean.tolist() == [0.25, 1.0]
    assert spread.tolist() == pytest.approx([0.1, 0.1])
    assert model.tiers == [[1, 0, 0], [0, 0, 1]]
    alone = estimates.means(own, beside("socket", own), np.array([0, 2]))
    assert alone.tolist() == mean.tolist()


def test_the_prior_expects_nothing_off_the_gpu() -> None:
    estimates = InterferenceEstimates(PriorModel())
    assert (estimates.name, estimates.width) == ("prior", WIDTH)
    own = estimates.vector({"nic": 0.5})[None]
    mean, _ = estimates.slowdowns(own, beside("nic", own), np.zeros(1, dtype=np.int64))
    assert mean.tolist() == [0.0]
