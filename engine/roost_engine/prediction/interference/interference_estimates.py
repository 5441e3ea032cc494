"""What the score of neighbours asks: an interference model behind plain arrays by level."""

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from roost_engine.prediction.interference.interference_model import (
    LEVELS,
    TIER_COLUMNS,
    Cases,
    InterferenceModel,
)
from roost_engine.prediction.interference.interference_vector import WIDTH, vector

Array = NDArray[np.float32]

_TIERS = np.eye(len(TIER_COLUMNS), dtype=np.float32)
_ON_NODE = slice(LEVELS.index("switch"), LEVELS.index("nic") + 1)


class InterferenceEstimates:
    """A scoring.interference.Interference.

    Args:
        model: predicts; one call for each batch.

    Attributes:
        name: the model's.
        width: columns of a load vector.
    """

    def __init__(self, model: InterferenceModel) -> None:
        self.name, self.width, self._model = model.name, WIDTH, model

    def vector(self, means: Mapping[str, float]) -> Array:
        """See scoring.interference.Interference."""
        return vector(means)

    def slowdowns(self, own: Array, beside: Array, tier: NDArray[np.int64]) -> tuple[Array, Array]:
        """See scoring.interference.Interference."""
        return self._model.slowdowns(_cases(own, beside, tier))

    def means(self, own: Array, beside: Array, tier: NDArray[np.int64]) -> Array:
        """See scoring.interference.Interference."""
        return self._model.means(_cases(own, beside, tier))


def _cases(own: Array, beside: Array, tier: NDArray[np.int64]) -> Cases:
    sums = np.zeros((len(own), len(LEVELS), WIDTH), dtype=np.float32)
    sums[:, _ON_NODE] = beside
    return Cases(own, sums.reshape(len(own), -1), _TIERS.take(tier, axis=0))
