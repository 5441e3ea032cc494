"""How fast jobs run: what the driver asks of a model of the machine.

A rate is speed relative to the job alone on ideal GPUs: a job of 100 s of work at rate 0.5 takes
200 s. Rates change when jobs come and go, so the world is told of both and names who is affected.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Protocol, TypeAlias

from roost_engine.domain.model import JobId, NodeShare


@dataclass(frozen=True, slots=True)
class Started:
    """A job runs on these from now on."""

    job_id: JobId
    shares: tuple[NodeShare, ...]


@dataclass(frozen=True, slots=True)
class Ended:
    """A job has left what it held."""

    job_id: JobId


Change: TypeAlias = Started | Ended


class World(Protocol):
    """A model of how fast jobs run beside each other."""

    def rates_after(self, change: Change) -> Iterable[tuple[JobId, float]]:
        """Take in a change and answer whose rate it sets.

        Args:
            change: what happened. A started job must be among the answers.

        Returns:
            (running job, its new rate), each job once; a rate is finite and at least 0, and a job
            of rate 0 stands still until a later change speeds it up.
        """


class FullSpeed:
    """Every job runs at rate 1 wherever it is: only queueing counts."""

    def rates_after(self, change: Change) -> Iterable[tuple[JobId, float]]:
        """See World."""
        return ((change.job_id, 1.0),) if isinstance(change, Started) else ()


@dataclass(frozen=True, slots=True)
class PlacedWorld:
    """Rates by placement alone, as in many papers: neighbours never change them.

    Attributes:
        rate: of a job on what it holds, above 0 and at most 1.
    """

    rate: Callable[[JobId, tuple[NodeShare, ...]], float]

    def rates_after(self, change: Change) -> Iterable[tuple[JobId, float]]:
        """See World."""
        if isinstance(change, Started):
            return ((change.job_id, self.rate(change.job_id, change.shares)),)
        return ()
