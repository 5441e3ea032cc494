"""A pair of kinds of jobs of which a loss was mispredicted."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class PairCorrection:
    """One mispredicted pair.

    Attributes:
        kind: of the job that loses speed.
        beside: the neighbour's kind.
        level: the closest that both share.
        mean: to be added to the predicted log slowdown.
        is_bad: whether the pair turned out bad: it is not made again where there is another place.
    """

    kind: str
    beside: str
    level: str
    mean: float
    is_bad: bool = False
