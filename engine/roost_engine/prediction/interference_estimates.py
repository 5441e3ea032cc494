"""What the score of neighbours asks: an interference model behind plain arrays by level."""

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from roost_engine.prediction.interference_model import Cases, InterferenceModel
from roost_engine.prediction.interference_vector import WIDTH, vector

Array = NDArray[np.float32]


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
        cases = Cases.empty(len(own))
        cases.own[:] = own
        for level, sums in beside.items():
            cases.level(level)[:] = sums
        cases.tier[:] = tier[:, None] == np.arange(cases.tier.shape[1])
        return self._model.slowdowns(cases)
