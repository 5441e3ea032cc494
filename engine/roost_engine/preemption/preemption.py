"""Preemption of running jobs for waiting jobs, by plans that wait until their GPUs are free.

A plan names the GPUs for a waiting job and the victims that hold them. The victims are asked to
stop. As each one leaves, its GPUs are held for the waiting job, so that no other job gets them;
when the last victim has left, the waiting job is placed.
"""

from collections.abc import Callable, Sequence
from functools import partial
from math import inf
from typing import NamedTuple

from roost_engine.cluster.node_sets import NO_NODES, NodeSet
from roost_engine.cluster.tiers import closest_tier
from roost_engine.domain.actions import Action, Place
from roost_engine.domain.events import Event, JobStarted, SpeedSeen, Tick
from roost_engine.domain.lazy import Lazy
from roost_engine.domain.model import JobId, JobSpec, Placement
from roost_engine.domain.tier import Tier
from roost_engine.job_record import JobRecord, JobState, shares_of
from roost_engine.placement.candidates import Candidates
from roost_engine.placement.tightest_shapes import narrowed
from roost_engine.policies.preemption_slot import PreemptionSlot
from roost_engine.policies.protocols import (
    CandidatePolicy,
    Defer,
    GateVerdict,
    ShapedCandidates,
)
from roost_engine.policies.slots import GateSlot
from roost_engine.policies.stoppable_jobs import StoppableJobs
from roost_engine.preemption.displacement import (
    FoundCapacity,
    Propose,
    closest_only,
    find_capacity,
    foreseen_gang,
    holders,
    least_victim_count,
    vacated,
)
from roost_engine.preemption.migration import Migration
from roost_engine.scoring.scorer import Scorer
from roost_engine.table.job_table import MAX_BACKOFF_S, JobTable
from roost_engine.table.wait_reports import report_wait

AskGate = Callable[[JobRecord, Candidates, float], GateVerdict]


class _Search(NamedTuple):
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
    def done(cls, job: JobSpec, victims: Sequence[JobId], found: FoundCapacity | None) -> "_Search":
        """Return a search that has ended."""
        examined_count = len(victims) if found is None else found.examined_count
        return cls(job, victims, examined_count, Lazy.of(found))

    def is_of(self, job: JobSpec, victims: Sequence[JobId]) -> bool:
        """Return whether a search for a job among these victims would take the same steps."""
        count = self.examined_count
        is_as_long = count < len(self.victims) or len(victims) == len(self.victims)
        return job is self.job and is_as_long and victims[:count] == self.victims[:count]


class _Marks(NamedTuple):
    """What starts may change of all that decides which jobs are to be stopped.

    Attributes:
        at_s: engine time.
        stoppable: the running jobs that may be stopped.
        waiting_count: jobs that wait.
        departure_count: see JobQueue.
        change_count: see Cluster.
        gate_count: see CountingGate.
    """

    at_s: float
    stoppable: StoppableJobs
    waiting_count: int
    departure_count: int
    change_count: int
    gate_count: int | None


class Preemption:
    """Plans which jobs to stop, as the preemption policy says, and carries the plans out."""

    def __init__(
        self,
        table: JobTable,
        policy: PreemptionSlot,
        candidates: CandidatePolicy,
        scorer: Scorer,
        ask_gate: AskGate,
        gate: GateSlot,
    ) -> None:
        self._table, self._policy, self._candidates = table, policy, candidates
        self._scorer, self._ask_gate, self._gate = scorer, ask_gate, gate
        self._shaped = candidates if isinstance(candidates, ShapedCandidates) else None
        self._migration = Migration(table, policy, candidates, scorer) if policy.migrates else None
        # The waiting jobs that did not fit even if these victims stopped, and the number of times
        # that nodes had gained capacity when that was found (Cluster.freed_count).
        # By job, and whether it was the closest tier that the job did not get.
        self._last_failures: dict[tuple[JobId, bool], tuple[JobRecord, frozenset[JobId]]] = {}
        self._failures_freed_count = 0
        # By job, as above: what was found on the cluster as it was at this number of changes.
        self._searches: dict[tuple[JobId, bool], _Search] = {}
        self._searches_change_count = 0
        self._settled: _Marks | None = None  # when no job was to be stopped; None: one was

    def grant_lease(self, job_id: JobId, record: JobRecord, at_s: float) -> None:
        """Set the time from which a job that has just started may be asked to stop."""
        if not record.spec.binding:
            return
        record.safe_until_s = at_s + self._policy.lease_s(record)
        if record.safe_until_s < inf:
            self._track_running(job_id, record)

    def _track_running(self, job_id: JobId, record: JobRecord) -> None:
        self._table.running.add(record)
        if self._policy.renews_leases:
            self._table.alarm(record.safe_until_s, job_id)

    def consider(self, reserved: NodeSet, at_s: float, actions: list[Action]) -> None:
        """Ask running jobs to stop: at the end of a lease, for a waiting job, or to migrate.

        Args:
            reserved: nodes that are reserved for a waiting job; no job migrates to them.
            at_s: engine time.
            actions: the requests to stop jobs are added to it.
        """
        stopping_count = len(self._table.stopping)
        if self._policy.renews_leases or self.is_wanted:
            self._stop_for_others(at_s, actions)
        if self._migration is not None and self._migration.is_due:
            stoppable = self._table.running.stoppable(at_s)
            self._migration.consider(stoppable, reserved, at_s, actions)
        is_settled = self._policy.ranks_by_runs and len(self._table.stopping) == stopping_count
        self._settled = self._marks(at_s) if is_settled else None

    def is_settled(self, event: Event) -> bool:
        """Return whether no job is to be stopped now, as at the last event of the same time.

        Args:
            event: applied since; no job was tried, and no action followed yet.
        """
        settled, at_s = self._settled, event.at_s
        if settled is None or settled.at_s != at_s:
            return False
        if isinstance(event, SpeedSeen):
            return True
        if settled.gate_count is None or not isinstance(event, JobStarted | Tick):
            return False
        migrates = self._migration is not None and self._migration.is_due
        return not migrates and settled == self._marks(at_s)

    def _marks(self, at_s: float) -> _Marks:
        table = self._table
        return _Marks(
            at_s,
            table.running.stoppable(at_s),
            len(table.waiting),
            table.queue.departure_count,
            table.cluster.change_count,
            self._gate.change_count,
        )

    @property
    def is_wanted(self) -> bool:
        """Return whether some waiting job might displace running ones."""
        queue = self._table.queue
        return queue.has_blocked() or (self._policy.serves_deferred and queue.has_deferred())

    def _stop_for_others(self, at_s: float, actions: list[Action]) -> None:
        policy, stoppable = self._policy, self._table.running.stoppable(at_s)
        if not stoppable:
            return
        ranked = policy.first_to_go(stoppable, at_s)
        if policy.renews_leases:
            for record in ranked:
                self._table.ask_to_stop(record, "its lease ended", None, at_s, actions)
            return
        for job_id in self._table.queue.blocked():
            record = self._table.jobs[job_id]
            victims = policy.displaced(record, ranked, at_s)
            if victims:
                self._displace(job_id, record, victims, at_s, actions)
        for job_id in self._table.queue.deferred() if policy.serves_deferred else ():
            record = self._table.jobs[job_id]
            victims = policy.displaced(record, ranked, at_s)
            if victims:
                self._displace(job_id, record, victims, at_s, actions, is_deferred=True)

    def _displace(
        self,
        job_id: JobId,
        record: JobRecord,
        victims: Sequence[JobRecord],
        at_s: float,
        actions: list[Action],
        is_deferred: bool = False,
    ) -> None:
        """Plan a waiting job's placement on GPUs of victims, and ask those victims to stop.

        A job that declined an offer gets only the closest tier that it could have.
        """
        job, cluster = record.spec, self._table.cluster
        if self._table.stopping:  # since they were ranked, some may have been told to
            victims = [victim for victim in victims if victim.state is JobState.RUNNING]
        if not job.binding or not victims:
            return
        ids = [victim.spec.job_id for victim in victims]
        if self._has_failed_with(ids, record, is_deferred):
            return
        search = self._search(job, ids, is_deferred, at_s)
        foreseen = search.foreseen
        if foreseen is not None and self._waits(record, foreseen, at_s, actions):
            return
        found = search.found.get()
        if found is None:
            self._last_failures[job_id, is_deferred] = record, frozenset(ids)
        if found is None or not found.victim_count:
            return
        candidates, count, _ = found
        if foreseen is None and self._waits(record, candidates, at_s, actions):
            return
        with cluster.without(ids[:count]):
            placement, decision = self._scorer.choose(candidates, at_s, job)
        leaving = holders(cluster, ids[:count], shares_of(placement))
        if not leaving:
            return  # the placement is free, on nodes that are reserved for another job
        if not self._is_approved(record, leaving, at_s):
            return
        record.decision = decision
        self._begin_clearing(job_id, record, placement, leaving, at_s)
        for victim in victims:
            if victim.job_id in record.awaited:
                self._table.ask_to_stop(victim, f"makes room for {job_id}", job_id, at_s, actions)

    def _waits(
        self, record: JobRecord, candidates: Candidates, at_s: float, actions: list[Action]
    ) -> bool:
        """Return whether the gate lets a job wait for a closer tier than that of candidates."""
        verdict = self._ask_gate(record, candidates, at_s)
        if not isinstance(verdict, Defer):
            return False
        if record.until_s != verdict.until_s:
            self._table.alarm(verdict.until_s, record.job_id)
        report_wait(record, verdict.reason, verdict.until_s, actions)
        return True

    def _search(
        self, job: JobSpec, ids: Sequence[JobId], is_deferred: bool, at_s: float
    ) -> _Search:
        """See find_capacity; a deferred job only wants the closest tier, in its tightest shape."""
        cluster = self._table.cluster
        if self._shaped is None and not self._could_suffice(job, ids):
            return _Search.done(job, ids, None)
        asked = narrowed(cluster, job) if is_deferred else job
        propose: Propose = partial(self._candidates.propose, cluster, asked, NO_NODES, at_s)
        in_a_rack = False
        if is_deferred:
            closest = closest_tier(cluster, job)
            propose, in_a_rack = (
                partial(closest_only, propose, cluster, closest),
                closest == Tier.RACK,
            )
        if self._shaped is None:
            return _Search.done(job, ids, find_capacity(cluster, ids, propose))
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
            search = _Search.done(job, ids, find())
            if search.found.get() is None:
                return search  # remembered among the failures
        else:
            search = _Search(job, ids, least_count, Lazy(find), foreseen)
        self._searches[job.job_id, is_deferred] = search
        return search

    def _is_approved(self, record: JobRecord, leaving: Sequence[JobId], at_s: float) -> bool:
        return self._policy.approve(record, [self._table.jobs[one] for one in leaving], at_s)

    def _has_failed_with(self, ids: Sequence[JobId], record: JobRecord, is_deferred: bool) -> bool:
        """Return whether a job did not fit although these victims, and perhaps more, stopped.

        A failure counts until a node gains capacity.
        """
        if self._failures_freed_count != self._table.cluster.freed_count:
            self._failures_freed_count = self._table.cluster.freed_count
            self._last_failures.clear()
        failure = self._last_failures.get((record.job_id, is_deferred))
        return failure is not None and failure[0] is record and failure[1].issuperset(ids)

    def _could_suffice(self, job: JobSpec, victims: Sequence[JobId]) -> bool:
        """Return whether free and victims' GPUs suffice by number: a cheap first check."""
        cluster, wanted = self._table.cluster, min(shape.gpu_count for shape in job.shapes)
        held = sum(len(share.gpu_indices) for one in victims for share in cluster.shares(one))
        return held + cluster.free_count() >= wanted

    def _begin_clearing(
        self,
        job_id: JobId,
        record: JobRecord,
        placement: Placement,
        leaving: Sequence[JobId],
        at_s: float,
    ) -> None:
        self._table.unqueue(job_id)
        self._table.clearing[job_id] = None
        record.placement, record.state, record.until_s = placement, JobState.CLEARING, None
        have = "has" if len(leaving) == 1 else "have"
        record.reason = f"waits until {', '.join(leaving)} {have} stopped"
        record.awaited = dict.fromkeys(leaving)
        record.start_deadline_s = at_s + self._table.config.stop_timeout_s
        self._table.alarm(record.start_deadline_s, job_id)
        self._hold_vacated(job_id, record, placement)

    def _hold_vacated(self, job_id: JobId, record: JobRecord, placement: Placement) -> None:
        cluster = self._table.cluster
        free_now = vacated(cluster, job_id, shares_of(placement), record.awaited)
        cluster.hold(job_id, free_now)

    def requeue(self, job_id: JobId, at_s: float, actions: list[Action]) -> None:
        """Let a running job that was stopped wait again."""
        record = self._table.jobs.get(job_id)
        stoppable = (JobState.RUNNING, JobState.STOPPING)
        if record is not None and record.state in stoppable:
            self._table.queue_job(record.spec, at_s, actions)

    def keep_running(self, job_id: JobId, at_s: float) -> None:
        """Withdraw the request to stop a job: it keeps running."""
        record = self._table.jobs.get(job_id)
        if record is None or record.state is not JobState.STOPPING:
            return
        del self._table.stopping[job_id]
        record.state, record.reason, record.safe_until_s = JobState.RUNNING, "", inf
        if self._policy.lease_s(record) < inf:  # else it was asked to part from a bad neighbour
            record.safe_until_s = at_s + MAX_BACKOFF_S
            self._track_running(job_id, record)

    @property
    def has_migrations(self) -> bool:
        """Whether a migration waits for the job to stop."""
        return self._migration is not None and bool(self._migration)

    def advance(self, at_s: float, actions: list[Action]) -> None:
        """Place the jobs whose planned GPUs are free; drop the plans that cannot be carried out."""
        if self._migration is not None:
            self._migration.advance(at_s, actions)
        cluster = self._table.cluster
        for job_id in tuple(self._table.clearing):
            record = self._table.jobs[job_id]
            assert record.placement is not None
            assert record.decision is not None
            states = {victim: self._state(victim) for victim in record.awaited}
            record.awaited = {v: None for v, s in states.items() if s is JobState.STOPPING}
            if JobState.RUNNING in states.values() or at_s >= record.start_deadline_s:
                self._drop_plan(job_id, record, at_s, actions)
                continue
            self._hold_vacated(job_id, record, record.placement)
            if record.awaited:
                continue
            cluster.release(job_id)
            if not cluster.has_free(shares_of(record.placement)):
                self._drop_plan(job_id, record, at_s, actions)
                continue
            del self._table.clearing[job_id]
            self._table.begin_placing(job_id, record, record.placement, at_s)
            actions.append(
                Place(job_id=job_id, placement=record.placement, decision=record.decision)
            )

    def _state(self, job_id: JobId) -> JobState:
        record = self._table.jobs.get(job_id)
        return JobState.ENDED if record is None else record.state

    def _drop_plan(
        self, job_id: JobId, record: JobRecord, at_s: float, actions: list[Action]
    ) -> None:
        """Let the job of a failed plan wait on; the victims that still run keep running."""
        self._table.unqueue(job_id)
        self._table.cluster.release(job_id)
        for victim in record.awaited:
            self.keep_running(victim, at_s)
        record.awaited, record.placement, record.state = {}, None, JobState.WAITING
        record.not_before_s = at_s + self._table.config.refusal_backoff_s
        self._table.waiting[job_id] = None
        self._table.alarm(record.not_before_s, job_id)
        dropped = "pauses: what should have made room for it did not stop"
        report_wait(record, dropped, record.not_before_s, actions)
