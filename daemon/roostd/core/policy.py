"""The plug-ins of a pass over the queue: one Protocol a decision, one method each.

All are pure: the same arguments give the same answer. Learned ones live behind adapters and raise
PolicyError when they cannot answer; the engine then asks the heuristic beside them.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from roostd.core.model import JobId, JobSpec


class OrderPolicy(Protocol):
    """Who is offered GPUs next?"""

    def rank(self, jobs: Sequence[JobSpec], at_s: float) -> Sequence[JobId]:
        """Return every job's id, first served first."""


SortKey: TypeAlias = tuple[int | float | str, ...]


@runtime_checkable
class KeyedOrder(OrderPolicy, Protocol):
    """An order in which a job's place hangs on nothing but the job: it is found by its key."""

    def key(self, job: JobSpec) -> SortKey:
        """Return what to sort by, ascending; the same at any time."""


@dataclass(frozen=True, slots=True)
class Allow:
    """The job may take the offer."""


@dataclass(frozen=True, slots=True)
class Defer:
    """The job should wait for something better until a deadline (engine time)."""

    until_s: float
    reason: str


GateVerdict: TypeAlias = Allow | Defer


class GatePolicy(Protocol):
    """Now, or wait for a better place? Until when?"""

    def decide(self, job: JobSpec, waited_s: float, tier: int, at_s: float) -> GateVerdict:
        """Judge an offer.

        Args:
            job: the job that has the offer.
            waited_s: seconds since it could first have been placed.
            tier: of the best candidate: 0 one node, 1 one rack, 2 across racks.
            at_s: engine time.
        """


class ScorePolicy(Protocol):
    """Which of the candidates?"""

    @property
    def name(self) -> str:
        """What `explain` calls it: "heuristic" or "onnx:" and twelve digits of the sha256."""

    def score(self, features: NDArray[np.float32]) -> NDArray[np.float32]:
        """Return one score a candidate; higher is better.

        Args:
            features: float32 [candidate, feature], columns core.features.COLUMNS, all finite.

        Returns:
            float32 [candidate], all finite.

        Raises:
            PolicyError: it cannot answer, or its answer has the wrong shape, NaN or infinity.
        """


class PriorityOrder:
    """Slurm's own order: higher priority first, then the earlier submission, then the lower id."""

    def rank(self, jobs: Sequence[JobSpec], at_s: float) -> Sequence[JobId]:
        """See OrderPolicy."""
        return [job.job_id for job in sorted(jobs, key=self.key)]

    def key(self, job: JobSpec) -> SortKey:
        """See KeyedOrder."""
        number, _, task = job.job_id.partition("_")
        # Length first: digits then sort as numbers do.
        return -job.priority, job.submit_s, len(number), number, len(task), task


class OpenGate:
    """Takes every offer at once: no delay scheduling."""

    def decide(self, job: JobSpec, waited_s: float, tier: int, at_s: float) -> GateVerdict:
        """See GatePolicy."""
        return Allow()
