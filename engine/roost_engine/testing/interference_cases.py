"""Cases of the interference model, for tests: one job and its neighbours by level."""

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from roost_engine.domain.tier import Tier
from roost_engine.prediction.interference.interference_model import TIER_COLUMNS, Cases


def case_of(
    own: NDArray[np.float32],
    beside: Mapping[str, Sequence[NDArray[np.float32]]],
    tier: Tier = Tier.NODE,
) -> Cases:
    """Return one case as a batch of one.

    Args:
        own: the job's vector.
        beside: by level, the neighbours' vectors, weighted; their order does not matter.
        tier: of the job.
    """
    cases = Cases.empty(1)
    cases.own[0] = own
    cases.tier[0] = np.arange(len(TIER_COLUMNS)) == tier
    for level, vectors in beside.items():
        if len(vectors):
            # Sorted before they are added, so that the sum is the same to the last bit.
            listed = sorted(np.asarray(each, dtype=np.float64).tolist() for each in vectors)
            cases.level(level)[0] = np.array(listed).sum(axis=0)
    return cases
