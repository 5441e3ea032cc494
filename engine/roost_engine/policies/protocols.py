"""The plug-ins of a pass over the queue: one Protocol for each decision.

Orders and scores are pure: the same arguments give the same answer. A gate may learn only from what
the engine reports to it, and candidates may remember only what they were asked, so that a replay of
the events gives them the same state. Learned policies live behind adapters and raise PolicyError
when they cannot answer. Whatever a policy raises, `slots` counts it and asks the heuristic beside
the policy.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from typing import Literal, Protocol, TypeAlias, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from roost_engine.cluster.cluster import Cluster
from roost_engine.cluster.node_sets import NodeSet
from roost_engine.domain.model import JobId, JobSpec, Shape
from roost_engine.domain.tier import Tier
from roost_engine.domain.value import value
from roost_engine.job_record import JobRecord
from roost_engine.placement.candidates import Candidates, Listing
from roost_engine.placement.eligibility import Hint

# -- order -------------------------------------------------------------------------------------

SortKey: TypeAlias = tuple[int | float | str, ...]


@value(kw_only=True)
class QueueView:
    """What an order sees.

    Attributes:
        jobs: the queued jobs, in the order they were queued.
        cluster: as it is now; read-only.
        at_s: engine time.
        known: the jobs under Roost that have not ended, by id: also those that run.
    """

    jobs: Sequence[JobRecord]
    cluster: Cluster
    at_s: float
    known: Mapping[JobId, JobRecord] = field(default_factory=dict)


@value()
class QueueMark:
    """How far queue and cluster have changed; two marks tell what happened in between.

    Attributes:
        arrival_count: how often a job was queued, queued again or changed.
        departure_count: how often a queued job left the queue.
        freed_count: how often nodes were found to have more capacity.
        at_s: engine time.
    """

    arrival_count: int
    departure_count: int
    freed_count: int
    at_s: float


class OrderPolicy(Protocol):
    """Which job is offered GPUs next?"""

    def rank(self, view: QueueView) -> Sequence[JobId]:
        """Return the id of every job in the view once, first served first."""


@runtime_checkable
class KeyedOrder(OrderPolicy, Protocol):
    """An order in which a waiting job's place depends on that job alone and stays as it waits."""

    def key(self, job: JobRecord, at_s: float) -> SortKey:
        """Return what to sort by, ascending. For a waiting job it is the same at any time."""


@runtime_checkable
class RekeyedOrder(KeyedOrder, Protocol):
    """A keyed order whose keys all change at some moments, seldom."""

    @property
    def generation(self) -> int:
        """Another number when the keys of waiting jobs have to be made again."""

    def key_again(self, job: JobRecord, at_s: float) -> SortKey:
        """Return the present key of a job for which `key` was asked when it was queued."""


@runtime_checkable
class BoundedOrder(OrderPolicy, Protocol):
    """An order without ageing, in which a job goes first once it has waited for very long."""

    @property
    def longest_wait_s(self) -> float:
        """From this wait on; inf: never."""


@runtime_checkable
class NotedOrder(OrderPolicy, Protocol):
    """An order without keys that is shown each job when it is queued, long before it may rank."""

    def note(self, job: JobRecord, at_s: float) -> None:
        """Note what is expected of a job that was queued, queued again or changed."""


@runtime_checkable
class RefreshedOrder(OrderPolicy, Protocol):
    """An order that says when to ask it again; others are asked whenever a job is queued."""

    def is_outdated(self, ranked: QueueMark, now: QueueMark) -> bool:
        """Return whether queue or cluster have changed enough since the last ranking."""


# -- gate --------------------------------------------------------------------------------------


@value()
class Allow:
    """The job may take the offer."""


@value()
class Defer:
    """The job should wait for something better until a deadline (engine time)."""

    until_s: float
    reason: str


GateVerdict: TypeAlias = Allow | Defer


@value(kw_only=True)
class Offer:
    """GPUs that a job could have now.

    Attributes:
        job: what is known of the job.
        waited_s: length of its present wait so far.
        shape: of the candidates.
        tier: of the closest candidate.
        cluster: as it is now; read-only.
        waiting_count: jobs that wait for GPUs, this one included.
        lost_frac: returns the share of its speed that neighbours are predicted to cost the job at
            the place that the score prefers; 0 where nothing predicts it.
    """

    job: JobRecord
    waited_s: float
    shape: Shape
    tier: Tier
    cluster: Cluster
    at_s: float
    waiting_count: int = 1
    lost_frac: Callable[[], float] = lambda: 0.0


@value(kw_only=True)
class WaitEnded:
    """How a wait came out.

    Attributes:
        job: what is known of the job.
        waited_s: seconds since it could first have been placed.
        tier: of its placement; None when it left the queue without one: its wait is censored.
    """

    job: JobRecord
    waited_s: float
    tier: Tier | None
    at_s: float


@value(kw_only=True)
class RunEnded:
    """How a run came out.

    Attributes:
        job: what is known of the job, the shares it held last included.
        cluster: as it is now; read-only. Its loads still are those of the run.
    """

    job: JobRecord
    cluster: Cluster
    at_s: float


class GatePolicy(Protocol):
    """Now, or wait for a better place? Until when?"""

    def decide(self, offer: Offer) -> GateVerdict:
        """Judge an offer. A Defer ends later than now."""

    def note(self, outcome: WaitEnded) -> None:
        """Learn how a wait came out. Called once for every wait, also if Slurm placed the job."""


@runtime_checkable
class AlwaysOpen(GatePolicy, Protocol):
    """A gate that takes every offer and learns nothing: the engine does not ask it."""

    is_always_open: Literal[True]


@value(kw_only=True)
class TimerView:
    """What operators see of one timer class.

    Attributes:
        name: "8/high": GPUs and sensitivity.
        node_timer_s: how long at most a job waits for one node.
        rack_timer_s: how long at most it waits before it goes across racks.
        sample_count: waits that ended, those of length 0 included.
        waited_count: of these, how many were waits for something better than was offered.
        censored_frac: share of the latter that ended without it; None: there was none.
        tuned_s: engine time of the newest wait that moved the timers; None: none has.
        pinned_s: what an operator set both timers to; None: no operator has.
        dally_node_timer_s, dally_rack_timer_s: Dally's timers for the same waits, with leases of
            an hour.
    """

    name: str
    node_timer_s: float
    rack_timer_s: float
    sample_count: int
    waited_count: int
    censored_frac: float | None
    tuned_s: float | None
    pinned_s: float | None
    dally_node_timer_s: float
    dally_rack_timer_s: float


class TunableTimers(Protocol):
    """The timers of a gate that has some: operators read them and set them by hand."""

    def views(self, at_s: float) -> Sequence[TimerView]:
        """Return every class that some job belonged to, or that is pinned."""

    def pinned_s(self, timer: str) -> float | None:
        """Return what a timer is pinned to; None where it is not pinned."""

    def pin(self, timer: str, pinned_s: float | None) -> None:
        """Set a timer by hand, or with None release it; an unknown name is ignored."""


# -- candidates --------------------------------------------------------------------------------


class CandidatePolicy(Protocol):
    """Which placements are worth scoring?"""

    def propose(self, cluster: Cluster, job: JobSpec, reserved: NodeSet, at_s: float) -> Candidates:
        """List the placements that Slurm could start now; empty when there are none.

        Args:
            cluster: the nodes.
            job: its shapes, partition, features and node lists count.
            reserved: nodes reserved for a job that is served before this one.
            at_s: engine time.
        """

    def hints(self, cluster: Cluster, job: JobSpec, nodes: NodeSet) -> Sequence[Hint]:
        """Return in which shapes a job without capacity may have some, now that nodes were freed.

        May err towards too many. Shapes to which these nodes make no difference are left out.
        """


@runtime_checkable
class ShapedCandidates(CandidatePolicy, Protocol):
    """Candidates that have a shape: on each node as many free GPUs as the shape says.

    Before it is asked in a search for victims, free GPUs are counted, which costs less. What it
    proposes depends on cluster and job, not on the time.
    """

    def proposed_shapes(self, cluster: Cluster, job: JobSpec) -> tuple[Shape, ...]:
        """Return the shapes that are proposed to a job."""


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
    """A score policy that scores each candidate by itself.

    The same features then score the same, to the last bit, whatever else is in the batch, so equal
    candidates are scored once. A model that a library of kernels runs does not promise that.
    """

    is_rowwise: Literal[True]


@value(kw_only=True, eq=False)
class ScoreQuestion:
    """Everything that a score policy may read of one decision.

    Attributes:
        candidates: what is scored.
        listing: the candidates one by one.
        features: float32 [candidate, feature], see ScorePolicy.score.
        job: the waiting job; None: the caller does not know it.
        cluster: as it is now; read-only.
        spec_of: what the engine knows of another job; None: it is not under Roost.
    """

    candidates: Candidates
    listing: Listing
    features: NDArray[np.float32]
    job: JobSpec | None
    cluster: Cluster
    spec_of: Callable[[JobId], JobSpec | None]


@runtime_checkable
class ClusterScore(ScorePolicy, Protocol):
    """A score policy that also reads the job, and the cluster around the candidates."""

    def score_within(self, question: ScoreQuestion) -> NDArray[np.float32]:
        """Return one score a candidate, as `score` does; asked in its place."""
