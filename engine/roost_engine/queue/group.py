"""A group: the queued jobs of one demand, which have capacity or not together."""

from bisect import bisect_left
from heapq import heappop
from math import inf
from typing import NamedTuple, Protocol

from roost_engine.cluster.cluster import Cluster
from roost_engine.cluster.node_sets import EVERY_NODE, NodeSet
from roost_engine.domain.model import JobId, JobSpec, NodeName, QuotaUse, Shape
from roost_engine.placement.candidates import Candidates
from roost_engine.placement.eligibility import Hint
from roost_engine.policies.protocols import CandidatePolicy, SortKey


class Demand(NamedTuple):
    """What decides whether a job fits and may stand in line: if one job fails, so do the others."""

    partition: str
    shapes: tuple[Shape, ...]
    features: tuple[str, ...]
    required_nodes: tuple[NodeName, ...]
    excluded_nodes: tuple[NodeName, ...]
    priority_tier: int
    quotas: tuple[QuotaUse, ...]
    node_quotas: tuple[str, ...]
    preempts: tuple[str, ...]
    fixed_indices: tuple[int, ...]
    starts_elsewhere: bool = False
    agent: int = 0


def demand_of(job: JobSpec, agent: int = 0) -> Demand:
    """Return the demand of a job, with the agent that it belongs to."""
    return Demand._make(demand_key(job, agent))


def demand_key(job: JobSpec, agent: int = 0) -> tuple[object, ...]:
    """Return a tuple that equals the demand of a job, for looking it up in a third of the time."""
    return (
        job.partition,
        job.shapes,
        job.features,
        job.required_nodes,
        job.excluded_nodes,
        job.priority_tier,
        job.quotas,
        job.node_quotas,
        job.preempts,
        job.fixed_indices,
        job.starts_elsewhere,
        agent,
    )


class QueueOwners(Protocol):
    """The agents that share one queue: each has the groups of its own jobs."""

    def note_waiting(self, job: JobSpec) -> int:
        """Note that a job is queued; returns the number of its agent."""

    def note_left(self, job_id: JobId) -> None:
        """Note that a job has left the queue."""


class Group:
    """The queued jobs of one demand.

    Attributes:
        number: groups are numbered in the order in which they were made.
        sample: one of the jobs, the first that came.
        job_ids: the jobs that may be offered GPUs, in order, each behind its sort key.
        since_s: engine time from which each job could have been placed; the deferred too.
        ages: the same as a heap of (engine time, job); entries of jobs that left stay in.
        deferred: jobs that declined an offer and wait for a better one.
        last_failure: the last try, if it found no capacity.
        gpu_count: the fewest GPUs of any of its shapes; 0 until a try has found no capacity.
        hints: by shape, when it is worth trying again. Empty: there is no capacity, whichever
            nodes are reserved.
        wider_since_s: engine time from which a shape has had capacity that is wider than those that
            its jobs wait for; inf: none has.
        wider_alarm: when one of its jobs may take that shape, and which: the alarm set last.
        node_limit: the limit of Slurm's on single nodes without which the last try would have found
            capacity; "" for none.
        limit: the quota of Slurm's that has too little left for one more job; "" for none.
        limit_since_s: engine time from which that has been so for one of the jobs at least.
    """

    __slots__ = (
        "ages",
        "deferred",
        "demand",
        "gpu_count",
        "hints",
        "job_ids",
        "last_failure",
        "limit",
        "limit_since_s",
        "node_limit",
        "number",
        "sample",
        "since_s",
        "wider_alarm",
        "wider_since_s",
    )

    def __init__(self, number: int, demand: Demand, sample: JobSpec) -> None:
        # Where few jobs wait, nearly every job makes a group: a dataclass takes twice as long.
        self.number, self.demand, self.sample = number, demand, sample
        self.job_ids: list[tuple[SortKey, JobId]] = []
        self.since_s: dict[JobId, float] = {}
        self.ages: list[tuple[float, JobId]] = []
        self.deferred: dict[JobId, None] = {}
        self.last_failure: Candidates | None = None
        self.gpu_count = 0
        self.hints: dict[Shape, Hint] = {}
        self.node_limit = self.limit = ""
        self.limit_since_s = self.wider_since_s = inf
        self.wider_alarm: tuple[float, JobId] | None = None

    def is_blocked(self, reserved: NodeSet) -> bool:
        """Return whether a try would find no capacity outside these nodes."""
        if self.last_failure is None:
            return False
        for hint in self.hints.values():
            if (hint.nodes & ~reserved).bit_count() >= hint.wanted:
                return False
        return True

    def note_failure(self, failure: Candidates, node_limit: str = "") -> None:
        """Store a try that found no capacity."""
        self.last_failure, self.node_limit = failure, node_limit
        self.hints = {hint.shape: hint for hint in failure.hints}
        if not self.gpu_count:
            self.gpu_count = min(shape.gpu_count for shape in self.sample.shapes)

    def refresh_hints(self, cluster: Cluster, candidates: CandidatePolicy) -> None:
        """Compute the hints again, after jobs were placed: cheaper than a try."""
        self.hints = {
            hint.shape: hint
            for hint in candidates.hints(cluster, self.sample, EVERY_NODE)
            if not hint.is_void(cluster)
        }

    def restore_failure(
        self, failure: Candidates, cluster: Cluster, candidates: CandidatePolicy
    ) -> None:
        """Restore the failure that a successful try has cleared, unless the next job might fit."""
        self.refresh_hints(cluster, candidates)
        if self.hints:
            self.forget()
        else:
            self.last_failure = failure

    def forget(self) -> None:
        """Let the next pass try again."""
        self.last_failure, self.node_limit = None, ""
        self.hints.clear()

    def loses_alarm(self, job_id: JobId) -> bool:
        """Return whether the alarm for a wider shape was that of this job; then forget the failure.

        Args:
            job_id: a job that goes away, and with it its alarm; another job of the group gets one.
        """
        if self.wider_since_s == inf or self.wider_alarm is None or self.wider_alarm[1] != job_id:
            return False
        self.forget()
        return True

    def head(self) -> tuple[SortKey, JobId] | None:
        """Return the entry of the first job in order, if any may be offered GPUs."""
        return self.job_ids[0] if self.job_ids else None

    def place_of(self, entry: tuple[SortKey, JobId]) -> int:
        """Return the position of an entry in job_ids."""
        return bisect_left(self.job_ids, entry)

    def has_since(self, limit_s: float) -> bool:
        """Return whether some job may have waited since then; True also for a job that has left.

        Quicker than first_since().
        """
        return bool(self.ages) and self.ages[0][0] <= limit_s

    def first_since(self, limit_s: float) -> tuple[SortKey, JobId] | None:
        """Return the entry of the first job in order that has waited since then, if any."""
        while self.ages and self.since_s.get(self.ages[0][1]) != self.ages[0][0]:
            heappop(self.ages)
        if not self.ages or self.ages[0][0] > limit_s:
            return None
        return next((entry for entry in self.job_ids if self.since_s[entry[1]] <= limit_s), None)

    def check_invariants(self) -> None:
        """Raise AssertionError where its jobs are out of order, or in two places."""
        assert self.job_ids == sorted(self.job_ids), "a group is out of order"
        inside = {job_id for _, job_id in self.job_ids}
        assert inside | set(self.deferred) == set(self.since_s)
        assert not inside & set(self.deferred)
