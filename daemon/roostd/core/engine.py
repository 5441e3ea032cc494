"""The only place that decides: events in, actions out.

`step` never does I/O, reads no clock and keeps no randomness, so the daemon, the simulator and a
replay of the journal get the same actions from the same events, byte for byte. A pass over the
queue is order, gate, candidates, score, place; page: docs/architecture.md.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from heapq import heappop, heappush
from math import inf
from typing import assert_never

import numpy as np
from numpy.typing import NDArray

from roostd.core.actions import Action, LetGo, Place, Preempt, Wait, WakeAt
from roostd.core.candidates import Candidates
from roostd.core.chooser import Chooser
from roostd.core.cluster import Cluster
from roostd.core.displacement import find_room, holders, vacated
from roostd.core.eligibility import KEPT_FREE, could_ever_fit, rows_to_keep
from roostd.core.errors import UnknownJob
from roostd.core.events import (
    Event,
    GpuHealthChanged,
    JobChanged,
    JobEnded,
    JobQueued,
    JobsStopped,
    JobStarted,
    JobWithdrawn,
    LoadSeen,
    NodeLost,
    NodeSeen,
    PlacementRefused,
    PreemptionRefused,
    SpeedSeen,
    Tick,
    TopologySeen,
)
from roostd.core.features import COLUMN, HeuristicScore
from roostd.core.jobs import JobRecord, JobState, room_wanted, shares_of
from roostd.core.model import JobId, JobSpec, Placement
from roostd.core.policy import (
    CandidatePolicy,
    Defer,
    GatePolicy,
    GateVerdict,
    NoPreemption,
    Offer,
    OpenGate,
    OrderPolicy,
    PreemptPolicy,
    PriorityOrder,
    ScorePolicy,
    ShapeByShape,
    WaitEnded,
)
from roostd.core.queue import Group, JobQueue

_KEEPER_COUNT = 8  # jobs past patience that may keep nodes free at one time
_MAX_BACKOFF_S = 300.0


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineConfig:
    """The numbers of the engine. Page: docs/configuration.md.

    Attributes:
        patience_s: after waiting this long a job keeps nodes free for itself.
        start_timeout_s: a placed job that Slurm has not started by then is decided anew.
        stop_timeout_s: a plan for which Slurm has not stopped the victims by then is dropped.
        refusal_backoff_s: pause after the first refusal; doubles with each one.
        refusal_limit: after so many refusals in a row the job is handed back to plain Slurm.
        window_count: how many jobs of the queue one pass tries; the next one goes on from there.
        ended_job_count: how many ended jobs can still be explained.
    """

    patience_s: float = 600.0
    start_timeout_s: float = 10.0
    stop_timeout_s: float = 60.0
    refusal_backoff_s: float = 2.0
    refusal_limit: int = 6
    window_count: int = 1000
    ended_job_count: int = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Policies:
    """The plug-ins of a pass."""

    order: OrderPolicy = field(default_factory=PriorityOrder)
    gate: GatePolicy = field(default_factory=OpenGate)
    candidates: CandidatePolicy = field(default_factory=ShapeByShape)
    score: ScorePolicy = field(default_factory=HeuristicScore)
    preemption: PreemptPolicy = field(default_factory=NoPreemption)


class Engine:
    """Decides for each waiting job whether it goes now, and where."""

    def __init__(self, config: EngineConfig, policies: Policies) -> None:
        self.config, self.policies = config, policies
        self.cluster = Cluster()
        self.refused_count = 0
        self._jobs: dict[JobId, JobRecord] = {}
        self._waiting: dict[JobId, None] = {}
        self._clearing: dict[JobId, None] = {}
        self._placing: dict[JobId, None] = {}
        self._running: dict[JobId, None] = {}  # those that a policy may ask to stop
        self._ended: dict[JobId, JobRecord] = {}
        self._queue = JobQueue(policies.order)
        self._alarms: list[tuple[float, JobId]] = []
        self._announced_s = inf
        self._chooser = Chooser(policies.score)

    # -- what the edges may read -----------------------------------------------------------

    @property
    def decision_count(self) -> int:
        """How many placements were decided."""
        return self._chooser.decision_count

    @property
    def fallback_count(self) -> int:
        """For how many of them the heuristic answered instead of the score policy."""
        return self._chooser.fallback_count

    def record(self, job_id: JobId) -> JobRecord:
        """What is known of a job.

        Raises:
            UnknownJob: never heard of, or ended too long ago.
        """
        found = self._jobs.get(job_id) or self._ended.get(job_id)
        if found is None:
            raise UnknownJob(job_id)
        return found

    def records(self, include_ended: bool = False) -> Iterator[tuple[JobId, JobRecord]]:
        """Every job that waits, starts or runs, in the order they were first seen."""
        yield from self._jobs.items()
        if include_ended:
            yield from self._ended.items()

    def waiting(self) -> tuple[JobId, ...]:
        """The jobs that wait to be placed."""
        return tuple(self._waiting)

    # -- the one entry ---------------------------------------------------------------------

    def step(self, event: Event) -> tuple[Action, ...]:
        """Take in one event and answer with what must be done about it."""
        actions: list[Action] = []
        self._take_in(event, actions)
        self._ring_alarms(event.at_s, actions)
        if self._clearing:
            self._go_on_clearing(event.at_s, actions)
        if self._queue.begin_pass(self.cluster, self.policies.candidates, event.at_s):
            self._pass(event.at_s, actions)
        if self._running:
            self._preempt(event.at_s, actions)
        self._announce_alarm(event.at_s, actions)
        return tuple(actions)

    def _take_in(self, event: Event, actions: list[Action]) -> None:
        match event:
            case NodeSeen():
                if self.cluster.see_node(event.node):
                    self._queue.recall_all()
            case NodeLost():
                self.cluster.lose_node(event.name)
                self._queue.recall_all()
            case TopologySeen():
                self.cluster.see_topology(event.name, event.links, event.gpu_uuids)
            case LoadSeen():
                self.cluster.see_load(event.name, event.load)
            case GpuHealthChanged():
                self.cluster.set_fault(event.name, event.gpu_index, event.fault)
            case JobQueued():
                self._take_job(event.job, event.at_s, actions)
            case JobChanged():
                self._change(event.job, event.at_s, actions)
            case JobWithdrawn():
                self._withdraw(event)
            case JobStarted():
                self._start(event)
            case JobEnded():
                self._end(event)
            case PlacementRefused():
                self._refuse(event.job_id, event.reason, event.at_s, actions)
            case JobsStopped():
                for job_id in event.job_ids:
                    self._stop(job_id, event.at_s, actions)
            case PreemptionRefused():
                self._keep_running(event.job_id, event.at_s)
            case SpeedSeen():
                if (running := self._jobs.get(event.job_id)) is not None:
                    running.note_speed(event.speed_frac, event.at_s)
            case Tick():
                pass  # every event brings the time
            case _:
                assert_never(event)

    # -- the queue -------------------------------------------------------------------------

    def _take_job(self, job: JobSpec, at_s: float, actions: list[Action]) -> None:
        known = self._jobs.get(job.job_id)
        self.cluster.release(job.job_id)
        self._unqueue(job.job_id)
        since_s = max(at_s, job.eligible_s)
        if known is not None and known.state in (JobState.WAITING, JobState.PLACING):
            since_s = max(known.queued_s, job.eligible_s)
        record = JobRecord(spec=job, state=JobState.WAITING, queued_s=since_s)
        if known is not None:
            record.remember_runs(known, at_s)
        self._jobs[job.job_id] = record
        self._ended.pop(job.job_id, None)
        self._waiting[job.job_id] = None
        if job.eligible_s > at_s:
            self._alarm(job.eligible_s, job.job_id)
            self._wait(job.job_id, record, "has a later begin time", job.eligible_s, actions)
        else:
            self._offer_later(job.job_id, at_s, actions)

    def _change(self, job: JobSpec, at_s: float, actions: list[Action]) -> None:
        known = self._jobs.get(job.job_id)
        if known is None or known.spec is None or not _asks_the_same(known.spec, job):
            self._take_job(job, at_s, actions)
            return
        known.spec = job  # its priority aged
        if job.job_id in self._queue:
            self._queue.add(known, at_s)

    def _offer_later(self, job_id: JobId, at_s: float, actions: list[Action]) -> None:
        """Let the next pass try a waiting job, unless it is known to have no room."""
        record = self._jobs[job_id]
        assert record.spec is not None
        if not self._is_ready(record, at_s):
            return
        nothing = self._queue.add(record, at_s)
        if nothing is not None:
            self._wait_for_room(job_id, record, nothing, actions)

    def _unqueue(self, job_id: JobId) -> None:
        for state in (self._waiting, self._clearing, self._placing, self._running):
            state.pop(job_id, None)
        self._queue.remove(job_id)

    def _withdraw(self, event: JobWithdrawn) -> None:
        record = self._jobs.get(event.job_id)
        if record is None:
            return
        self._unqueue(event.job_id)
        self._note_unplaced(record, event.at_s)
        record.state, record.reason, record.until_s = JobState.LET_GO, event.reason, None
        self.cluster.release(event.job_id)

    def _start(self, event: JobStarted) -> None:
        record = self._jobs.get(event.job_id)
        if record is None:
            self._ended.pop(event.job_id, None)
            record = self._jobs[event.job_id] = JobRecord(
                spec=None, state=JobState.RUNNING, queued_s=event.at_s
            )
        self._unqueue(event.job_id)
        self._note_started(record, event.at_s)
        self.cluster.hold(event.job_id, event.shares)
        record.state, record.shares = JobState.RUNNING, event.shares
        record.reason, record.until_s = "", None
        if record.started_s is None:
            record.started_s = event.at_s
            self._grant_lease(event.job_id, record, event.at_s)

    def _end(self, event: JobEnded) -> None:
        self.cluster.release(event.job_id)
        self._unqueue(event.job_id)
        record = self._jobs.pop(event.job_id, None)
        if record is not None:
            self._note_unplaced(record, event.at_s)
            record.state, record.ended_s, record.reason = JobState.ENDED, event.at_s, ""
            self._ended[event.job_id] = record
            if len(self._ended) > self.config.ended_job_count:
                del self._ended[next(iter(self._ended))]

    def _refuse(self, job_id: JobId, reason: str, at_s: float, actions: list[Action]) -> None:
        record = self._jobs.get(job_id)
        if record is None or record.spec is None or record.state is not JobState.PLACING:
            return
        self.refused_count += 1
        self.cluster.release(job_id)
        del self._placing[job_id]
        record.placement = None
        record.refusal_count += 1
        if record.refusal_count >= self.config.refusal_limit:
            refusals = f"Slurm refused {record.refusal_count} placements, the last: {reason}"
            self._let_go(job_id, record, refusals, at_s, actions)
            return
        pause_s = self.config.refusal_backoff_s * 2 ** (record.refusal_count - 1)
        record.state = JobState.WAITING
        record.not_before_s = at_s + min(pause_s, _MAX_BACKOFF_S)
        self._waiting[job_id] = None
        self._alarm(record.not_before_s, job_id)
        self._wait(
            job_id, record, f"pauses after a refusal: {reason}", record.not_before_s, actions
        )

    # -- a pass ----------------------------------------------------------------------------

    def _pass(self, at_s: float, actions: list[Action]) -> None:
        """Offer GPUs to the queued jobs in order."""
        impatient_s = at_s - self.config.patience_s
        kept = np.zeros(len(self.cluster), dtype=np.bool_)
        keeper_count = try_count = 0
        for group, job_id in self._queue.offers(impatient_s):
            record = self._jobs[job_id]
            if not group.is_blocked(kept):
                if try_count == self.config.window_count:
                    self._queue.postpone()
                    return
                try_count += 1
                self._try(job_id, record, group, at_s, kept, actions)
            if group.nothing is None or record.queued_s > impatient_s:
                continue
            if keeper_count < _KEEPER_COUNT:
                assert record.spec is not None
                kept = kept.copy()  # groups remember what was kept from them
                kept[rows_to_keep(self.cluster, record.spec, record.spec.shapes[0])] = True
                keeper_count += 1

    def _is_ready(self, record: JobRecord, at_s: float) -> bool:
        assert record.spec is not None
        decided = record.placement is not None and not record.spec.binding
        return not decided and at_s >= max(record.spec.eligible_s, record.not_before_s)

    def _try(
        self,
        job_id: JobId,
        record: JobRecord,
        group: Group,
        at_s: float,
        kept: NDArray[np.bool_],
        actions: list[Action],
    ) -> None:
        """Place, defer or let go of one job, or find that its group has no room."""
        job = record.spec
        assert job is not None
        group.nothing = group.kept = None
        candidates = self.policies.candidates.propose(self.cluster, job, kept)
        if len(candidates):
            self._offer(job_id, record, job, candidates, at_s, actions)
            return
        if not len(self.cluster) or could_ever_fit(self.cluster, job):
            kept_some = KEPT_FREE in dict(candidates.exclusions)
            group.nothing, group.kept = candidates, kept if kept_some else None
            self._wait_for_room(job_id, record, candidates, actions)
            return
        why = ", ".join(f"{count} {reason}" for reason, count in candidates.exclusions)
        never = f"no placement could ever hold it in partition {job.partition}"
        self._let_go(job_id, record, f"{never}: {why or 'no nodes'}", at_s, actions)

    def _offer(
        self,
        job_id: JobId,
        record: JobRecord,
        job: JobSpec,
        candidates: Candidates,
        at_s: float,
        actions: list[Action],
    ) -> None:
        verdict = self._ask_gate(record, candidates, at_s)
        if isinstance(verdict, Defer):
            self._alarm(verdict.until_s, job_id)
            self._queue.defer(job_id)
            self._wait(job_id, record, verdict.reason, verdict.until_s, actions)
            return
        decision = self._chooser.decide(self.cluster, candidates, at_s)
        placement = decision.candidates[0]
        record.decision, record.placement = decision, placement
        record.exclusions = candidates.exclusions
        self._queue.remove(job_id)
        if job.binding:
            self._unqueue(job_id)
            self._begin_placing(job_id, record, placement, at_s)
        actions.append(Place(job_id=job_id, placement=placement, decision=decision))

    def _begin_placing(
        self, job_id: JobId, record: JobRecord, placement: Placement, at_s: float
    ) -> None:
        self._placing[job_id] = None
        self.cluster.hold(job_id, shares_of(placement))
        record.state, record.reason, record.until_s = JobState.PLACING, "", None
        record.start_deadline_s = at_s + self.config.start_timeout_s
        self._alarm(record.start_deadline_s, job_id)

    def _ask_gate(self, record: JobRecord, candidates: Candidates, at_s: float) -> GateVerdict:
        offer = Offer(
            job=record,
            waited_s=at_s - record.queued_s,
            shape=candidates.shape,
            tier=candidates.tier,
            cluster=self.cluster,
            at_s=at_s,
        )
        return self.policies.gate.decide(offer)

    def _note_started(self, record: JobRecord, at_s: float) -> None:
        """Tell the gate how a wait came out."""
        if record.state is JobState.PLACING:
            assert record.decision is not None
            tier = int(record.decision.features[0, COLUMN["tier_frac"]] * 2)
            self._note_wait(record, tier, at_s)
        else:
            self._note_unplaced(record, at_s)

    def _note_unplaced(self, record: JobRecord, at_s: float) -> None:
        if record.state in (JobState.WAITING, JobState.CLEARING) and record.spec is not None:
            self._note_wait(record, None, at_s)

    def _note_wait(self, record: JobRecord, tier: int | None, at_s: float) -> None:
        waited_s = max(0.0, at_s - record.queued_s)
        self.policies.gate.note(WaitEnded(job=record, waited_s=waited_s, tier=tier, at_s=at_s))

    # -- preemption ------------------------------------------------------------------------

    def _grant_lease(self, job_id: JobId, record: JobRecord, at_s: float) -> None:
        """Note from when on a job that starts may be asked to stop."""
        if record.spec is None:
            return
        record.safe_until_s = at_s + self.policies.preemption.lease_s(record)
        if record.safe_until_s < inf:
            self._running[job_id] = None
            if self.policies.preemption.rebids:
                self._alarm(record.safe_until_s, job_id)

    def _preempt(self, at_s: float, actions: list[Action]) -> None:
        """Stop those whose lease has ended, or those that a waiting job may displace."""
        policy = self.policies.preemption
        if not policy.rebids and not self._queue.has_blocked():
            return
        records = (self._jobs[job_id] for job_id in self._running)
        over = [record for record in records if record.safe_until_s <= at_s]
        if not over:
            return
        ranked = policy.first_to_go(over, at_s)
        if policy.rebids:
            for record in ranked:
                self._ask_to_stop(record, "its lease ended", None, actions)
            return
        for job_id in self._queue.blocked():
            record = self._jobs[job_id]
            self._displace(job_id, record, self._victims(record, ranked, at_s), at_s, actions)

    def _victims(
        self, job: JobRecord, ranked: Sequence[JobRecord], at_s: float
    ) -> Sequence[JobRecord]:
        """The front part of those that may be stopped, as far as this job may displace them."""
        victims = []
        for record in ranked:
            if record.state is JobState.RUNNING:
                if not self.policies.preemption.displaces(job, record, at_s):
                    break
                victims.append(record)
        return victims

    def _displace(
        self,
        job_id: JobId,
        record: JobRecord,
        victims: Sequence[JobRecord],
        at_s: float,
        actions: list[Action],
    ) -> None:
        """Plan a waiting job's placement where victims run, and ask those in its way to stop."""
        job, cluster = record.spec, self.cluster
        assert job is not None
        if not job.binding or not victims:
            return
        ids = [victim.job_id for victim in victims]
        found = find_room(
            cluster, ids, lambda: self.policies.candidates.propose(cluster, job, None)
        )
        if found is None or isinstance(self._ask_gate(record, found[0], at_s), Defer):
            return
        candidates, count = found
        with cluster.without(ids[:count]):
            decision = self._chooser.decide(cluster, candidates, at_s)
        placement = decision.candidates[0]
        leaving = holders(cluster, ids[:count], shares_of(placement))
        if not leaving:
            return  # there is room, but it is kept for somebody else
        self._unqueue(job_id)
        self._clearing[job_id] = None
        record.decision, record.placement = decision, placement
        record.state, record.until_s = JobState.CLEARING, None
        record.reason = f"waits until {', '.join(leaving)} has stopped"
        record.awaited = dict.fromkeys(leaving)
        record.start_deadline_s = at_s + self.config.stop_timeout_s
        self._alarm(record.start_deadline_s, job_id)
        cluster.hold(job_id, vacated(cluster, shares_of(placement), leaving))
        for victim in victims:
            if victim.job_id in record.awaited:
                self._ask_to_stop(victim, f"makes room for {job_id}", job_id, actions)

    def _ask_to_stop(
        self, victim: JobRecord, reason: str, for_job: JobId | None, actions: list[Action]
    ) -> None:
        victim.state, victim.reason = JobState.STOPPING, reason
        self._running.pop(victim.job_id, None)
        actions.append(Preempt(job_id=victim.job_id, reason=reason, for_job=for_job))

    def _stop(self, job_id: JobId, at_s: float, actions: list[Action]) -> None:
        """A running job was stopped: it waits again."""
        record = self._jobs.get(job_id)
        stoppable = (JobState.RUNNING, JobState.STOPPING)
        if record is not None and record.spec is not None and record.state in stoppable:
            self._take_job(record.spec, at_s, actions)

    def _keep_running(self, job_id: JobId, at_s: float) -> None:
        record = self._jobs.get(job_id)
        if record is None or record.state is not JobState.STOPPING:
            return
        record.state, record.reason = JobState.RUNNING, ""
        record.safe_until_s = at_s + _MAX_BACKOFF_S
        self._running[job_id] = None

    def _go_on_clearing(self, at_s: float, actions: list[Action]) -> None:
        """Place those whose room is free now; drop the plans of those whose will not be."""
        for job_id in tuple(self._clearing):
            record = self._jobs[job_id]
            assert record.placement is not None
            assert record.decision is not None
            states = {victim: self._state(victim) for victim in record.awaited}
            record.awaited = {v: None for v, s in states.items() if s is JobState.STOPPING}
            if JobState.RUNNING in states.values() or at_s >= record.start_deadline_s:
                self._drop_plan(job_id, record, at_s, actions)
                continue
            planned = shares_of(record.placement)
            self.cluster.hold(job_id, vacated(self.cluster, planned, record.awaited))
            if record.awaited:
                continue
            self.cluster.release(job_id)
            if not self.cluster.has_free(planned):
                self._drop_plan(job_id, record, at_s, actions)
                continue
            del self._clearing[job_id]
            self._begin_placing(job_id, record, record.placement, at_s)
            actions.append(
                Place(job_id=job_id, placement=record.placement, decision=record.decision)
            )

    def _state(self, job_id: JobId) -> JobState:
        record = self._jobs.get(job_id)
        return JobState.ENDED if record is None else record.state

    def _drop_plan(
        self, job_id: JobId, record: JobRecord, at_s: float, actions: list[Action]
    ) -> None:
        """Let a job wait on whose room did not become free; who was to stop for it runs on."""
        self._unqueue(job_id)
        self.cluster.release(job_id)
        for victim in record.awaited:
            self._keep_running(victim, at_s)
        record.awaited, record.placement, record.state = {}, None, JobState.WAITING
        record.not_before_s = at_s + self.config.refusal_backoff_s
        self._waiting[job_id] = None
        self._alarm(record.not_before_s, job_id)
        dropped = "pauses: what should have made room for it did not stop"
        self._wait(job_id, record, dropped, record.not_before_s, actions)

    # -- answers ---------------------------------------------------------------------------

    def _wait_for_room(
        self, job_id: JobId, record: JobRecord, nothing: Candidates, actions: list[Action]
    ) -> None:
        record.exclusions = nothing.exclusions
        assert record.spec is not None
        self._wait(job_id, record, room_wanted(record.spec.shapes[0]), None, actions)

    def _wait(
        self,
        job_id: JobId,
        record: JobRecord,
        reason: str,
        until_s: float | None,
        actions: list[Action],
    ) -> None:
        if (record.reason, record.until_s) != (reason, until_s):
            record.reason, record.until_s = reason, until_s
            actions.append(
                Wait(job_id=job_id, reason=reason, until_s=until_s, exclusions=record.exclusions)
            )

    def _let_go(
        self, job_id: JobId, record: JobRecord, reason: str, at_s: float, actions: list[Action]
    ) -> None:
        self._unqueue(job_id)
        self._note_unplaced(record, at_s)
        record.state, record.reason, record.until_s = JobState.LET_GO, reason, None
        actions.append(LetGo(job_id=job_id, reason=reason))

    # -- time ------------------------------------------------------------------------------

    def _alarm(self, at_s: float, job_id: JobId) -> None:
        heappush(self._alarms, (at_s, job_id))

    def _ring_alarms(self, at_s: float, actions: list[Action]) -> None:
        """Give up on placements that Slurm has not started in time; recall jobs that paused."""
        while self._alarms and self._alarms[0][0] <= at_s:
            job_id = heappop(self._alarms)[1]
            if job_id in self._placing:
                if at_s >= self._jobs[job_id].start_deadline_s:
                    timeout = f"Slurm did not start it in {self.config.start_timeout_s:g} s"
                    self._refuse(job_id, timeout, at_s, actions)
            elif job_id in self._waiting:
                self._offer_later(job_id, at_s, actions)

    def _announce_alarm(self, at_s: float, actions: list[Action]) -> None:
        while self._alarms and not self._is_awaited(*self._alarms[0]):
            heappop(self._alarms)
        if self._announced_s <= at_s:
            self._announced_s = inf
        next_s = self._alarms[0][0] if self._alarms else inf
        if self._running and self._queue.has_blocked():
            next_s = min(next_s, self.policies.preemption.review_s(at_s))
        if next_s < self._announced_s:
            self._announced_s = next_s
            actions.append(WakeAt(at_s=next_s))

    def _is_awaited(self, alarm_s: float, job_id: JobId) -> bool:
        if job_id in self._running:
            return self._jobs[job_id].safe_until_s == alarm_s
        return job_id in self._placing or job_id in self._waiting or job_id in self._clearing

    # -- for tests -------------------------------------------------------------------------

    def check_invariants(self) -> None:
        """Raise AssertionError where the state contradicts itself."""
        self.cluster.check_invariants()
        claimed: dict[tuple[str, int], JobId] = {}
        for job_id in self._placing:
            record = self._jobs[job_id]
            assert record.state is JobState.PLACING, f"{job_id} is {record.state}, not placing"
            assert record.placement is not None
            assert self.cluster.shares(job_id) == shares_of(record.placement)
            for share in self.cluster.shares(job_id):
                for gpu in share.gpu_indices:
                    other = claimed.setdefault((share.node, gpu), job_id)
                    assert other == job_id, f"{share.node} GPU {gpu}: {other} and {job_id}"
        self._queue.check_invariants()
        awaited = {job_id for _, job_id in self._alarms}
        for job_id in self._waiting:
            is_decided = self._jobs[job_id].placement is not None
            assert job_id in self._queue or job_id in awaited or is_decided, f"{job_id} is lost"
            assert self._jobs[job_id].state is JobState.WAITING, f"{job_id} is not waiting"
            assert not self.cluster.shares(job_id), f"{job_id} waits and holds GPUs"
        for job_id, record in self._jobs.items():
            waits, is_placing = job_id in self._waiting, job_id in self._placing
            assert waits == (record.state is JobState.WAITING), f"{job_id} is {record.state}"
            assert is_placing == (record.state is JobState.PLACING), f"{job_id} is {record.state}"
            assert waits or job_id not in self._queue, f"{job_id} is queued and {record.state}"
            is_clearing = record.state is JobState.CLEARING
            assert is_clearing == (job_id in self._clearing), f"{job_id} is {record.state}"
            if job_id in self._running:
                assert record.state is JobState.RUNNING, f"{job_id} is {record.state}"


def _asks_the_same(one: JobSpec, other: JobSpec) -> bool:
    return replace(one, priority=other.priority) == other
