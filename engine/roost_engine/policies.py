"""The plug-ins of a pass over the queue: one Protocol a decision.

The order and the score are pure: the same arguments give the same answer. A gate may learn from
what it is told, and candidates may remember what they were asked, and nothing else, so that a
replay tells them the same. Learned ones live behind adapters and raise PolicyError when they cannot
answer; the engine then asks the heuristic beside them.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf
from typing import Literal, Protocol, TypeAlias, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from roost_engine.cluster.cluster import Cluster
from roost_engine.cluster.node_sets import NodeSet
from roost_engine.domain.model import JobId, JobSpec, Shape
from roost_engine.job_record import JobRecord
from roost_engine.placement.candidates import Candidates
from roost_engine.placement.eligibility import Hint, hints_in
from roost_engine.placement.search import first_candidates

# -- order -------------------------------------------------------------------------------------


class OrderPolicy(Protocol):
    """Who is offered GPUs next?"""

    def rank(self, jobs: Sequence[JobRecord], at_s: float) -> Sequence[JobId]:
        """Return every job's id, first served first. Each record has a spec."""


SortKey: TypeAlias = tuple[int | float | str, ...]


@runtime_checkable
class KeyedOrder(OrderPolicy, Protocol):
    """An order in which a waiting job's place hangs on that job alone, and stays while it waits."""

    def key(self, job: JobRecord, at_s: float) -> SortKey:
        """Return what to sort by, ascending. For a waiting job it is the same at any time."""


# -- gate --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Allow:
    """The job may take the offer."""


@dataclass(frozen=True, slots=True)
class Defer:
    """The job should wait for something better until a deadline (engine time)."""

    until_s: float
    reason: str


GateVerdict: TypeAlias = Allow | Defer


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    """GPUs that a job could have now.

    Attributes:
        job: what is known of the job; its spec is there.
        waited_s: seconds since it could first have been placed, in this spell of waiting.
        shape: of the candidates.
        tier: of the best candidate: 0 one node, 1 one rack, 2 across racks.
        cluster: as it is now; to be read only.
        waiting_count: jobs that wait for GPUs, this one among them.
    """

    job: JobRecord
    waited_s: float
    shape: Shape
    tier: int
    cluster: Cluster
    at_s: float
    waiting_count: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitEnded:
    """How a spell of waiting came out.

    Attributes:
        job: what is known of the job.
        waited_s: seconds since it could first have been placed.
        tier: of what it got; None when it left the queue without: its wait is censored.
    """

    job: JobRecord
    waited_s: float
    tier: int | None
    at_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class RunEnded:
    """How a job that was placed came out.

    Attributes:
        job: what is known of the job; its spec is there, and the shares it held last.
        cluster: as it is now; to be read only. Its loads still are those of the run.
    """

    job: JobRecord
    cluster: Cluster
    at_s: float


class GatePolicy(Protocol):
    """Now, or wait for a better place? Until when?"""

    def decide(self, offer: Offer) -> GateVerdict:
        """Judge an offer. A Defer ends later than now."""

    def note(self, outcome: WaitEnded) -> None:
        """Learn how a wait came out. Called once for every spell, whoever placed the job."""


@runtime_checkable
class AlwaysOpen(GatePolicy, Protocol):
    """A gate that takes every offer and learns nothing: nobody need ask it or tell it anything."""

    is_always_open: Literal[True]


@runtime_checkable
class TunedGate(GatePolicy, Protocol):
    """A gate that also learns from how jobs ran, and whose timers an operator may set by hand."""

    def ended(self, run: RunEnded) -> None:
        """Learn how a job ran. Called once for every job that ran, at its end."""

    def pin(self, timer: str, pinned_s: float | None) -> None:
        """Set a timer by hand, or with None give it back; a name that is no timer's is ignored."""


# -- candidates --------------------------------------------------------------------------------


class CandidatePolicy(Protocol):
    """Which placements are worth scoring?"""

    def propose(self, cluster: Cluster, job: JobSpec, reserved: NodeSet, at_s: float) -> Candidates:
        """List the placements that Slurm could start now; empty when there are none.

        Args:
            cluster: the nodes.
            job: whose shapes, partition, features and node lists count.
            reserved: nodes kept free for a job that is served before this one.
            at_s: engine time.
        """

    def hints(self, cluster: Cluster, job: JobSpec, rows: NodeSet) -> Sequence[Hint]:
        """What a job that found nothing could find now that `rows` have more room.

        May err towards too many; those of shapes that they make no difference to are left out.
        """


class ShapeByShape:
    """The candidates of the first of the job's shapes that has any: Roost's own rule."""

    def propose(self, cluster: Cluster, job: JobSpec, reserved: NodeSet, at_s: float) -> Candidates:
        """See CandidatePolicy."""
        return first_candidates(cluster, job, reserved)

    def hints(self, cluster: Cluster, job: JobSpec, rows: NodeSet) -> Sequence[Hint]:
        """See CandidatePolicy."""
        return hints_in(cluster, job, rows, same_gpus=True)


# -- score -------------------------------------------------------------------------------------


class ScorePolicy(Protocol):
    """Which of the candidates?"""

    @property
    def name(self) -> str:
        """What `explain` calls it: "heuristic" or "onnx:" and twelve digits of the sha256."""

    def score(self, features: NDArray[np.float32]) -> NDArray[np.float32]:
        """Return one score a candidate; higher is better.

        Args:
            features: float32 [candidate, feature], columns cluster.features.COLUMNS, all finite.

        Returns:
            float32 [candidate], all finite.

        Raises:
            PolicyError: it cannot answer, or its answer has the wrong shape, NaN or infinity.
        """


@runtime_checkable
class RowwiseScore(ScorePolicy, Protocol):
    """A score policy that scores each candidate by itself, and never fails.

    The same features then score the same, to the last bit, whatever is scored beside them: what is
    interchangeable is scored once. A model run by a library of kernels promises no such thing.
    """

    is_rowwise: Literal[True]


# -- preemption --------------------------------------------------------------------------------


class PreemptPolicy(Protocol):
    """Whom to stop, for whom, and when?"""

    def lease_s(self, job: JobRecord) -> float:
        """How long a started job is safe, in seconds from its start; inf: it may never be stopped.

        When `rebids` is true the job gives its GPUs up by then and bids anew.
        """

    @property
    def rebids(self) -> bool:
        """Whether a job whose lease has ended bids anew, though nobody may want its GPUs."""

    def first_to_go(self, running: Sequence[JobRecord], at_s: float) -> Sequence[JobRecord]:
        """Return those that may be stopped now, the first to go first.

        Args:
            running: jobs whose lease has ended, in the order they were first seen.
            at_s: engine time.
        """

    def displaces(self, job: JobRecord, victim: JobRecord, at_s: float) -> bool:
        """Whether a waiting job may have the GPUs of a running one."""

    def review_s(self, at_s: float) -> float:
        """When to look again though nothing happens; inf: never."""


@runtime_checkable
class JudgingPreemption(PreemptPolicy, Protocol):
    """A policy that judges whole plans, and may keep count of what it lets be stopped."""

    def approve(self, job: JobRecord, victims: Sequence[JobRecord], at_s: float) -> bool:
        """Whether all of these may be stopped for a job; if so, they are asked to at once."""


@runtime_checkable
class MovingPreemption(PreemptPolicy, Protocol):
    """A policy that also has running jobs moved closer together, for nobody else's sake."""

    def movers(self, running: Sequence[JobRecord], at_s: float) -> Sequence[JobRecord]:
        """Return those worth a restart for a closer tier, or fewer nodes of it; the first first.

        Asked when something has got more room and all who wait were offered it. The engine looks
        for the place, and stops no job that it finds none for.

        Args:
            running: jobs whose lease has ended, in the order they were first seen.
            at_s: engine time.
        """


@runtime_checkable
class JudgingMoves(MovingPreemption, Protocol):
    """A policy that judges each move, and may keep count of what it lets be moved."""

    def approve_move(self, job: JobRecord, tier: int, at_s: float) -> bool:
        """Whether a job may be stopped for a place of this tier; if so, it is asked to at once."""


# -- the defaults ------------------------------------------------------------------------------


class PriorityOrder:
    """Slurm's own order: higher priority first, then the earlier submission, then the lower id."""

    def rank(self, jobs: Sequence[JobRecord], at_s: float) -> Sequence[JobId]:
        """See OrderPolicy."""
        return ranked_by_key(self, jobs, at_s)

    def key(self, job: JobRecord, at_s: float) -> SortKey:
        """See KeyedOrder."""
        return submission_key(job.spec)


class OpenGate:
    """Takes every offer at once: no delay scheduling."""

    is_always_open: Literal[True] = True

    def decide(self, offer: Offer) -> GateVerdict:
        """See GatePolicy."""
        return Allow()

    def note(self, outcome: WaitEnded) -> None:
        """See GatePolicy."""


class NoPreemption:
    """A job that started runs until it ends."""

    rebids = False

    def lease_s(self, job: JobRecord) -> float:
        """See PreemptPolicy."""
        return inf

    def first_to_go(self, running: Sequence[JobRecord], at_s: float) -> Sequence[JobRecord]:
        """See PreemptPolicy."""
        return ()

    def displaces(self, job: JobRecord, victim: JobRecord, at_s: float) -> bool:
        """See PreemptPolicy."""
        return False

    def review_s(self, at_s: float) -> float:
        """See PreemptPolicy."""
        return inf


def submission_key(job: JobSpec | None) -> SortKey:
    """Slurm's order as a key; also what settles ties of other orders."""
    assert job is not None
    number, _, task = job.job_id.partition("_")
    # Length first: digits then sort as numbers do.
    return -job.priority, job.submit_s, len(number), number, len(task), task


def ranked_by_key(order: KeyedOrder, jobs: Sequence[JobRecord], at_s: float) -> list[JobId]:
    """What `rank` is for an order that has keys."""
    keyed = sorted((order.key(job, at_s), job.job_id) for job in jobs)
    return [job_id for _, job_id in keyed]
