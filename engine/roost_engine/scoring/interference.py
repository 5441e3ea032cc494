"""The Protocol of what predicts slowdowns for the score of neighbours."""

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
        """Return the load vector of a job: float32 [width].

        Args:
            means: what is known of it, by quantity, as fractions 0 to 1.
        """

    def slowdowns(self, own: Array, beside: Array, tier: NDArray[np.int64]) -> tuple[Array, Array]:
        """Return mean and spread of log slowdowns: float32 [case] each.

        Args:
            own: float32 [case, width], load vectors of the jobs that are asked about.
            beside: float32 [case, level, width], weighted sums of their neighbours' vectors, levels
                as in neighbour_levels.
            tier: [case], of each job's GPUs, a domain.tier.Tier.

        Raises:
            PolicyError: the model could not answer.
        """

    def means(self, own: Array, beside: Array, tier: NDArray[np.int64]) -> Array:
        """Return the means alone, see slowdowns.

        Raises:
            PolicyError: the model could not answer.
        """
