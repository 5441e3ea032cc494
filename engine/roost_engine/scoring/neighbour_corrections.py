"""What reports of progress change of predicted losses: pairs of kinds that were mispredicted.

A newcomer's predicted loss on a node is raised or lowered by what its own kind was observed to
suffer beside the kinds there. The reports are of the newcomer's own user, so a user who reports
what is not true moves only that user's jobs. What a kind suffers everywhere does not tell places
apart, and is left out.
"""

from collections.abc import Iterable
from dataclasses import dataclass

MOST_CORRECTION = 0.45  # as in the table of kinds: the spread of a job of which nothing is known


@dataclass(frozen=True, slots=True)
class PairCorrection:
    """One mispredicted pair.

    Attributes:
        kind: whose loss it is.
        beside: the neighbour's kind.
        level: the closest that both share.
        mean: to be added to the predicted log slowdown.
    """

    kind: str
    beside: str
    level: str
    mean: float


class Corrections:
    """Sums of pairs; see the module.

    Args:
        pairs: each pair once.
    """

    def __init__(self, pairs: Iterable[PairCorrection] = ()) -> None:
        self._means = {(pair.kind, pair.beside, pair.level): pair.mean for pair in pairs}
        self._kinds = {pair.kind for pair in pairs}

    def __len__(self) -> int:
        """Return the number of pairs."""
        return len(self._means)

    def knows(self, kind: str) -> bool:
        """Return whether anything is to be changed for a kind."""
        return kind in self._kinds

    def of(self, kind: str, beside: Iterable[tuple[str, str]]) -> float:
        """Return what is to be added to the log slowdown of a job.

        Args:
            kind: of the job.
            beside: (kind, level) of its neighbours; a kind counts once a level.

        Returns:
            At most MOST_CORRECTION, more or less.
        """
        pairs = dict.fromkeys(beside)
        found = sum(self._means.get((kind, other, level), 0.0) for other, level in pairs)
        return min(max(found, -MOST_CORRECTION), MOST_CORRECTION)
