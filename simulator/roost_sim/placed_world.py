"""A world in which a job's speed hangs on where it is and on nothing else, as in many papers."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from roost_sim.world import Change, Started
from roostd.core.model import JobId, NodeShare


@dataclass(frozen=True, slots=True)
class PlacedWorld:
    """Rates by placement alone. See roost_sim.world.World.

    Attributes:
        rate: of a job on what it holds, above 0 and at most 1.
    """

    rate: Callable[[JobId, tuple[NodeShare, ...]], float]

    def rates_after(self, change: Change) -> Iterable[tuple[JobId, float]]:
        """See World."""
        if isinstance(change, Started):
            return ((change.job_id, self.rate(change.job_id, change.shares)),)
        return ()
