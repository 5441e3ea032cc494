"""What one neighbour is expected to cost a job, how sure that is, and what predicts it."""

from typing import NamedTuple, Protocol, runtime_checkable

import numpy as np

from roost_engine.domain.model import JobId
from roost_engine.policies.protocols import ClusterScore, ScoreQuestion
from roost_engine.scoring.neighbour_corrections import Corrections


class NeighbourCost(NamedTuple):
    """The neighbour that costs most.

    Attributes:
        job_id: the neighbour.
        lost_frac: of the newcomer's speed, by this neighbour alone.
        sure_frac: probability that it costs anything noticeable, more than 2 %.
        causes_frac: of the neighbour's speed, by the newcomer.
    """

    job_id: JobId
    lost_frac: float
    sure_frac: float
    causes_frac: float

    @property
    def in_words(self) -> str:
        """The same as a sentence."""
        return (
            f"job {self.job_id} is expected to cost {100 * self.lost_frac:.0f} % of the speed"
            f" ({100 * self.sure_frac:.0f} % sure that it is more than 2 %),"
            f" and to lose {100 * self.causes_frac:.0f} % of its own"
        )


@runtime_checkable
class NeighbourAwareScore(ClusterScore, Protocol):
    """A score policy that predicts what neighbours cost each other.

    Attributes:
        corrections: what reports of progress change of predictions.
    """

    corrections: Corrections

    def lost_frac(self, question: ScoreQuestion) -> float:
        """Return the share of its speed that a newcomer loses at the best candidate."""

    def costliest(self, question: ScoreQuestion, candidate: int) -> NeighbourCost | None:
        """Return the neighbour that costs most at one candidate; None where none costs anything."""


def above(mean: float, spread: float, limit: float) -> float:
    """Return the probability that a normal number is above a limit.

    By the logistic function, which is within 0.01 of the normal distribution's.
    """
    return float(1.0 / (1.0 + np.exp(-1.702 * (mean - limit) / max(spread, 1e-6))))
