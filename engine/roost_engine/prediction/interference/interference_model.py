"""What neighbours cost a job: mean and spread of its log slowdown.

A case is one job with the sums of its neighbours' load vectors by what they share with it, the
closest first; each neighbour counts once, at the closest level. On a GPU a neighbour counts whole.
On every other level its vector is weighted by the share of the other GPUs of the node (for
`uplink`: of the rack) that it holds. Page: docs/interference.md.
"""

from math import inf
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from roost_engine.domain.errors import PolicyError
from roost_engine.domain.tier import Tier
from roost_engine.prediction.interference.interference_vector import VECTOR_COLUMNS, WIDTH, vector

LEVELS = ("gpu", "switch", "socket", "nic", "uplink")
OWN, BESIDE, TIER, SLOWDOWN = "own", "beside", "tier", "slowdown"
BESIDE_COLUMNS: tuple[str, ...] = tuple(
    f"{level}_{name}" for level in LEVELS for name in VECTOR_COLUMNS
)
TIER_COLUMNS: tuple[str, ...] = tuple(tier.name.lower() for tier in Tier)
INTERFERENCE_SCHEMA_VERSION = 1

PRIOR_MEAN = 0.53  # of two jobs on one GPU: the mean over Gavel's pairs on P100 and K80
PRIOR_SPREAD = 0.45  # wide: two jobs of which nothing is known
MOST_LOG_SLOWDOWN = 3.0  # twenty times slower; beyond that a prediction is a fault
_OWN_SPREAD = 0.02  # two runs of one job alone differ by about as much
_NODE_SPREAD = 0.1  # of neighbours elsewhere on the node: a guess, no pair of them was measured


class Cases(NamedTuple):
    """A batch of cases.

    Attributes:
        own: float32 [case, WIDTH], the jobs' own load vectors.
        beside: float32 [case, levels * WIDTH], sums of neighbours' vectors, level by level.
        tier: float32 [case, 3], 1 at the job's tier.
    """

    own: NDArray[np.float32]
    beside: NDArray[np.float32]
    tier: NDArray[np.float32]

    @classmethod
    def empty(cls, count: int) -> "Cases":
        """Return so many cases of unknown jobs on one node without neighbours."""
        cases = cls(
            np.zeros((count, WIDTH), np.float32),
            np.zeros((count, len(BESIDE_COLUMNS)), np.float32),
            np.zeros((count, len(TIER_COLUMNS)), np.float32),
        )
        cases.own[:, -1] = cases.tier[:, Tier.NODE] = 1.0
        return cases

    def level(self, level: str) -> NDArray[np.float32]:
        """Return a view of the sums of one level: float32 [case, WIDTH]."""
        begin = LEVELS.index(level) * WIDTH
        return self.beside[:, begin : begin + WIDTH]


class Slowdowns(NamedTuple):
    """Natural logarithms of slowdowns: 0.1 is a tenth slower.

    Attributes:
        mean: float32 [case], 0 or more.
        spread: float32 [case], standard deviation, above 0.
    """

    mean: NDArray[np.float32]
    spread: NDArray[np.float32]


class InterferenceModel(Protocol):
    """Predicts slowdowns. Pure: same input, same output.

    Attributes:
        name: what people call it.
    """

    name: str

    def slowdowns(self, cases: Cases) -> Slowdowns:
        """Predict each case.

        Raises:
            PolicyError: it cannot answer, or answers NaN, infinity or another shape.
        """

    def means(self, cases: Cases) -> NDArray[np.float32]:
        """Return the means alone, which takes half as long.

        Raises:
            PolicyError: as `slowdowns`.
        """


class PriorModel:
    """The model where no file is: every neighbour on a GPU costs the prior, others nothing.

    Attributes:
        name: what people call it.
    """

    def __init__(self) -> None:
        self.name = "prior"

    def slowdowns(self, cases: Cases) -> Slowdowns:
        """See InterferenceModel."""
        # The last column of a vector is 1: in sums it counts neighbours. tanh: further neighbours
        # cost less than the first, and half a neighbour about half as much.
        count = cases.level("gpu")[:, -1]
        others = cases.beside[:, WIDTH - 1 :: WIDTH].sum(axis=1) - count
        mean = PRIOR_MEAN * np.tanh(count)
        spread = _OWN_SPREAD + PRIOR_SPREAD * np.tanh(count) + _NODE_SPREAD * np.tanh(others)
        return Slowdowns(mean.astype(np.float32), spread.astype(np.float32))

    def means(self, cases: Cases) -> NDArray[np.float32]:
        """See InterferenceModel."""
        return self.slowdowns(cases).mean


def checked(name: str, found: Slowdowns, count: int) -> Slowdowns:
    """Return an answer whose numbers can be used.

    Raises:
        PolicyError: another shape, NaN or infinity, a negative mean, or a spread that is not above
            0.
    """
    mean, spread = checked_means(name, found.mean, count), found.spread
    if spread.shape != (count,):
        raise PolicyError(f"{name} answered spreads {spread.shape}; want ({count},)")
    if not count or (spread.min() > 0 and spread.max() < inf):  # NaN passes no comparison
        return Slowdowns(mean, spread)
    raise PolicyError(f"{name} answered no spread, or one that is not finite")


def checked_means(name: str, mean: NDArray[np.float32], count: int) -> NDArray[np.float32]:
    """Return means that can be used.

    Raises:
        PolicyError: another shape, NaN or infinity, or a negative mean.
    """
    if mean.shape != (count,):
        raise PolicyError(f"{name} answered {mean.shape}; want ({count},)")
    if not count or (mean.min() >= -1e-5 and mean.max() <= MOST_LOG_SLOWDOWN):
        return np.maximum(mean, 0.0)
    if not np.isfinite(mean).all():
        raise PolicyError(f"{name} answered a slowdown that is not finite")
    raise PolicyError(f"{name} answered a slowdown below 0 or above {MOST_LOG_SLOWDOWN}")


UNKNOWN: NDArray[np.float32] = vector({})
"""The vector of a job of which nothing is known."""
