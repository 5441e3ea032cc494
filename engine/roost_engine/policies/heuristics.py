"""The heuristic beside every policy: Slurm's order, any shape, an open gate, no preemption."""

from collections.abc import Sequence
from math import inf
from typing import Literal

from roost_engine.cluster.cluster import Cluster
from roost_engine.cluster.node_sets import NodeSet
from roost_engine.domain.model import JobId, JobSpec, Shape
from roost_engine.job_record import JobRecord
from roost_engine.placement.candidates import Candidates
from roost_engine.placement.eligibility import Hint, hints_in
from roost_engine.placement.search import first_candidates, may_have_any_gpus
from roost_engine.policies.protocols import (
    Allow,
    GateVerdict,
    KeyedOrder,
    Offer,
    QueueView,
    SortKey,
    WaitEnded,
)


class ShapeByShape:
    """The candidates of the first of the job's shapes that has any: Roost's own rule.

    Args:
        any_gpus: whether a job may have other GPUs on each of its nodes, see
            placement.search.may_have_any_gpus.
    """

    def __init__(self, any_gpus: bool = False) -> None:
        self.any_gpus = any_gpus

    def proposed_shapes(self, cluster: Cluster, job: JobSpec) -> tuple[Shape, ...]:
        """See ShapedCandidates."""
        return job.shapes

    def propose(self, cluster: Cluster, job: JobSpec, reserved: NodeSet, at_s: float) -> Candidates:
        """See CandidatePolicy."""
        return first_candidates(cluster, job, reserved, self.any_gpus)

    def hints(self, cluster: Cluster, job: JobSpec, nodes: NodeSet) -> Sequence[Hint]:
        """See CandidatePolicy."""
        # What first_hints() returns, with a call less: asked for each kind at each end of a job.
        return hints_in(cluster, job, nodes, not (self.any_gpus and may_have_any_gpus(job)))


class PriorityOrder:
    """Slurm's own order: higher priority first, then the earlier submission, then the lower id."""

    name = "priority"

    def rank(self, view: QueueView) -> Sequence[JobId]:
        """See OrderPolicy."""
        return ranked_by_key(self, view)

    def key(self, job: JobRecord, at_s: float) -> SortKey:
        """See KeyedOrder."""
        return submission_key(job.spec)


class OpenGate:
    """Takes every offer at once: no delay scheduling."""

    name = "open"
    is_always_open: Literal[True] = True

    def decide(self, offer: Offer) -> GateVerdict:
        """See GatePolicy."""
        return Allow()

    def note(self, outcome: WaitEnded) -> None:
        """See GatePolicy."""


class NoPreemption:
    """A job that started runs until it ends."""

    name = "none"
    renews_leases = False

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


def submission_key(job: JobSpec) -> SortKey:
    """Return Slurm's order as a key; it also settles ties of other orders."""
    number, _, task = job.job_id.partition("_")
    # Length first: digits then sort as numbers do.
    return -job.priority, job.submit_s, len(number), number, len(task), task


def ranked_by_key(order: KeyedOrder, view: QueueView) -> list[JobId]:
    """Return what `rank` is for an order that has keys."""
    keyed = sorted((order.key(job, view.at_s), job.job_id) for job in view.jobs)
    return [job_id for _, job_id in keyed]
