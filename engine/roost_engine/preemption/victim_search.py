"""The search for the victims of one waiting job, and what is remembered of searches.

Preemption asks at nearly every event, for the same few jobs. Most of them find nothing, or the gate
lets them wait. So a search is made again only after something that it has read has changed.
"""

from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

from roost_engine.cluster.cluster import Cluster
from roost_engine.cluster.node_sets import NO_NODES
from roost_engine.cluster.tiers import closest_tier
from roost_engine.domain.lazy import Lazy
from roost_engine.domain.model import JobId, JobSpec
from roost_engine.domain.tier import Tier
from roost_engine.job_record import JobRecord
from roost_engine.placement.candidates import Candidates
from roost_engine.placement.tightest_shapes import narrowed
from roost_engine.policies.protocols import CandidatePolicy, ShapedCandidates
from roost_engine.preemption.displacement import (
    FoundCapacity,
    Propose,
    closest_only,
    find_capacity,
    foreseen_gang,
    least_victim_count,
)
from roost_engine.scoring.scorer import Scorer


class Search(NamedTuple):
    """A search of capacity for a waiting job among the GPUs of victims.

    Attributes:
        job: asks for it.
        victims: running jobs that may be stopped, in the order in which they are to be stopped.
        examined_count: no victim after so many of the first matters.
        found: what is found, on the cluster as it is now; see find_capacity.
        foreseen: shape and tier of what will be found; None: see `found`.
    """

    job: JobSpec
    victims: Sequence[JobId]
    examined_count: int
    found: Lazy[FoundCapacity | None]
    foreseen: Candidates | None = None

    @classmethod
    def done(cls, job: JobSpec, victims: Sequence[JobId], found: FoundCapacity | None) -> "Search":
        """Return a search that has ended."""
        examined_count = len(victims) if found is None else found.examined_count
        return cls(job, victims, examined_count, Lazy.of(found))

    def is_of(self, job: JobSpec, victims: Sequence[JobId]) -> bool:
        """Return whether a search for a job among these victims would take the same steps."""
        count = self.examined_count
        is_as_long = count < len(self.victims) or len(victims) == len(self.victims)
        return job is self.job and is_as_long and victims[:count] == self.victims[:count]


class VictimSearch:
    """Searches for capacity on the GPUs of victims, and remembers what was found.

    Args:
        cluster: the nodes and allocations; changed during a search only.
        candidates: the rule that proposes placements.
        scorer: chooses among them.
    """

    def __init__(self, cluster: Cluster, candidates: CandidatePolicy, scorer: Scorer) -> None:
        self._cluster, self._candidates, self._scorer = cluster, candidates, scorer
        self._shaped = candidates if isinstance(candidates, ShapedCandidates) else None
        # The waiting jobs that did not fit even if these victims stopped, and the number of times
        # that nodes had gained capacity when that was found (Cluster.freed_count).
        # By job, and whether it was the closest tier that the job did not get.
        self._last_failures: dict[tuple[JobId, bool], tuple[JobRecord, frozenset[JobId]]] = {}
        self._failures_freed_count = 0
        # By job, as above: what was found on the cluster as it was at this number of changes.
        self._searches: dict[tuple[JobId, bool], Search] = {}
        self._searches_change_count = 0

    def run(self, job: JobSpec, ids: Sequence[JobId], is_deferred: bool, at_s: float) -> Search:
        """See find_capacity; a deferred job only wants the closest tier, in its tightest shape."""
        cluster = self._cluster
        if self._shaped is None and not self._could_suffice(job, ids):
            return Search.done(job, ids, None)
        asked = narrowed(cluster, job) if is_deferred else job
        propose, in_a_rack = self._proposing(job, asked, is_deferred, at_s)
        if self._shaped is None:
            return Search.done(job, ids, find_capacity(cluster, ids, propose))
        if self._searches_change_count != cluster.change_count:
            self._searches_change_count = cluster.change_count
            self._searches.clear()
        earlier = self._searches.get((job.job_id, is_deferred))
        if earlier is not None and earlier.is_of(job, ids):
            return earlier
        shapes = self._shaped.proposed_shapes(cluster, asked)
        least_count = least_victim_count(cluster, asked, shapes, ids, in_a_rack)
        find = partial(find_capacity, cluster, ids, propose, least_count)
        foreseen = None
        if least_count and not is_deferred and not self._scorer.knows_neighbours:
            foreseen = foreseen_gang(cluster, asked, shapes, ids[:least_count])
        if foreseen is None or least_count is None:
            search = Search.done(job, ids, find())
            if search.found.get() is None:
                return search  # remembered among the failures
        else:
            search = Search(job, ids, least_count, Lazy(find), foreseen)
        self._searches[job.job_id, is_deferred] = search
        return search

    def run_avoiding_foreign(
        self, job: JobSpec, ids: Sequence[JobId], is_deferred: bool, at_s: float
    ) -> FoundCapacity | None:
        """Return what run() finds, on GPUs without foreign memory. Asked seldom, so not stored."""
        asked = narrowed(self._cluster, job) if is_deferred else job
        propose, _ = self._proposing(job, asked, is_deferred, at_s)
        return find_capacity(self._cluster, ids, self._cluster.foreign.avoiding(propose))

    def _proposing(
        self, job: JobSpec, asked: JobSpec, is_deferred: bool, at_s: float
    ) -> tuple[Propose, bool]:
        """Return what proposes to a search, and whether all nodes have to be in one rack.

        Args:
            job: the waiting job.
            asked: the job in the shapes that it may have; of a deferred job in the tightest one.
            is_deferred: whether it only wants the closest tier.
            at_s: engine time.
        """
        cluster = self._cluster
        propose: Propose = partial(self._candidates.propose, cluster, asked, NO_NODES, at_s)
        if not is_deferred:
            return propose, False
        closest = closest_tier(cluster, job)
        return partial(closest_only, propose, cluster, closest), closest == Tier.RACK

    def note_failure(self, ids: Sequence[JobId], record: JobRecord, is_deferred: bool) -> None:
        """Note that a job did not fit although these victims stopped."""
        self._failures[record.job_id, is_deferred] = record, frozenset(ids)

    @property
    def _failures(self) -> dict[tuple[JobId, bool], tuple[JobRecord, frozenset[JobId]]]:
        """The failures since a node last gained capacity."""
        if self._failures_freed_count != self._cluster.freed_count:
            self._failures_freed_count = self._cluster.freed_count
            self._last_failures.clear()
        return self._last_failures

    def has_failed_with(self, ids: Sequence[JobId], record: JobRecord, is_deferred: bool) -> bool:
        """Return whether a job did not fit although these victims, and perhaps more, stopped.

        A failure counts until a node gains capacity.
        """
        failure = self._failures.get((record.job_id, is_deferred))
        return failure is not None and failure[0] is record and failure[1].issuperset(ids)

    def _could_suffice(self, job: JobSpec, victims: Sequence[JobId]) -> bool:
        """Return whether free and victims' GPUs suffice by number: a cheap first check."""
        cluster, wanted = self._cluster, min(shape.gpu_count for shape in job.shapes)
        held = sum(len(share.gpu_indices) for one in victims for share in cluster.shares(one))
        return held + cluster.free_count() >= wanted
