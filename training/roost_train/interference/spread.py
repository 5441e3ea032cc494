"""Spread of slowdowns: how far predictions are off, by the job's own seconds a step.

Two jobs on one GPU take turns. A job whose steps are short loses hardly anything or nearly all, by
how the turns fall; one whose steps are long loses about its share. So the spread falls with the
step time, and intervals of a GPU type that was never measured are as wide as its jobs' steps say,
not as wide as those of the types that were.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from roost_engine.prediction.interference.interference_vector import COLUMN, MASK

Array = NDArray[np.float64]

INTERVAL = 1.645  # standard deviations on either side that hold 90 % of a normal distribution
_HELD_FRAC = 0.9
_STEP = COLUMN["step_time_mean"]
_RATIOS = (0.0, 0.25, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0)  # tried, of by_step to base


@dataclass(frozen=True, slots=True)
class Spread:
    """The standard deviation of a log slowdown: base + by_step · (1 - step time).

    The step time is the vector's value of it, 0 to 1: see interference_vector.

    Attributes:
        base: for the longest steps.
        by_step: what the shortest steps add; 0 or more.
        shortness: in place of 1 - step time where the step time is not known.
    """

    base: float
    by_step: float = 0.0
    shortness: float = 0.0

    def of(self, own: NDArray[np.float32]) -> Array:
        """Return the spread of each job by its own vector: [job]."""
        is_known = own[:, MASK.start + _STEP] > 0
        short = np.where(is_known, 1.0 - own[:, _STEP].astype(float), self.shortness)
        found: Array = self.base + self.by_step * short
        return found


def fit_spread(own: NDArray[np.float32], missed: Array) -> Spread:
    """Return the spread whose 90 % interval holds 90 % of what held-out predictions missed.

    Of _RATIOS the one with the least quantile loss is taken, each scaled to hold its 90 %.

    Args:
        own: float32 [case, WIDTH], the jobs' vectors.
        missed: [case], measured less predicted.
    """
    size = np.abs(missed)
    shortness = float(Spread(0.0, 1.0).of(own).mean())
    found, least = Spread(0.0), np.inf
    for ratio in _RATIOS:
        shape = Spread(1.0, ratio, shortness).of(own)
        scale = float(np.quantile(size / shape, _HELD_FRAC))
        over = size - scale * shape
        loss = float(np.where(over > 0, _HELD_FRAC * over, (_HELD_FRAC - 1) * over).mean())
        if loss < least:
            found, least = Spread(scale / INTERVAL, ratio * scale / INTERVAL, shortness), loss
    return found
