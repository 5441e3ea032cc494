"""Preemption of running jobs for waiting jobs, by plans that wait until their GPUs are free.

A plan names the GPUs for a waiting job and the victims that hold them. The victims are asked to
stop. As each one leaves, its GPUs are held for the waiting job, so that no other job gets them;
when the last victim has left, the waiting job is placed.
"""

from collections.abc import Callable, Sequence
from math import inf
from typing import NamedTuple

from roost_engine.cluster.node_sets import NodeSet
from roost_engine.domain.actions import Action, Decision, Place
from roost_engine.domain.lazy import Lazy
from roost_engine.domain.model import JobId, JobSpec, Placement
from roost_engine.job_record import JobRecord, JobState, shares_of
from roost_engine.placement.candidates import Candidates
from roost_engine.policies.preemption_slot import PreemptionSlot
from roost_engine.policies.protocols import CandidatePolicy, Defer, GateVerdict
from roost_engine.preemption.displacement import holders, vacated
from roost_engine.preemption.migration import Migration
from roost_engine.preemption.victim_search import VictimSearch
from roost_engine.scoring.scorer import Scorer
from roost_engine.table.job_table import MAX_BACKOFF_S, JobTable
from roost_engine.table.wait_reports import report_wait

AskGate = Callable[[JobRecord, Candidates, float], GateVerdict]


class _Plan(NamedTuple):
    """A placement for a waiting job, and the jobs that have to stop first."""

    placement: Placement
    decision: Lazy[Decision]
    leaving: tuple[JobId, ...]


class Preemption:
    """Plans which jobs to stop, as the preemption policy says, and carries the plans out.

    Args:
        table: every job.
        policy: which jobs may be stopped, and for which waiting job.
        candidates: the rule that proposes placements.
        scorer: chooses among them.
        ask_gate: asks the gate about candidates for a job, at an engine time.
    """

    def __init__(
        self,
        table: JobTable,
        policy: PreemptionSlot,
        candidates: CandidatePolicy,
        scorer: Scorer,
        ask_gate: AskGate,
    ) -> None:
        self._table, self._policy, self._scorer = table, policy, scorer
        self._ask_gate = ask_gate
        self._search = VictimSearch(table.cluster, candidates, scorer)
        self._migration = Migration(table, policy, candidates, scorer) if policy.migrates else None
        self._settled_s = inf  # when nothing was to be done; inf: something was

    def grant_lease(self, job_id: JobId, record: JobRecord, at_s: float) -> None:
        """Set from when a job may be asked to stop that started, or ran before the engine began."""
        if not record.spec.binding or self._was_overdue(record):
            return
        record.safe_until_s = at_s + self._policy.lease_s(record)
        if record.safe_until_s < inf:
            self._track_running(job_id, record)

    def _was_overdue(self, record: JobRecord) -> bool:
        """Return whether a job was overdue when it started; such a job runs to its end."""
        started_s = record.started_s  # not now: after a restart of roostd that is long ago
        return started_s is not None and self._table.queue.overdue.would_have(record, started_s)

    def _track_running(self, job_id: JobId, record: JobRecord) -> None:
        self._table.running.add(record)
        if self._policy.renews_leases:
            self._table.alarm(record.safe_until_s, job_id)

    def consider(
        self, reserved: NodeSet, overdue_id: JobId | None, at_s: float, actions: list[Action]
    ) -> None:
        """Ask running jobs to stop: at the end of a lease, for a waiting job, or to migrate.

        Args:
            reserved: nodes that are reserved for a waiting job; no job migrates to them.
            overdue_id: while this overdue job waits, none is stopped for others; None: there is
                none.
            at_s: engine time.
            actions: the requests to stop jobs are added to it.
        """
        stopping_count = len(self._table.stopping)
        if self._policy.renews_leases or self.is_wanted:
            self._stop_for_others(overdue_id, at_s, actions)
        if self._migration is not None and self._migration.is_due:
            stoppable = self._table.running.stoppable(at_s)
            self._migration.consider(stoppable, reserved, at_s, actions)
        self._settled_s = at_s if len(self._table.stopping) == stopping_count else inf

    def is_settled(self, at_s: float) -> bool:
        """Return whether no job was to be stopped at this time, whatever speeds are reported."""
        return self._settled_s == at_s and self._policy.ranks_by_runs

    @property
    def is_wanted(self) -> bool:
        """Return whether some waiting job might displace running ones."""
        queue = self._table.queue
        return queue.has_blocked() or (self._policy.serves_deferred and queue.has_deferred())

    def _stop_for_others(
        self, overdue_id: JobId | None, at_s: float, actions: list[Action]
    ) -> None:
        policy, stoppable = self._policy, self._table.running.stoppable(at_s)
        if not stoppable:
            return
        ranked = policy.first_to_go(stoppable, at_s)
        if policy.renews_leases:
            for record in ranked:
                self._table.ask_to_stop(record, "its lease ended", None, at_s, actions)
            return
        queue = self._table.queue
        alone_id = overdue_id if overdue_id is not None and overdue_id in queue else None
        for job_id in queue.blocked():
            if alone_id is not None and job_id != alone_id:
                continue  # it would take GPUs that become free for the overdue job
            record = self._table.jobs[job_id]
            victims = policy.displaced(record, ranked, at_s)
            if victims:
                self._displace(job_id, record, victims, at_s, actions)
        serves_deferred = policy.serves_deferred and alone_id is None
        for job_id in queue.deferred() if serves_deferred else ():
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
        if self._table.stopping:  # some may have been asked to stop since they were ranked
            victims = [victim for victim in victims if victim.state is JobState.RUNNING]
        if not job.binding or not victims:
            return
        ids = [victim.spec.job_id for victim in victims]
        if self._search.has_failed_with(ids, record, is_deferred):
            return
        search = self._search.run(job, ids, is_deferred, at_s)
        foreseen = search.foreseen
        if foreseen is not None and self._waits(record, foreseen, at_s, actions):
            return
        found = search.found.get()
        if found is None:
            self._search.note_failure(ids, record, is_deferred)
        if found is None or not found.victim_count:
            return
        candidates, count, _ = found
        if foreseen is None and self._waits(record, candidates, at_s, actions):
            return
        plan = self._plan(job, candidates, ids[:count], at_s)
        if not plan.leaving:
            return  # the placement is free, on nodes that are reserved for another job
        if not self._is_approved(record, plan.leaving, at_s):
            return
        if cluster.foreign.is_among(shares_of(plan.placement)):
            plan = self._without_foreign_memory(record, plan, ids, is_deferred, at_s) or plan
        record.decision = plan.decision
        self._begin_clearing(job_id, record, plan.placement, plan.leaving, at_s)
        for victim in victims:
            if victim.job_id in record.awaited:
                self._table.ask_to_stop(victim, f"makes room for {job_id}", job_id, at_s, actions)

    def _plan(
        self, job: JobSpec, candidates: Candidates, ids: Sequence[JobId], at_s: float
    ) -> _Plan:
        """Return the best of the candidates that a job has once these jobs have stopped."""
        cluster = self._table.cluster
        with cluster.without(ids):
            placement, decision = self._scorer.choose(candidates, at_s, job)
        shares = shares_of(placement)
        why = "no other place needed as few stops"
        decision = cluster.foreign.named_in(decision, shares, why)
        return _Plan(placement, decision, holders(cluster, ids, shares))

    def _without_foreign_memory(
        self,
        record: JobRecord,
        plan: _Plan,
        ids: Sequence[JobId],
        is_deferred: bool,
        at_s: float,
    ) -> _Plan | None:
        """Return a plan on GPUs without foreign memory, no farther apart and with as few stops."""
        job = record.spec
        found = self._search.run_avoiding_foreign(job, ids, is_deferred, at_s)
        if found is None:
            return None
        other = self._plan(job, found.candidates, ids[: found.victim_count], at_s)
        is_as_close = other.placement.tier <= plan.placement.tier
        if not is_as_close or not 0 < len(other.leaving) <= len(plan.leaving):
            return None
        return other if self._is_approved(record, other.leaving, at_s) else None

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

    def _is_approved(self, record: JobRecord, leaving: Sequence[JobId], at_s: float) -> bool:
        return self._policy.approve(record, [self._table.jobs[one] for one in leaving], at_s)

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
        record.awaited = tuple(leaving)
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
        # Else sharing.separation asked it to stop.
        if self._policy.lease_s(record) < inf and not self._was_overdue(record):
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
            record.awaited = tuple([v for v, s in states.items() if s is JobState.STOPPING])
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
        record.awaited, record.placement, record.state = (), None, JobState.WAITING
        record.not_before_s = at_s + self._table.config.refusal_backoff_s
        self._table.waiting[job_id] = None
        self._table.alarm(record.not_before_s, job_id)
        dropped = "pauses: what should have made room for it did not stop"
        report_wait(record, dropped, record.not_before_s, actions)
