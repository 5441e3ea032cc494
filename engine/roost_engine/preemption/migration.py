"""Migration of running jobs to a closer tier, or to fewer nodes of the same tier.

A job that migrates is asked to stop like any other victim. From then on its new GPUs are held for
it beside its present ones; when the job is back in the queue, it is placed on the new GPUs at once.
Page: docs/design/0006-preemption.md.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from roost_engine.cluster.cluster import Cluster
from roost_engine.cluster.node_sets import EVERY_NODE, NO_NODES, NodeSet
from roost_engine.cluster.tiers import closest_tier, tier_of
from roost_engine.domain.actions import Action, Decision, Place
from roost_engine.domain.lazy import Lazy
from roost_engine.domain.model import JobId, NodeShare, Placement
from roost_engine.domain.tier import Tier
from roost_engine.job_record import JobRecord, JobState, shares_of
from roost_engine.policies.preemption_slot import PreemptionSlot
from roost_engine.policies.protocols import CandidatePolicy
from roost_engine.scoring.scorer import Scorer
from roost_engine.table.job_table import JobTable


class _Failure(NamedTuple):
    """A search that found no better place for a running job.

    Attributes:
        shares: where it ran then.
        sizes: of the shapes in which it would be no more scattered, the GPUs on each node.
        nodes: on which it ran; every node where one of them is unknown.
        closest_at: Cluster.spec_count, if it was as close together as it could ever be; else None.
    """

    shares: tuple[NodeShare, ...]
    sizes: frozenset[int]
    nodes: NodeSet
    closest_at: int | None = None

    @classmethod
    def of(cls, cluster: Cluster, record: JobRecord) -> "_Failure":
        """Describe a search for a job that runs where it ran then."""
        shares = record.shares
        if _is_closest(cluster, record):
            return cls(shares, frozenset(), NO_NODES, cluster.spec_count)
        shapes = [shape for shape in record.spec.shapes if shape.node_count <= len(shares)]
        if not shapes:
            return cls(shares, frozenset(), NO_NODES)
        nodes = cluster.nodes_named(share.node for share in shares)
        are_known = all(share.node in cluster.index_of for share in shares)
        sizes = frozenset(shape.gpus_per_node for shape in shapes)
        return cls(shares, sizes, nodes if are_known else EVERY_NODE)

    def could_use(self, cluster: Cluster, gained: NodeSet) -> bool:
        """Return whether nodes that gained capacity could be part of a better place.

        It may be wrong only where it returns True. The job's own nodes count too: there it would
        have more than what is free.
        """
        if self.closest_at is not None:
            return self.closest_at != cluster.spec_count
        if self.nodes & gained:
            return True
        at_least = cluster.gpu_free.at_least
        return any(at_least[size] & gained for size in self.sizes)


@dataclass(frozen=True, slots=True)
class _Plan:
    """The new placement of a job that was asked to stop in order to migrate."""

    placement: Placement
    decision: Lazy[Decision]


class Migration:
    """Finds closer GPUs for the jobs that a preemption policy wants migrated, and migrates them."""

    def __init__(
        self,
        table: JobTable,
        policy: PreemptionSlot,
        candidates: CandidatePolicy,
        scorer: Scorer,
    ) -> None:
        self._table, self._policy = table, policy
        self._candidates, self._scorer = candidates, scorer
        self._plans: dict[JobId, _Plan] = {}
        self._last_failures: dict[JobId, _Failure] = {}

    def __bool__(self) -> bool:
        return bool(self._plans)

    @property
    def is_due(self) -> bool:
        """Return whether nodes have gained capacity that was offered to every waiting job."""
        return self._table.cluster.has_gained_nodes and not self._table.queue.is_postponed

    def consider(
        self, stoppable: Sequence[JobRecord], reserved: NodeSet, at_s: float, actions: list[Action]
    ) -> None:
        """Migrate the jobs that the policy wants migrated and for which there is a better place.

        Args:
            stoppable: running jobs whose lease has ended.
            reserved: nodes that are reserved for a waiting job.
            at_s: engine time.
            actions: the requests to stop jobs are added to it.
        """
        cluster = self._table.cluster
        gained = cluster.take_gained_nodes()
        failures, self._last_failures = self._last_failures, {}
        for record in self._policy.movers(stoppable, at_s) if stoppable else ():
            if record.state is not JobState.RUNNING:
                continue
            job_id = record.job_id
            failure = failures.get(job_id)
            if failure is not None and failure.shares == record.shares:
                if not failure.could_use(cluster, gained):
                    self._last_failures[job_id] = failure
                    continue
            else:
                failure = None
            if not self._begin(record, reserved, at_s, actions):
                if failure is None or failure.closest_at is not None:
                    failure = _Failure.of(cluster, record)
                self._last_failures[job_id] = failure

    def advance(self, at_s: float, actions: list[Action]) -> None:
        """Place the stopped jobs as planned; drop the plans that cannot be carried out."""
        table = self._table
        for job_id, plan in tuple(self._plans.items()):
            record = table.jobs.get(job_id)
            shares = shares_of(plan.placement)
            if record is not None and record.state is JobState.STOPPING:
                table.cluster.hold(job_id, _union(record.shares, shares))
                continue
            del self._plans[job_id]
            if record is None:
                continue  # the job has ended
            if record.state is JobState.RUNNING:
                table.cluster.hold(job_id, record.shares)
            elif self._is_still_valid(plan, record, at_s) and table.cluster.has_free(shares):
                table.unqueue(job_id)
                record.placement, record.decision = plan.placement, plan.decision
                table.begin_placing(job_id, record, plan.placement, at_s)
                actions.append(
                    Place(job_id=job_id, placement=plan.placement, decision=plan.decision)
                )

    def _is_still_valid(self, plan: _Plan, record: JobRecord, at_s: float) -> bool:
        """Return whether a job that has stopped waits and can still have the planned GPUs."""
        job, placement = record.spec, plan.placement
        if record.state is not JobState.WAITING or placement.shape not in job.shapes:
            return False
        can_have_them = job.fixed_indices in ((), placement.gpu_indices)
        return job.binding and can_have_them and self._table.is_ready(record, at_s)

    def _begin(
        self, record: JobRecord, reserved: NodeSet, at_s: float, actions: list[Action]
    ) -> bool:
        """Ask a job to stop if it has a better place, with its own allocation ignored.

        Returns:
            Whether there is a better place, even if the policy does not approve the migration now.
        """
        job, cluster = record.spec, self._table.cluster
        present = _spread(cluster, record.shares)
        if present is None or _is_closest(cluster, record):
            return False
        # A job that runs gains nothing on a GPU whose memory processes of no job use.
        with cluster.without([job.job_id]), cluster.foreign.withheld():
            candidates = self._candidates.propose(cluster, job, reserved, at_s)
            if not len(candidates) or (candidates.tier, candidates.shape.node_count) >= present:
                return False
            placement, decision = self._scorer.choose(candidates, at_s, job)
        found = _spread(cluster, shares_of(placement))
        if found is None or found >= present:
            return False  # the score policy prefers a candidate that is no closer
        if not self._policy.approve_move(record, found[0], at_s):
            return True
        self._plans[job.job_id] = _Plan(placement, decision)
        reason = f"moves, to be {Tier(found[0]).in_words}"
        if found[0] == present[0]:
            reason = f"moves, to be on {found[1]} nodes instead of {present[1]}"
        self._table.ask_to_stop(record, reason, None, at_s, actions)
        cluster.hold(job.job_id, _union(record.shares, shares_of(placement)))
        return True


def _spread(cluster: Cluster, shares: Sequence[NodeShare]) -> tuple[Tier, int] | None:
    """Return tier and number of nodes, smaller is closer; None: some node is unknown."""
    tier = tier_of(cluster, shares)
    return None if tier is None else (tier, len(shares))


def _is_closest(cluster: Cluster, record: JobRecord) -> bool:
    """Return whether no place could ever be closer than where a job runs, or it is unknown."""
    present, job = _spread(cluster, record.shares), record.spec
    if present is None:
        return True
    return present <= (closest_tier(cluster, job), min(shape.node_count for shape in job.shapes))


def _union(held: Iterable[NodeShare], planned: Iterable[NodeShare]) -> tuple[NodeShare, ...]:
    """Return a job's present and planned shares together; GPUs in both count once.

    Of CPUs and memory on a node in both, the larger amount counts.
    """
    by_node = {share.node: share for share in held}
    for need in planned:
        own = by_node.get(need.node, NodeShare(need.node, ()))
        by_node[need.node] = NodeShare(
            need.node,
            tuple(sorted({*own.gpu_indices, *need.gpu_indices})),
            max(own.cpu_count, need.cpu_count),
            max(own.memory_bytes, need.memory_bytes),
        )
    return tuple(by_node.values())
