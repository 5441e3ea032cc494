"""The job table: the state of every job, and what follows when it changes.

The engine and its preemption decide; the table keeps allocations, queue and alarms consistent, so
that a job is in one state only.
"""

from collections import OrderedDict
from collections.abc import Iterable, Iterator
from heapq import heappush, merge
from math import inf

from roost_engine.cluster.cluster import Cluster
from roost_engine.domain.actions import Action, Preempt, ReleaseToSlurm
from roost_engine.domain.config import EngineConfig
from roost_engine.domain.events import JobEnded, JobStarted, JobWithdrawn, WaitSoFar
from roost_engine.domain.model import JobId, JobSpec, Placement
from roost_engine.domain.promise import Guess
from roost_engine.job_record import WAITS, JobRecord, JobState, KnownJob, ObservedJob, shares_of
from roost_engine.policies.slots import GateSlot, OrderSlot, PredictorSlot
from roost_engine.prediction.run_time.foreseen_ends import EndsConfig, ForeseenEnds
from roost_engine.queue.job_queue import JobQueue
from roost_engine.queue.quotas import Quotas
from roost_engine.table.outcomes import Outcomes
from roost_engine.table.running_jobs import RunningJobs
from roost_engine.table.wait_reports import report_wait

MAX_BACKOFF_S = 300.0

# Constants, where they are read for each job: CPython 3.11 looks up a member of an enum by a call.
_WAITING, _PLACING, _RUNNING, _ENDED = (
    JobState.WAITING,
    JobState.PLACING,
    JobState.RUNNING,
    JobState.ENDED,
)


class JobTable:
    """Every job, in exactly one state.

    Attributes:
        jobs: the jobs under Roost that have not ended, in the order they were first seen.
        observed: all other jobs that hold resources, likewise.
        waiting, clearing, placing: the jobs in that state.
        running: the jobs that a preemption policy may ask to stop.
        stopping: the running jobs that a preemption policy asked to stop.
        ended: the jobs that ended last.
        quotas: what Slurm's limits leave.
        observed_start_s: engine time of the last observed start of a job that is not under Roost.
        alarms: heap of (engine time, job): when to examine a job again.
    """

    def __init__(
        self,
        config: EngineConfig,
        order: OrderSlot,
        gate: GateSlot,
        predictors: PredictorSlot | None = None,
        ends: EndsConfig | None = None,
    ) -> None:
        self.config = config
        self.cluster = Cluster()
        self.jobs: dict[JobId, JobRecord] = {}
        self.queue = JobQueue(order, first_job_matters=config.standing_pins, known=self.jobs)
        self.quotas = Quotas()
        self.refused_count = 0
        self.observed_start_s = -inf
        self.observed: dict[JobId, ObservedJob] = {}
        self.waiting: dict[JobId, None] = {}
        self.clearing: dict[JobId, None] = {}
        self.placing: dict[JobId, None] = {}
        self.running = RunningJobs()
        self.stopping: dict[JobId, None] = {}
        self.ended: OrderedDict[JobId, KnownJob] = OrderedDict()  # the oldest is forgotten first
        self.alarms: list[tuple[float, JobId]] = []
        self._run_ends = ForeseenEnds(ends, predictors)
        self._outcomes = Outcomes(gate, predictors, self.jobs, self.cluster)

    def find(self, job_id: JobId) -> KnownJob | None:
        """Return what is known of a job, under Roost or not; None: see Engine.known."""
        return self.jobs.get(job_id) or self.observed.get(job_id) or self.ended.get(job_id)

    def spec_of(self, job_id: JobId) -> JobSpec | None:
        """Return the request of a job; None: it is not under Roost, or it has ended."""
        found = self.jobs.get(job_id)
        return None if found is None else found.spec

    def queue_job(
        self, job: JobSpec, at_s: float, actions: list[Action], wait: WaitSoFar | None = None
    ) -> None:
        """Let a job wait, in the queue if it may be offered GPUs now: see admit()."""
        record = self.admit(job, at_s, actions, wait)
        if record is not None:
            self.queue.add(record, at_s)

    def admit(
        self, job: JobSpec, at_s: float, actions: list[Action], wait: WaitSoFar | None = None
    ) -> JobRecord | None:
        """Let a job wait: a new one, one that ran and was requeued, or one of an earlier engine.

        Args:
            job: the request.
            at_s: engine time.
            actions: receives what follows.
            wait: of a job that has waited since before this engine began.

        Returns:
            Its record, which the caller queues; None: it may not be offered GPUs yet.
        """
        job_id = job.job_id
        known = self.jobs.get(job_id) or self.observed.pop(job_id, None)
        record = JobRecord(job, _WAITING, max(at_s, job.eligible_s))
        if known is not None:
            self._release(job_id, at_s)
            self.queue.note_gone(job_id)
            self.unqueue(job_id)
            if isinstance(known, JobRecord) and known.state in WAITS:
                record.queued_s = max(known.queued_s, job.eligible_s)
                record.declined_s, record.was_deferred = known.declined_s, known.was_deferred
            record.remember_runs(known, at_s)
        elif wait is not None:
            record.continue_wait(wait, at_s)
        if self._outcomes.counts_held:
            self._outcomes.note_wait(record, at_s)
        self.jobs[job_id] = record
        self.ended.pop(job_id, None)
        self.waiting[job_id] = None
        if job.fixed_indices or wait is not None:
            self.limit_fixed(record, at_s)
        if record.not_before_s > at_s:
            self.alarm(record.not_before_s, job_id)
        if job.eligible_s > at_s:
            self.alarm(job.eligible_s, job_id)
            report_wait(record, "has a later begin time", job.eligible_s, actions)
        elif wait is not None and record.not_before_s > at_s:
            report_wait(record, wait.pause_reason, record.not_before_s, actions)
        else:
            return record
        return None

    def change(self, job: JobSpec, at_s: float, actions: list[Action]) -> None:
        """Apply a change of a waiting job: another request, an aged priority, or fixed indices."""
        known = self.jobs.get(job.job_id)
        if known is None or not known.spec.asks_the_same(job):
            self.queue_job(job, at_s, actions)
            return
        known.spec = job
        self.limit_fixed(known, at_s)
        if job.job_id in self.queue:
            self.queue.add(known, at_s)

    def limit_fixed(self, record: JobRecord, at_s: float) -> None:
        """Limit the time that a waiting job waits for the only GPU indices that it can have."""
        job = record.spec
        if not job.fixed_indices or job.fixed_seat or record.standing is not None:
            record.hand_over_at_s = None
        elif job.binding and record.state is JobState.WAITING:
            if record.hand_over_at_s is None:
                since_s = max(at_s, job.eligible_s, record.not_before_s)
                record.hand_over_at_s = since_s + self.config.hand_over_s
            self.alarm(record.hand_over_at_s, job.job_id)

    def is_overdue(self, job_id: JobId, at_s: float) -> bool:
        """Return whether a job has waited too long for the only GPU indices that it can have."""
        hand_over_at_s = self.jobs[job_id].hand_over_at_s
        return hand_over_at_s is not None and hand_over_at_s <= at_s

    def hand_over(self, job_id: JobId, at_s: float, actions: list[Action]) -> None:
        """Release an overdue job to Slurm."""
        record = self.jobs[job_id]
        reason = f"no node has had GPUs {record.indices_in_words} free in time"
        self.release_to_slurm(job_id, record, reason, at_s, actions)

    def offer_later(self, job_id: JobId, at_s: float) -> None:
        """Queue a waiting job for the next pass, if it may be offered GPUs by now."""
        record = self.jobs[job_id]
        if self.is_ready(record, at_s):
            self.queue.add(record, at_s)

    def is_ready(self, record: JobRecord, at_s: float) -> bool:
        """Return whether a waiting job may be offered GPUs now."""
        is_decided = record.placement is not None and not record.spec.binding
        return not is_decided and at_s >= max(record.spec.eligible_s, record.not_before_s)

    def unqueue(self, job_id: JobId) -> None:
        """Take a job out of whatever state it is in."""
        if job_id in self.waiting:
            del self.waiting[job_id]
            self.queue.remove(job_id)  # only jobs that wait are queued
        elif job_id in self.placing:
            del self.placing[job_id]
        elif job_id in self.running:
            self.running.discard(job_id)
        else:
            self.stopping.pop(job_id, None)
            self.clearing.pop(job_id, None)
        if self.quotas.counts_jobs and self.quotas.release(job_id):
            self.queue.lift_limits(self.quotas)

    def withdraw(self, event: JobWithdrawn) -> None:
        """Stop placing a job that is no longer under Roost."""
        job_id, record = event.job_id, self.jobs.get(event.job_id)
        if record is not None:
            self.queue.note_gone(job_id)
            self.unqueue(job_id)
            self._outcomes.note_unplaced(record, event.at_s)
            record.state, record.reason, record.until_s = JobState.RELEASED, event.reason, None
            record.standing = None
        elif (other := self.observed.get(job_id)) is not None:
            other.state, other.reason = JobState.RELEASED, event.reason
        else:
            return
        self._release(job_id, event.at_s)

    def start(self, event: JobStarted) -> JobRecord | None:
        """Apply what Slurm allocated. Returns the record when a run begins, not when it resumes."""
        job_id, record = event.job_id, self.jobs.get(event.job_id)
        since_s = event.at_s if event.since_s is None else event.since_s
        if record is None:
            self.ended.pop(job_id, None)
            if event.job is None or job_id in self.observed:
                self._observe(event, since_s)
                return None
            queued_s = since_s if event.queued_s is None else event.queued_s
            record = JobRecord(spec=event.job, state=JobState.RUNNING, queued_s=queued_s)
            record.continue_runs(event.runs)
            self.jobs[job_id] = record
        if job_id in self.running or job_id in self.stopping:
            self.cluster.hold(job_id, event.shares)
            record.shares = event.shares
            return None
        self.unqueue(job_id)
        self._outcomes.note_start(record, event)
        self.cluster.hold(job_id, event.shares)
        if self._outcomes.counts_held:
            self._outcomes.note_held(job_id, event.shares, event.at_s)
        record.state, record.shares = _RUNNING, event.shares
        record.reason, record.until_s, record.standing = "", None, None
        record.earlier_pins = ()
        record.preempt_class, record.spared_until_s = event.preempt_class, event.spared_until_s
        if record.started_s is not None:
            return None
        record.started_s = since_s
        limit_s = record.spec.time_limit_s
        limit_end_s = event.end_s if limit_s is None else since_s + limit_s
        self._run_ends.begin(record, limit_end_s, event.at_s)
        return record

    def ends(self, at_s: float) -> Iterable[tuple[float, JobId]]:
        """Return when jobs that hold resources will have ended, in order of time.

        That is by their time limits, unless a prediction stands in: see `foreseen_ends`.
        """
        self._run_ends.renew(at_s)
        starting = [
            (at_s + left_s, job_id)
            for job_id in (*self.placing, *self.clearing)
            if (left_s := _longest_s(self.jobs[job_id])) is not None
        ]
        return merge(self._run_ends, sorted(starting)) if starting else self._run_ends

    def outlived(self) -> Iterator[tuple[JobId, Guess]]:
        """Yield the running jobs that have run for longer than was expected."""
        for record in self._run_ends.guessed():
            if record.guess is not None and record.guess.is_outlived:
                yield record.job_id, record.guess

    def _release(self, job_id: JobId, at_s: float) -> None:
        self.cluster.release(job_id)
        self._run_ends.remove(job_id)
        if self._outcomes.counts_held:
            self._outcomes.note_held(job_id, (), at_s)

    def _observe(self, event: JobStarted, since_s: float) -> None:
        """Record the allocation of a job that is not under Roost."""
        job_id = event.job_id
        job = self.observed.get(job_id)
        if job is None:
            self.observed_start_s = event.at_s
            job = self.observed[job_id] = ObservedJob(job_id=job_id, started_s=since_s)
        self.cluster.hold(job_id, event.shares)
        if self._outcomes.counts_held:
            self._outcomes.note_held(job_id, event.shares, event.at_s)
        job.state, job.shares, job.reason = JobState.RUNNING, event.shares, ""
        job.preempt_class, job.spared_until_s = event.preempt_class, event.spared_until_s
        if event.end_s is None:
            self._run_ends.remove(job_id)
        else:
            self._run_ends.add(job_id, event.end_s)

    def end(self, event: JobEnded) -> None:
        """Free what a job held, and keep its record with the ended jobs."""
        job_id = event.job_id
        self._release(job_id, event.at_s)
        self.queue.note_gone(job_id)
        self.unqueue(job_id)
        record = self.jobs.pop(job_id, None)
        ended: KnownJob | None = record
        if record is not None:
            if self._outcomes.counts_waits:
                self._outcomes.note_unplaced(record, event.at_s)
            record.standing = None
        else:
            ended = self.observed.pop(job_id, None)
        if ended is not None:
            ended.state, ended.ended_s, ended.reason = _ENDED, event.at_s, ""
            if record is not None and self._outcomes.counts_held:
                self._outcomes.note_run(record, event.at_s)
            if self.config.ended_job_count:
                self.ended[job_id] = ended
            if len(self.ended) > self.config.ended_job_count:
                self.ended.popitem(last=False)

    def begin_placing(
        self, job_id: JobId, record: JobRecord, placement: Placement, at_s: float
    ) -> None:
        """Hold the GPUs of a placement until Slurm has started the job there."""
        self.placing[job_id] = None
        shares, spec = shares_of(placement), record.spec
        self.cluster.hold(job_id, shares)
        if spec.quotas or spec.node_quotas:
            self.quotas.hold(spec, shares)
        record.state, record.reason, record.until_s = _PLACING, "", None
        record.hand_over_at_s = None  # after a refusal its time begins again
        record.start_deadline_s = at_s + self.config.start_timeout_s
        self.alarm(record.start_deadline_s, job_id)

    def ask_to_stop(
        self,
        record: JobRecord,
        reason: str,
        for_job: JobId | None,
        at_s: float,
        actions: list[Action],
    ) -> None:
        """Ask for the stop of a running job. A job that has not stopped in time keeps running."""
        job_id = record.job_id
        self.running.discard(job_id)
        self.stopping[job_id] = None
        record.state, record.reason = JobState.STOPPING, reason
        record.safe_until_s = at_s + self.config.stop_timeout_s
        self.alarm(record.safe_until_s, job_id)
        actions.append(Preempt(job_id=job_id, reason=reason, for_job=for_job))

    def release_to_slurm(
        self, job_id: JobId, record: JobRecord, reason: str, at_s: float, actions: list[Action]
    ) -> None:
        """Release a job to Slurm, which then places it by itself."""
        self.unqueue(job_id)
        self._outcomes.note_unplaced(record, at_s)
        record.state, record.reason, record.until_s = JobState.RELEASED, reason, None
        record.standing = None
        actions.append(ReleaseToSlurm(job_id=job_id, reason=reason))

    def alarm(self, at_s: float, job_id: JobId) -> None:
        """Examine a job again at this time."""
        heappush(self.alarms, (at_s, job_id))

    def is_awaited(self, alarm_s: float, job_id: JobId) -> bool:
        """Return whether the state of its job still makes an alarm matter."""
        if job_id in self.placing or job_id in self.waiting or job_id in self.clearing:
            return True
        may_stop = job_id in self.running or job_id in self.stopping
        return may_stop and self.jobs[job_id].safe_until_s == alarm_s


def _longest_s(record: JobRecord) -> float | None:
    """Return for how long a job that starts now holds its GPUs; None: that is unknown."""
    return record.spec.time_limit_s if record.guess is None else record.guess.left_s
