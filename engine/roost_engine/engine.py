"""The only place that decides: events in, actions out.

`step` never does I/O, reads no clock and keeps no randomness, so the daemon, the simulator and a
replay of the journal get the same actions from the same events, byte for byte. A pass over the
queue is order, gate, candidates, score, place; page: docs/architecture.md.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import assert_never

from roost_engine.agents.team import AgentCandidates, Team
from roost_engine.alarms import Alarms
from roost_engine.cluster.node_sets import EVERY_NODE, NodeSet
from roost_engine.domain.actions import Action
from roost_engine.domain.config import EngineConfig, Passing
from roost_engine.domain.errors import UnknownJob
from roost_engine.domain.events import (
    Event,
    ForeignMemorySeen,
    GpuHealthChanged,
    JobChanged,
    JobEnded,
    JobLoadSeen,
    JobQueued,
    JobsStopped,
    JobStarted,
    JobWithdrawn,
    LinksSeen,
    LoadsSeen,
    MemorySeen,
    NodeLost,
    NodeSeen,
    OtherEvent,
    PairsSeen,
    PlacementRefused,
    PreemptionRefused,
    QuotasSeen,
    SharesSeen,
    SharingWithdrawn,
    SpeedSeen,
    Tick,
    TimerPinned,
    TopologySeen,
)
from roost_engine.domain.model import JobId, JobSpec
from roost_engine.job_record import JobRecord, KnownJob
from roost_engine.node_changes import NodeChanges
from roost_engine.placement.candidates import Candidates
from roost_engine.plugins.plugins import Policies
from roost_engine.policies.preemption_slot import PreemptionSlot
from roost_engine.policies.protocols import GateVerdict, Offer, QueueView, SortKey
from roost_engine.policies.slots import RUN_TIMES, FaultLog, GateSlot, OrderSlot, PredictorSlot
from roost_engine.preemption.preemption import Preemption
from roost_engine.queue.outlook import Outlook, outlook_of
from roost_engine.queue_pass import PassPolicies, QueuePass
from roost_engine.reservations.promises import Promises
from roost_engine.reservations.released_preemptors import ReleasedPreemptors
from roost_engine.reservations.standing_pins import StandingPins
from roost_engine.scoring.scorer import Scorer
from roost_engine.sharing.seating import Seating
from roost_engine.table.invariants import check_invariants
from roost_engine.table.job_table import JobTable
from roost_engine.table.lost_placements import lost_to_start
from roost_engine.table.refusals import place_again, refuse
from roost_engine.table.wait_reports import report_group

__all__ = ["Engine", "EngineConfig", "Passing"]


class Engine:
    """Decides for each waiting job whether it is placed now, and on which GPUs."""

    def __init__(self, config: EngineConfig, policies: Policies) -> None:
        self.config, self.policies, self._faults = config, policies, FaultLog()
        self._order = OrderSlot(policies.order, self._faults)
        self._gate = GateSlot(policies.gate, self._faults, config.gate_longest_s)
        self._preempt = PreemptionSlot(policies.preemption, self._faults)
        predictors = policies.predictors
        slot = None if predictors is None else PredictorSlot(predictors, self._faults)
        self._run_times = None if slot is None else slot.run_times_name
        self._table = JobTable(config, self._order, self._gate, slot, policies.ends)
        self.cluster, self._free = self._table.cluster, self._table.cluster.free
        self._scorer = Scorer(policies.score, self._faults, self.cluster, self._table.spec_of)
        self._team: Team | None = None
        if config.agents > 1:
            self._team = self._table.queue.owners = Team(self.cluster, config.agents)
            candidates = AgentCandidates(policies.candidates, self._team)
            self.policies = policies = replace(policies, candidates=candidates)
        # Not a method: an engine in no reference cycle is freed at once when another replaces it.
        ask_gate = partial(_ask_gate, self._table, self._gate, self._scorer)
        self._preemption = Preemption(
            self._table, self._preempt, policies.candidates, self._scorer, ask_gate
        )
        self._released = ReleasedPreemptors(self._table)
        self._standing = StandingPins(
            self._table, policies.candidates, self._scorer, ask_gate, self._released.add
        )
        self._nodes = NodeChanges(self._table, self._standing)
        self._pass = QueuePass(
            self._table,
            PassPolicies(policies.candidates, self._gate, ask_gate, self._scorer),
            self._standing,
            self._released,
            Promises(self._table, policies.ends, slot),
            self._team,
        )
        self.seating: Seating | None = None
        if policies.sharing is not None:
            self.seating = Seating(
                policies.sharing, self._table, policies.candidates, policies.separation
            )
        rare_rules = self._preempt.migrates, self._standing.is_final, self._team is not None
        self._has_rare_rules = any(rare_rules)
        waited_for = self._standing, self._released, self._preemption, self._preempt
        self._alarms = Alarms(self._table, *waited_for, self.seating)

    # -- what adapters may read -----------------------------------------------------------

    @property
    def decision_count(self) -> int:
        """How many placements were decided."""
        return self._scorer.decision_count

    @property
    def fallback_count(self) -> int:
        """How many of them the heuristic scored, because the score policy failed."""
        return self._scorer.fallback_count

    @property
    def policy_names(self) -> Mapping[str, str]:
        """The policy in each slot, by slot; run-times only where a policy asks for them."""
        names = {
            "order": self._order.name,
            "gate": self._gate.name,
            "score": self.policies.score.name,
            "preemption": self._preempt.name,
        }
        return names if self._run_times is None else {**names, RUN_TIMES: self._run_times}

    @property
    def fault_counts(self) -> Mapping[str, int]:
        """How often the policy of each slot failed, so that the heuristic answered."""
        return {slot: self._faults.counts[slot] for slot in self.policy_names}

    @property
    def forwarded_count(self) -> int:
        """How many jobs went from one agent to another."""
        return 0 if self._team is None else self._team.forwarded_count

    @property
    def refused_count(self) -> int:
        """How many placements Slurm refused."""
        return self._table.refused_count

    def record(self, job_id: JobId) -> JobRecord:
        """Return the record of a job under Roost; raises UnknownJob where `managed` has none."""
        if (found := self.managed(job_id)) is None:
            raise UnknownJob(job_id)
        return found

    def find(self, job_id: JobId) -> KnownJob:
        """Return what is known of a job; raises UnknownJob where `known` has nothing."""
        if (found := self.known(job_id)) is None:
            raise UnknownJob(job_id)
        return found

    def managed(self, job_id: JobId) -> JobRecord | None:
        """Return the record of a job; None: it never was under Roost, or ended too long ago."""
        found = self._table.find(job_id)
        return found if isinstance(found, JobRecord) else None

    def known(self, job_id: JobId) -> KnownJob | None:
        """Return what is known of a job; None: no event named it, or it ended too long ago."""
        return self._table.find(job_id)

    def records(self) -> Iterator[tuple[JobId, JobRecord]]:
        """Yield the jobs under Roost that have not ended, in the order they were first seen."""
        yield from self._table.jobs.items()

    def known_jobs(self, include_ended: bool = False) -> Iterator[tuple[JobId, KnownJob]]:
        """Yield every job that waits, starts or runs: jobs under Roost first, then all others."""
        yield from self._table.jobs.items()
        yield from self._table.observed.items()
        if include_ended:
            yield from self._table.ended.items()

    def waiting(self) -> tuple[JobId, ...]:
        """Return the jobs that wait to be placed."""
        return tuple(self._table.waiting)

    def queue_view(self, at_s: float) -> QueueView:
        """Return what an order would see now: the queued jobs, and the cluster."""
        return self._table.queue.view(self.cluster, at_s)

    def sort_key(self, job_id: JobId) -> SortKey | None:
        """Return what a waiting job is sorted by; None: it is not queued."""
        return self._table.queue.key_of(job_id)

    def limit_ends(self, at_s: float) -> Iterable[tuple[float, JobId]]:
        """Return when jobs that hold resources end by their time limits, in order of time."""
        return self._table.ends(at_s)

    def quota_left(self, quota: str) -> float:
        """Return what a quota of Slurm's has left for further jobs; inf: it has no limit."""
        return self._table.quotas.left(quota)

    def outlook(self, job_id: JobId, at_s: float) -> Outlook:
        """Return where a job under Roost is in the queue, and what is expected of it.

        Raises:
            UnknownJob: the job never was under Roost, or ended too long ago.
        """
        policies, records = self.policies, self._table.jobs.values()
        return outlook_of(self.record(job_id), policies.order, policies.predictors, records, at_s)

    # -- the one entry ---------------------------------------------------------------------

    def step(self, event: Event) -> tuple[Action, ...]:
        """Apply one event and return the actions that must follow."""
        actions: list[Action] = []
        table, queue, at_s = self._table, self._table.queue, event.at_s
        released, seating = self._released, self.seating
        if released.is_active:
            released.note(event)
        if seating is not None:
            seating.note(event)
        self._apply(event, actions)
        if released.is_active:
            released.advance(at_s)
        if table.alarms and table.alarms[0][0] <= at_s:
            self._alarms.ring(at_s, actions)
        if queue.limited.by_number:
            self._alarms.hand_over(at_s, actions)
        if table.clearing or self._has_rare_rules:
            self._advance_others(event, at_s, actions)
        wants_pass = queue.wants_pass or self._free.freed or seating is not None
        if wants_pass:
            self._serve(at_s, actions)
        if table.running:
            is_speed_alone = isinstance(event, SpeedSeen) and not wants_pass and not actions
            if not (is_speed_alone and self._preemption.is_settled(at_s)):
                serving = self._pass
                self._preemption.consider(serving.reserved, serving.overdue_id, at_s, actions)
        self._alarms.announce(at_s, actions)
        if self._faults.pending:
            actions += self._faults.take()
        return tuple(actions)

    def _advance_others(self, event: Event, at_s: float, actions: list[Action]) -> None:
        """Advance the rare rules: plans of preemption and migration, final pins, agents."""
        if self._table.clearing or (self._preempt.migrates and self._preemption.has_migrations):
            self._preemption.advance(at_s, actions)
        if self._standing.is_final and (fixed := self._standing.final_head()) is not None:
            self._pass.place_if_cleared(fixed, at_s, actions)
        if self._team is not None:
            self._share_out(self._team, event)

    def _serve(self, at_s: float, actions: list[Action]) -> None:
        """Offer GPUs to the jobs that wait, now that the queue or a node has changed."""
        queue = self._table.queue
        can_try = self.config.window_count > 0 and (queue.wants_pass or self._free.freed)
        if can_try and queue.begin_pass(self.cluster, self._pass.candidates, at_s):
            # window_count is read again: an order that steers the engine may have changed it.
            self._pass.run(at_s, actions, self.config.window_count)
        if self.seating is not None:
            put = partial(self._pass.place, at_s=at_s, actions=actions)
            self.seating.place(self._pass.reserved, at_s, put)
            self.seating.separate(self._pass.reserved, at_s, actions)
        for job_id, group in queue.end_pass():
            report_group(self._table.jobs[job_id], group, self.config.hand_over_s, actions)

    def _apply(self, event: Event, actions: list[Action]) -> None:
        # The frequent events, and not as cases: CPython makes a list for each case that matches.
        if isinstance(event, JobQueued):
            record = self._table.admit(event.job, event.at_s, actions, event.wait)
            if record is not None and self._has_rare_rules:
                self._table.queue.add(record, event.at_s)
            elif record is not None:
                self._pass.enqueue(record, event.at_s, actions)
        elif isinstance(event, JobStarted):
            self._start(event, actions)
        elif isinstance(event, JobEnded):
            self._table.end(event)
        elif not isinstance(event, Tick):  # every event carries the time
            self._apply_other(event, actions)

    def _apply_other(self, event: OtherEvent, actions: list[Action]) -> None:
        match event:
            case LoadsSeen():
                self.cluster.apply_loads(event.names, event.load)
            case ForeignMemorySeen():
                self.cluster.set_foreign_memory(event.name, event.gpu_index, event.used_bytes)
                if self._standing.has_movable_pin:
                    self._table.queue.postpone()  # the next pass may move it
            case SpeedSeen():
                if (running := self._table.jobs.get(event.job_id)) is not None:
                    running.note_speed(event.speed_frac, event.at_s)
            case LinksSeen():
                if (running := self._table.jobs.get(event.job_id)) is not None:
                    running.note_links(event.nvlink_frac, event.pcie_frac, event.nic_frac)
            case JobLoadSeen():
                self.cluster.apply_job_load(event.job_id, event.load)
            case MemorySeen():
                pass  # what jobs that share GPUs need; the seating has noted it
            case SharingWithdrawn():
                joining = () if self.seating is None else self.seating.joining(event.job_id)
                why = f"job {event.job_id} is to share its GPUs no more"
                place_again(self._table, joining, why, event.at_s, actions)
            case JobsStopped():
                for job_id in event.job_ids:
                    self._preemption.requeue(job_id, event.at_s, actions)
            case JobChanged():
                self._table.change(event.job, event.at_s, actions)
            case JobWithdrawn():
                self._table.withdraw(event)
            case PlacementRefused():
                refuse(self._table, event.job_id, event.reason, event.at_s, actions)
            case PreemptionRefused():
                self._preemption.keep_running(event.job_id, event.at_s)
            case NodeSeen() | NodeLost() | TopologySeen() | GpuHealthChanged():
                self._nodes.apply(event, actions)
            case TimerPinned():
                if self.policies.timers is not None:
                    self.policies.timers.pin(event.timer, event.pinned_s)
                    self._table.queue.recall_all()
            case QuotasSeen():
                self._table.quotas.apply(event.free, event.node_cpus)
                self._table.queue.lift_limits(self._table.quotas)
            case SharesSeen():
                if self.policies.predictors is not None:
                    self.policies.predictors.users.apply_shares(event.shares)
            case PairsSeen():
                self._scorer.correct(event.pairs)
            case _:
                assert_never(event)

    def _start(self, event: JobStarted, actions: list[Action]) -> None:
        table = self._table
        started = table.start(event)
        if started is not None and not self._preempt.stops_none:
            self._preemption.grant_lease(event.job_id, started, event.at_s)
        if table.placing:
            lost = lost_to_start(event, table.placing, table.jobs, self.cluster)
            reason = f"job {event.job_id} has started on its GPUs"
            place_again(table, lost, reason, event.at_s, actions)
        if self._standing.is_on:
            self._standing.note_start()

    def nodes_for(self, job: JobSpec) -> NodeSet:
        """Return the nodes that a job may have: those of its agent, or every node."""
        return EVERY_NODE if self._team is None else self._team.nodes_for(job)

    def _share_out(self, team: Team, event: Event) -> None:
        """Forward jobs to other agents, where their own agent's nodes have changed or are full."""
        table, queue = self._table, self._table.queue
        if isinstance(event, JobEnded | JobWithdrawn):
            team.forget(event.job_id)
        moved: list[JobSpec] = []
        if team.is_split_anew:
            moved += team.find_homes(
                [job.spec for job_id, job in self.records() if job_id in queue]
            )
            queue.recall_all()
        if table.config.forwards:
            moved += team.forwards([table.jobs[job_id].spec for job_id in queue.blocked()])
        for job in moved:
            queue.add(table.jobs[job.job_id], event.at_s)

    # -- for tests -------------------------------------------------------------------------

    def check_invariants(self) -> None:
        """Raise AssertionError where the state contradicts itself."""
        check_invariants(self._table)


def _ask_gate(
    table: JobTable,
    gate: GateSlot,
    scorer: Scorer,
    record: JobRecord,
    candidates: Candidates,
    at_s: float,
) -> GateVerdict:
    """Ask whether a job starts now on the best of the candidates, or waits."""
    offer = Offer(
        job=record,
        waited_s=at_s - record.queued_s,
        shape=candidates.shape,
        tier=candidates.tier,
        cluster=table.cluster,
        at_s=at_s,
        waiting_count=len(table.waiting),
        lost_frac=partial(scorer.lost_frac, candidates, record.spec),
    )
    return gate.decide(offer)
