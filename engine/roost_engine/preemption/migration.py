"""Running jobs that go to a better place: on one node instead of two, in one rack instead of two.

A job that moves is asked to stop like any other. The GPUs that it shall have are held for it from
then on, beside those that it has; when it comes back into the queue, it is placed there at once.
Page: docs/design/0006-preemption.md.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from roost_engine.cluster.node_sets import NodeSet, node_set
from roost_engine.cluster.tiers import closest_tier, tier_of
from roost_engine.domain.actions import Action, Decision, Place
from roost_engine.domain.lazy import Lazy
from roost_engine.domain.model import JobId, NodeShare, Placement
from roost_engine.domain.tier import Tier
from roost_engine.job_record import JobRecord, JobState, shares_of
from roost_engine.job_table import JobTable
from roost_engine.policies import CandidatePolicy
from roost_engine.scoring.scorer import Scorer
from roost_engine.slots import PreemptionSlot


@dataclass(frozen=True, slots=True)
class _Plan:
    """Where a job goes that was asked to stop for it."""

    placement: Placement
    decision: Lazy[Decision]


class Migration:
    """Asks a preemption policy whom to move, looks for the place, and sees each move through."""

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
        self._in_vain: dict[JobId, tuple[NodeShare, ...]] = {}  # where they ran

    def __bool__(self) -> bool:
        return bool(self._plans)

    @property
    def is_due(self) -> bool:
        """Whether something has got more room, and all who wait were offered it."""
        return self._table.cluster.has_gained_nodes and not self._table.queue.is_postponed

    def consider(
        self, over: Sequence[JobRecord], reserved: NodeSet, at_s: float, actions: list[Action]
    ) -> None:
        """Move those of some running jobs whom the policy wants moved and who find a place.

        Args:
            over: jobs whose lease has ended.
            reserved: nodes kept free for a job that waits.
            at_s: engine time.
            actions: what is asked for is added.
        """
        gained = self._table.cluster.take_gained_nodes()
        before, self._in_vain = self._in_vain, {}
        for record in self._policy.movers(over, at_s) if over else ():
            if record.state is not JobState.RUNNING:
                continue
            is_known = before.get(record.job_id) == record.shares
            if (is_known and not self._could_use(record, gained)) or not self._look(
                record, reserved, at_s, actions
            ):
                self._in_vain[record.job_id] = record.shares

    def _could_use(self, record: JobRecord, gained: NodeSet) -> bool:
        """Whether nodes with more room could be part of a better place; may err towards yes."""
        cluster, shares = self._table.cluster, record.shares
        own = node_set(cluster.row[share.node] for share in shares if share.node in cluster.row)
        for shape in record.spec.shapes:
            rows = cluster.gpu_free.at_least[shape.gpus_per_node] | own
            if shape.node_count <= len(shares) and rows & gained:
                return True
        return False

    def advance(self, at_s: float, actions: list[Action]) -> None:
        """Place those that have stopped; forget the plans of those that will not be moved."""
        table = self._table
        for job_id, plan in tuple(self._plans.items()):
            record = table.jobs.get(job_id)
            shares = shares_of(plan.placement)
            if record is not None and record.state is JobState.STOPPING:
                table.cluster.hold(job_id, _both(record.shares, shares))
                continue
            del self._plans[job_id]
            if record is None:
                continue  # it ended meanwhile
            if record.state is JobState.RUNNING:
                table.cluster.hold(job_id, record.shares)
            elif self._may_go(record, plan, at_s) and table.cluster.has_free(shares):
                table.unqueue(job_id)
                record.placement, record.decision = plan.placement, plan.decision
                table.begin_placing(job_id, record, plan.placement, at_s)
                actions.append(
                    Place(job_id=job_id, placement=plan.placement, decision=plan.decision)
                )

    def _may_go(self, record: JobRecord, plan: _Plan, at_s: float) -> bool:
        """Whether a job that came back waits, and still asks for what was chosen."""
        if record.state is not JobState.WAITING:
            return False
        asks = record.spec.binding and plan.placement.shape in record.spec.shapes
        return asks and self._table.is_ready(record, at_s)

    def _look(
        self, record: JobRecord, reserved: NodeSet, at_s: float, actions: list[Action]
    ) -> bool:
        """Ask a job to stop if, with its own GPUs left out of the books, it has a better place.

        Returns:
            Whether there is one, even if the policy would not have the job moved now.
        """
        job, cluster = record.spec, self._table.cluster
        assert job is not None
        spread = self._spread(record.shares)
        tightest = closest_tier(cluster, job), min(shape.node_count for shape in job.shapes)
        if spread is None or spread <= tightest:
            return False
        with cluster.without([job.job_id]):
            candidates = self._candidates.propose(cluster, job, reserved, at_s)
            if not len(candidates) or (candidates.tier, candidates.shape.node_count) >= spread:
                return False
            placement, decision = self._scorer.choose(candidates, at_s)
        found = self._spread(shares_of(placement))
        if found is None or found >= spread:
            return False  # the score policy likes another candidate better
        if not self._policy.approve_move(record, found[0], at_s):
            return True
        self._plans[job.job_id] = _Plan(placement, decision)
        reason = f"moves, to be {Tier(found[0]).in_words}"
        if found[0] == spread[0]:
            reason = f"moves, to be on {found[1]} nodes instead of {spread[1]}"
        self._table.ask_to_stop(record, reason, None, at_s, actions)
        cluster.hold(job.job_id, _both(record.shares, shares_of(placement)))
        return True

    def _spread(self, shares: Sequence[NodeShare]) -> tuple[Tier, int] | None:
        """Tier and number of nodes: smaller is better. None: on nodes that are not known."""
        tier = tier_of(self._table.cluster, shares)
        return None if tier is None else (tier, len(shares))


def _both(held: Iterable[NodeShare], planned: Iterable[NodeShare]) -> tuple[NodeShare, ...]:
    """What a job has and what it shall have; what is in both counts once."""
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
