"""The heuristic score: linear in the features, beside every score model."""

from typing import Literal

import numpy as np
from numpy.typing import NDArray

from roost_engine.cluster.features import HEURISTIC_WEIGHTS, weighted_sums


class HeuristicScore:
    """Consolidation, then links, then least fragmentation, then best fit, then idle neighbours."""

    name = "heuristic"
    is_rowwise: Literal[True] = True

    def score(self, features: NDArray[np.float32]) -> NDArray[np.float32]:
        """See policies.ScorePolicy. Linear in the columns, by HEURISTIC_WEIGHTS."""
        return weighted_sums(features, HEURISTIC_WEIGHTS[:, None])[:, 0]
