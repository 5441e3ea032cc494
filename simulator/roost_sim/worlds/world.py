"""The world: the model of job speeds that the driver calls.

A rate is speed relative to the job alone on ideal GPUs: a job of 100 s of work at rate 0.5 takes
200 s. Rates change when jobs start and end, so the driver reports both to the world, which returns
the affected jobs.
"""

from collections.abc import Callable, Iterable
from typing import Protocol, TypeAlias

from roost_engine.domain.model import JobId, NodeShare
from roost_engine.domain.value import value


@value()
class Started:
    """A job has started on these GPUs."""

    job_id: JobId
    shares: tuple[NodeShare, ...]


@value()
class Ended:
    """A job has released its GPUs."""

    job_id: JobId


Change: TypeAlias = Started | Ended


class World(Protocol):
    """A model of how fast jobs run beside each other."""

    def rates_after(self, change: Change) -> Iterable[tuple[JobId, float]]:
        """Apply a change and return the rates that it sets.

        Args:
            change: a start or an end. The result must include a started job.

        Returns:
            (running job, its new rate), each job once; a rate is finite and at least 0. A job of
            rate 0 makes no progress until a later change.
        """


class FullSpeed:
    """Every job runs at rate 1 on any placement: only queueing counts."""

    def rates_after(self, change: Change) -> Iterable[tuple[JobId, float]]:
        """See World."""
        return ((change.job_id, 1.0),) if isinstance(change, Started) else ()


@value()
class PlacedWorld:
    """Rates by placement alone, as in many papers: other jobs never change them.

    Attributes:
        rate: (job, its shares) to its rate, above 0 and at most 1.
    """

    rate: Callable[[JobId, tuple[NodeShare, ...]], float]

    def rates_after(self, change: Change) -> Iterable[tuple[JobId, float]]:
        """See World."""
        if isinstance(change, Started):
            return ((change.job_id, self.rate(change.job_id, change.shares)),)
        return ()
