"""What the score of neighbours asks for predicted slowdowns."""

from collections.abc import Mapping
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float32]


class Interference(Protocol):
    """Predicts slowdowns; prediction.interference.interference_estimates has it.

    Attributes:
        name: of the model.
        width: columns of a load vector.
    """

    name: str
    width: int

    def vector(self, means: Mapping[str, float]) -> Array:
        """Return the load vector of a job of which these quantities are known: [width]."""

    def slowdowns(self, own: Array, beside: Array, tier: NDArray[np.int64]) -> tuple[Array, Array]:
        """Return mean and spread of log slowdowns.

        Args:
            own: [case, width].
            beside: weighted sums of neighbours' vectors, [case, level, width], levels as in
                neighbour_levels.
            tier: [case].
        """

    def means(self, own: Array, beside: Array, tier: NDArray[np.int64]) -> Array:
        """Return the means alone."""
