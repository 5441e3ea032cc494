"""What the score of neighbours asks: an interference model behind plain arrays by level."""

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from roost_engine.prediction.interference_model import (
    BESIDE_COLUMNS,
    TIER_COLUMNS,
    Cases,
    InterferenceModel,
)
from roost_engine.prediction.interference_vector import WIDTH, vector

Array = NDArray[np.float32]

_TIERS = np.arange(len(TIER_COLUMNS))


class InterferenceEstimates:
    """A scoring.neighbours.Interference.

    Args:
        model: predicts; one call for each batch.

    Attributes:
        name: the model's.
        width: columns of a load vector.
    """

    def __init__(self, model: InterferenceModel) -> None:
        self.name, self.width, self._model = model.name, WIDTH, model

    def vector(self, means: Mapping[str, float]) -> Array:
        """See scoring.neighbours.Interference."""
        return vector(means)

    def slowdowns(
        self, own: Array, beside: Mapping[str, Array], tier: NDArray[np.int64]
    ) -> tuple[Array, Array]:
        """See scoring.neighbours.Interference.

        Raises:
            PolicyError: the model could not answer.
        """
        sums = np.zeros((len(own), len(BESIDE_COLUMNS)), dtype=np.float32)
        cases = Cases(own, sums, (tier[:, None] == _TIERS).astype(np.float32))
        for level, of_level in beside.items():
            cases.level(level)[:] = of_level
        return self._model.slowdowns(cases)
