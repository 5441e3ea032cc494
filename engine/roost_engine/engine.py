"""The only place that decides: events in, actions out.

`step` never does I/O, reads no clock and keeps no randomness, so the daemon, the simulator and a
replay of the journal get the same actions from the same events, byte for byte. A pass over the
queue is order, gate, candidates, score, place; page: docs/architecture.md.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from heapq import heappop
from math import inf
from typing import assert_never

from roost_engine.cluster.features import HeuristicScore
from roost_engine.cluster.node_sets import EVERY_ROW, NO_ROWS, RowSet
from roost_engine.domain.actions import Action, Place, WakeAt
from roost_engine.domain.config import EngineConfig, Passing
from roost_engine.domain.events import (
    Event,
    GpuHealthChanged,
    JobChanged,
    JobEnded,
    JobQueued,
    JobsStopped,
    JobStarted,
    JobWithdrawn,
    LinksSeen,
    LoadSeen,
    NodeLost,
    NodeSeen,
    PlacementRefused,
    PreemptionRefused,
    SpeedSeen,
    Tick,
    TimerPinned,
    TopologySeen,
)
from roost_engine.domain.model import JobId, JobSpec
from roost_engine.job_record import JobRecord
from roost_engine.job_table import Ledger
from roost_engine.placement.candidates import Candidates
from roost_engine.placement.eligibility import could_ever_fit, why_never
from roost_engine.placement.reservation import Reservation, reserve
from roost_engine.policies import (
    AlwaysOpen,
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
)
from roost_engine.preemption.preemption import Preemption
from roost_engine.queue.job_queue import Group
from roost_engine.scoring.scorer import Chooser

__all__ = ["Engine", "EngineConfig", "Passing", "Policies"]


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
        self._ledger = Ledger(config, policies.order, policies.gate)
        self.cluster = self._ledger.cluster
        self._gate_is_open = isinstance(policies.gate, AlwaysOpen)
        self._chooser = Chooser(policies.score)
        self._preemption = Preemption(
            self._ledger, policies.preemption, policies.candidates, self._chooser, self._ask_gate
        )
        self._announced_s = inf
        self._kept: RowSet = NO_ROWS  # by the last pass, for a job that waits

    # -- what the edges may read -----------------------------------------------------------

    @property
    def decision_count(self) -> int:
        """How many placements were decided."""
        return self._chooser.decision_count

    @property
    def fallback_count(self) -> int:
        """For how many of them the heuristic answered instead of the score policy."""
        return self._chooser.fallback_count

    @property
    def refused_count(self) -> int:
        """How many placements Slurm refused."""
        return self._ledger.refused_count

    def record(self, job_id: JobId) -> JobRecord:
        """What is known of a job.

        Raises:
            UnknownJob: never heard of, or ended too long ago.
        """
        return self._ledger.record(job_id)

    def records(self, include_ended: bool = False) -> Iterator[tuple[JobId, JobRecord]]:
        """Every job that waits, starts or runs, in the order they were first seen."""
        yield from self._ledger.jobs.items()
        if include_ended:
            yield from self._ledger.ended.items()

    def waiting(self) -> tuple[JobId, ...]:
        """The jobs that wait to be placed."""
        return tuple(self._ledger.waiting)

    # -- the one entry ---------------------------------------------------------------------

    def step(self, event: Event) -> tuple[Action, ...]:
        """Take in one event and answer with what must be done about it."""
        actions: list[Action] = []
        ledger, at_s = self._ledger, event.at_s
        self._take_in(event, actions)
        if ledger.alarms and ledger.alarms[0][0] <= at_s:
            self._ring_alarms(at_s, actions)
        if self._preemption.has_plans:
            self._preemption.go_on(at_s, actions)
        if ledger.queue.begin_pass(self.cluster, self.policies.candidates, at_s):
            self._pass(at_s, actions)
        for job_id, nothing in ledger.queue.end_pass():
            ledger.wait_for_room(job_id, ledger.jobs[job_id], nothing, actions)
        if ledger.running:
            self._preemption.consider(self._kept, at_s, actions)
        self._announce_alarm(at_s, actions)
        return tuple(actions)

    def _take_in(self, event: Event, actions: list[Action]) -> None:
        match event:  # the frequent ones first: a case costs as much as it is far down
            case JobQueued():
                self._ledger.take_job(event.job, event.at_s, actions)
            case JobStarted():
                if (started := self._ledger.start(event)) is not None:
                    self._preemption.grant_lease(event.job_id, started, event.at_s)
            case JobEnded():
                self._ledger.end(event)
            case Tick():
                pass  # every event brings the time
            case LoadSeen():
                self.cluster.see_load(event.name, event.load)
            case SpeedSeen():
                if (running := self._ledger.jobs.get(event.job_id)) is not None:
                    running.note_speed(event.speed_frac, event.at_s)
            case LinksSeen():
                if (running := self._ledger.jobs.get(event.job_id)) is not None:
                    running.note_links(event.nvlink_frac, event.pcie_frac, event.nic_frac)
            case JobsStopped():
                for job_id in event.job_ids:
                    self._preemption.take_back(job_id, event.at_s, actions)
            case JobChanged():
                self._ledger.change(event.job, event.at_s, actions)
            case JobWithdrawn():
                self._ledger.withdraw(event)
            case PlacementRefused():
                self._ledger.refuse(event.job_id, event.reason, event.at_s, actions)
            case PreemptionRefused():
                self._preemption.keep_running(event.job_id, event.at_s)
            case NodeSeen():
                if self.cluster.see_node(event.node):
                    self._ledger.queue.recall_all()
            case NodeLost():
                self.cluster.lose_node(event.name)
                self._ledger.queue.recall_all()
            case TopologySeen():
                self.cluster.see_topology(event.name, event.links, event.gpu_uuids)
            case GpuHealthChanged():
                self.cluster.set_fault(event.name, event.gpu_index, event.fault)
            case TimerPinned():
                self._ledger.pin(event)
            case _:
                assert_never(event)

    # -- a pass ----------------------------------------------------------------------------

    def _pass(self, at_s: float, actions: list[Action]) -> None:
        """Offer GPUs to the queued jobs in order."""
        ledger, queue = self._ledger, self._ledger.queue
        impatient_s = at_s - self.config.patience_s
        reservation: Reservation | None = None
        kept, try_count, placed_count = NO_ROWS, 0, self.decision_count
        self._kept = NO_ROWS
        for group, job_id in queue.offers(impatient_s):
            record = ledger.jobs[job_id]
            if not self._is_shut_out(group, kept, placed_count):
                if try_count == self.config.window_count:
                    queue.postpone()
                    return
                try_count += 1
                if self._try(job_id, record, group, at_s, kept, actions):
                    continue
            if record.queued_s > impatient_s:
                continue
            if self.config.passing is Passing.NOBODY:
                self._kept = EVERY_ROW
                return
            if reservation is None:
                reservation = self._reserve(record, at_s)
                self._kept = kept = reservation.rows
            if queue.is_settled(kept):
                break
        if reservation is not None:
            self._backfill(reservation.start_s, at_s, actions)

    def _is_shut_out(self, group: Group, kept: RowSet, placed_count: int) -> bool:
        """Whether a try would find no room, also after what this pass has placed."""
        if group.is_blocked(kept):
            return True
        if group.nothing is None or self.decision_count == placed_count:
            return False
        group.look_again(self.cluster, self.policies.candidates)
        return group.is_blocked(kept)

    def _reserve(self, record: JobRecord, at_s: float) -> Reservation:
        ends_s: dict[JobId, float] = {}
        for job_id in self.cluster.held_jobs():
            holder = self._ledger.jobs.get(job_id)
            if (
                holder is not None
                and holder.spec is not None
                and holder.spec.time_limit_s is not None
            ):
                since_s = at_s if holder.started_s is None else holder.started_s  # it is to start
                ends_s[job_id] = since_s + holder.spec.time_limit_s
        assert record.spec is not None
        return reserve(self.cluster, record.spec, record.spec.shapes[0], ends_s, at_s)

    def _backfill(self, start_s: float, at_s: float, actions: list[Action]) -> None:
        """Let jobs use reserved nodes that will be gone, by their time limit, when it starts."""
        for group, job_id in self._ledger.queue.kept_from(self.config.window_count):
            record = self._ledger.jobs[job_id]
            assert record.spec is not None
            limit_s = record.spec.time_limit_s
            if limit_s is not None and at_s + limit_s <= start_s:
                found = group.nothing
                assert found is not None
                is_done = self._try(job_id, record, group, at_s, NO_ROWS, actions)
                if is_done and group.nothing is None:
                    # There is room for more of its kind. They are kept out as before, but those
                    # who will be gone in time too may follow.
                    group.nothing = found
                    group.look_again(self.cluster, self.policies.candidates)

    def _try(
        self,
        job_id: JobId,
        record: JobRecord,
        group: Group,
        at_s: float,
        kept: RowSet,
        actions: list[Action],
    ) -> bool:
        """Place, defer or let go of one job, or find that its group has no room.

        Returns:
            Whether the job is done with; otherwise there is no room.
        """
        job, earlier = record.spec, group.nothing
        assert job is not None
        group.forget()
        candidates = self.policies.candidates.propose(self.cluster, job, kept, at_s)
        if candidates:
            self._offer(job_id, record, job, candidates, at_s, actions)
            if earlier is not None and group.job_ids:
                group.go_back_to(earlier, self.cluster, self.policies.candidates)
            return True
        if not len(self.cluster) or could_ever_fit(self.cluster, job):
            group.found_nothing(candidates)
            self._ledger.wait_for_room(job_id, record, candidates, actions)
            return False
        never = f"no placement could ever hold it in partition {job.partition}"
        self._ledger.let_go(
            job_id, record, f"{never}: {why_never(self.cluster, job)}", at_s, actions
        )
        return True

    def _offer(
        self,
        job_id: JobId,
        record: JobRecord,
        job: JobSpec,
        candidates: Candidates,
        at_s: float,
        actions: list[Action],
    ) -> None:
        if not self._gate_is_open:
            verdict = self._ask_gate(record, candidates, at_s)
            if isinstance(verdict, Defer):
                self._ledger.alarm(verdict.until_s, job_id)
                self._ledger.queue.defer(job_id)
                self._ledger.wait(job_id, record, verdict.reason, verdict.until_s, actions)
                return
        placement, decision = self._chooser.choose(self.cluster, candidates, at_s)
        record.decision, record.placement = decision, placement
        record.last_try = candidates
        self._ledger.queue.remove(job_id)
        if job.binding:
            self._ledger.unqueue(job_id)
            self._ledger.begin_placing(job_id, record, placement, at_s)
        actions.append(Place(job_id=job_id, placement=placement, decision=decision))

    def _ask_gate(self, record: JobRecord, candidates: Candidates, at_s: float) -> GateVerdict:
        offer = Offer(
            job=record,
            waited_s=at_s - record.queued_s,
            shape=candidates.shape,
            tier=candidates.tier,
            cluster=self.cluster,
            at_s=at_s,
            waiting_count=len(self._ledger.waiting),
        )
        return self.policies.gate.decide(offer)

    # -- time ------------------------------------------------------------------------------

    def _ring_alarms(self, at_s: float, actions: list[Action]) -> None:
        """Give up on placements that Slurm has not started in time; recall jobs that paused."""
        ledger = self._ledger
        while ledger.alarms and ledger.alarms[0][0] <= at_s:
            job_id = heappop(ledger.alarms)[1]
            if job_id in ledger.placing:
                if at_s >= ledger.jobs[job_id].start_deadline_s:
                    timeout = f"Slurm did not start it in {self.config.start_timeout_s:g} s"
                    ledger.refuse(job_id, timeout, at_s, actions)
            elif job_id in ledger.waiting:
                ledger.offer_later(job_id, at_s)
            elif job_id in ledger.stopping and at_s >= ledger.jobs[job_id].safe_until_s:
                self._preemption.keep_running(job_id, at_s)

    def _announce_alarm(self, at_s: float, actions: list[Action]) -> None:
        ledger = self._ledger
        while ledger.alarms and not ledger.is_awaited(*ledger.alarms[0]):
            heappop(ledger.alarms)
        if self._announced_s <= at_s:
            self._announced_s = inf
        next_s = ledger.alarms[0][0] if ledger.alarms else inf
        if ledger.running and ledger.queue.has_blocked():
            next_s = min(next_s, self.policies.preemption.review_s(at_s))
        if next_s < self._announced_s:
            self._announced_s = next_s
            actions.append(WakeAt(at_s=next_s))

    # -- for tests -------------------------------------------------------------------------

    def check_invariants(self) -> None:
        """Raise AssertionError where the state contradicts itself."""
        self._ledger.check_invariants()
