"""Advantages: how much better a decision came out than was expected.

    δ(t) = r(t) + d(t) · V(t+1) - V(t)
    A(t) = δ(t) + d(t) · λ · A(t+1)

Time between decisions differs, so the discount does: d(t) = exp(-(time to the next decision) / H).
Decisions of the same instant have d = 1. V behind the end of an episode is 0.

Source: Schulman et al., High-Dimensional Continuous Control Using Generalized Advantage Estimation,
ICLR 2016, equations 11 to 16.
"""

from collections.abc import Sequence
from math import inf

import numpy as np
from numpy.typing import NDArray


def advantages(
    rewards: Sequence[float], values: Sequence[float], discounts: Sequence[float], trace: float
) -> NDArray[np.float64]:
    """Return the advantage of each decision of one episode.

    Args:
        rewards: [decision], what followed each.
        values: [decision], V of each.
        discounts: [decision], d of each.
        trace: λ; 1 is the whole return, 0 one step.
    """
    found = np.zeros(len(rewards))
    following, value_after = 0.0, 0.0
    for place in range(len(rewards) - 1, -1, -1):
        surprise = rewards[place] + discounts[place] * value_after - values[place]
        following = surprise + discounts[place] * trace * following
        found[place], value_after = following, values[place]
    return found


def discounts(at_s: Sequence[float], horizon_s: float) -> NDArray[np.float64]:
    """Return d of each decision.

    Args:
        at_s: engine time of each decision, and of the end.
        horizon_s: H; inf: no discount.
    """
    if horizon_s == inf:
        return np.ones(len(at_s) - 1)
    return np.asarray(np.exp(-np.diff(np.asarray(at_s)) / horizon_s))
