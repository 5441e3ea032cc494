"""What reports of progress change of predicted losses: pairs of kinds that were mispredicted.

A newcomer's predicted loss on a node is raised or lowered by what its own kind was observed to
suffer beside the kinds there. The reports are of the newcomer's own user, so a user who reports
what is not true moves only that user's jobs. What a kind suffers everywhere does not tell places
apart, and is left out.
"""

from collections.abc import Iterable

from roost_engine.domain.pair_correction import PairCorrection

MOST_CORRECTION = 0.45  # as in the table of kinds: the spread of a job of which nothing is known


class Corrections:
    """Sums of pairs; see the module.

    Args:
        pairs: each pair once.
    """

    def __init__(self, pairs: Iterable[PairCorrection] = ()) -> None:
        self._pairs: dict[str, dict[tuple[str, str], PairCorrection]] = {}
        self.apply(pairs)

    def apply(self, pairs: Iterable[PairCorrection]) -> None:
        """Take the place of what was known of these pairs; one with a mean of 0 is forgotten."""
        for pair in pairs:
            of_kind = self._pairs.setdefault(pair.kind, {})
            of_kind.pop((pair.beside, pair.level), None)
            if pair.mean:
                of_kind[pair.beside, pair.level] = pair
            elif not of_kind:
                del self._pairs[pair.kind]

    def __len__(self) -> int:
        """Return the number of pairs."""
        return sum(map(len, self._pairs.values()))

    def knows(self, kind: str) -> bool:
        """Return whether anything is to be changed for a kind."""
        return kind in self._pairs

    def of(self, kind: str, beside: Iterable[tuple[str, str]]) -> float:
        """Return what is to be added to the log slowdown of a job.

        Args:
            kind: of the job.
            beside: (kind, level) of its neighbours; a kind counts once a level.

        Returns:
            At most MOST_CORRECTION, more or less.
        """
        known = self._pairs.get(kind, {})
        pairs = [known[pair] for pair in dict.fromkeys(beside) if pair in known]
        return min(max(sum(pair.mean for pair in pairs), -MOST_CORRECTION), MOST_CORRECTION)

    def is_bad(self, kind: str, beside: Iterable[tuple[str, str]]) -> bool:
        """Return whether a job beside these would be part of a pair that turned out bad."""
        known = self._pairs.get(kind, {})
        return any(pair in known and known[pair].is_bad for pair in beside)
