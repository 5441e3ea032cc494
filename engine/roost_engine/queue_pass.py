"""One pass over the queue: GPUs are offered to the waiting jobs in order.

For each job in its turn: candidates, gate, score, place. For the first job that does not fit and
has waited out its patience nodes are reserved; others may use these nodes if they end in time.
Page: docs/architecture.md.
"""

from collections.abc import Callable
from functools import partial
from math import inf
from typing import NamedTuple

from roost_engine.agents.team import Team
from roost_engine.cluster.node_sets import EVERY_NODE, NO_NODES, NodeSet
from roost_engine.domain.actions import Action, Decision, Place
from roost_engine.domain.config import Passing
from roost_engine.domain.lazy import Lazy
from roost_engine.domain.model import JobId, JobSpec, Placement
from roost_engine.job_record import JobRecord, shares_of
from roost_engine.placement.candidates import Candidates
from roost_engine.placement.eligibility import could_ever_fit, why_never
from roost_engine.placement.reservation import Reservation, reserve
from roost_engine.placement.search import first_candidates
from roost_engine.policies.heuristics import ShapeByShape
from roost_engine.policies.protocols import CandidatePolicy, Defer, ShapedCandidates
from roost_engine.policies.slots import GateSlot
from roost_engine.policies.wider_shapes import WiderShapes
from roost_engine.preemption.preemption import AskGate
from roost_engine.queue.group import Group
from roost_engine.reservations.promises import Promises
from roost_engine.reservations.released_preemptors import ReleasedPreemptors
from roost_engine.reservations.standing_pins import StandingPins
from roost_engine.scoring.scorer import Scorer
from roost_engine.sharing.seating import seated
from roost_engine.table.job_table import JobTable
from roost_engine.table.wait_reports import report_capacity, report_group, report_wait

_WITHHELD = "part of its GPUs passed over: processes of no job use their memory"


class PassPolicies(NamedTuple):
    """What a pass asks.

    Attributes:
        candidates: the rule that proposes placements.
        gate: whether an offer is taken.
        ask_gate: asks it about candidates for a job, at an engine time.
        scorer: chooses among candidates.
    """

    candidates: CandidatePolicy
    gate: GateSlot
    ask_gate: AskGate
    scorer: Scorer


class QueuePass:
    """The passes over the queue of one engine.

    Args:
        table: every job; its queue says when a pass could change anything.
        policies: what a pass asks.
        standing, released, promises: the rules of single jobs that a pass follows.
        team: the agents that share the cluster; None: there is one.

    Attributes:
        candidates: the rule that proposes placements, with hints for all that a pass would try.
        reserved: the nodes that the last pass reserved for a job that waits.
        overdue_id: the first overdue job that found no capacity in the last pass, and for which
            enough nodes are up; None: there was none.
    """

    def __init__(
        self,
        table: JobTable,
        policies: PassPolicies,
        standing: StandingPins,
        released: ReleasedPreemptors,
        promises: Promises,
        team: Team | None,
    ) -> None:
        self._table, self._cluster, self._config = table, table.cluster, table.config
        self._gate, self._ask_gate, self._scorer = policies.gate, policies.ask_gate, policies.scorer
        self._wider: WiderShapes | None = None
        rule, may_widen = policies.candidates, self._config.wider_after_s < inf
        # ShapeByShape proposes every shape: none is wider.
        if may_widen and isinstance(rule, ShapedCandidates) and type(rule) is not ShapeByShape:
            self._wider = WiderShapes(rule)
        self.candidates: CandidatePolicy = self._wider or rule
        self._standing, self._released, self._promises = standing, released, promises
        self._team = team
        self.reserved: NodeSet = NO_NODES
        self.overdue_id: JobId | None = None
        has_plain_rules = policies.gate.is_open and table.queue.is_keyed and team is None
        self._places_at_once = has_plain_rules and not standing.is_on
        # What was proposed to a job before the pass in which it is tried.
        self._proposed: tuple[JobRecord, Candidates] | None = None

    def enqueue(self, record: JobRecord, at_s: float, actions: list[Action]) -> None:
        """Queue a job that may be offered GPUs, or place it where a pass would try no other job.

        Most jobs that start as they come do so while no other job can. To place such a job here
        comes to the same as to queue it and to begin a pass, in two thirds of the time.

        Args:
            record: of the job, which waits and is not queued.
            at_s: engine time.
            actions: receives what follows.
        """
        queue = self._table.queue
        if not self._places_at_once or not self._would_try_only(record.spec, at_s):
            queue.add(record, at_s)
            return
        key = record.sort_key = queue.key_for(record, at_s)
        candidates = self._propose(record.spec, NO_NODES, at_s)
        if not candidates.options:
            self._proposed = record, candidates
            queue.add(record, at_s, key)
            return
        queue.note_placed_at_once()
        self.reserved = NO_NODES
        self._take(record, candidates, at_s, actions)

    def _would_try_only(self, job: JobSpec, at_s: float) -> bool:
        """Return whether this step would try this job and no other one, without further rules."""
        table, queue = self._table, self._table.queue
        if self._cluster.free.freed or (table.alarms and table.alarms[0][0] <= at_s):
            return False
        if job.quotas or job.node_quotas or queue.limited.by_number or table.clearing:
            return False
        if job.preempts or queue.has_preemptors or self._standing.preemptors:
            return False
        if self._released.is_active or self._config.window_count < 1:
            return False
        queue.note_overdue(at_s)
        return not queue.overdue and queue.would_try_only(job, self._impatient_s(at_s))

    def _impatient_s(self, at_s: float) -> float:
        """Return the time since which a job must have waited for nodes to be reserved for it."""
        return at_s - min(self._config.patience_s, self._table.queue.overdue.longest_wait_s)

    def run(self, at_s: float, actions: list[Action], window_count: int) -> None:
        """Offer GPUs to the queued jobs in order.

        Args:
            at_s: engine time.
            actions: receives what follows.
            window_count: how many jobs to try.
        """
        table, queue = self._table, self._table.queue
        impatient_s = self._impatient_s(at_s)
        standing, placed_count, try_count = self._standing, self._scorer.decision_count, 0
        cleared, reservation = NO_NODES, None
        if standing.is_on or standing.preemptors:
            cleared, reservation = standing.begin_pass(at_s, actions)
        if self._released.is_active:
            cleared |= self._released.nodes
        reserved = cleared if reservation is None else cleared | reservation.nodes
        self.reserved, self.overdue_id = reserved, None
        # With standing pins, a job without capacity may be pinned before it is impatient.
        for group, job_id in queue.offers(inf if standing.is_on else impatient_s):
            record = table.jobs[job_id]
            is_fixed = standing.is_final and record.standing is not None
            # Groups that were not tried yet are nearly all: those cost no call.
            is_untried = is_fixed or group.last_failure is None
            if is_untried or not self._is_blocked(group, reserved, placed_count):
                if try_count == window_count:
                    queue.postpone()
                    return
                try_count += 1
                if self._try(record, group, at_s, reserved, actions):
                    continue
            if standing.is_on and standing.is_head(record, at_s) and reservation is None:
                reservation = standing.pin_head(record, at_s, actions)
            if record.queued_s <= impatient_s:
                if self._config.passing is Passing.NOBODY:
                    self.reserved, reservation = EVERY_NODE, None
                    self._note_overdue(job_id)
                    break
                if reservation is None:
                    reservation = self._reserve(record.spec, at_s)
            if reservation is None:
                continue
            self._note_overdue(job_id)
            self.reserved = reserved = cleared | reservation.nodes
            if queue.is_settled(reserved):
                break
        if reservation is not None:
            self._promises.note(reservation, at_s, actions)
            self._backfill(reservation, cleared, at_s, actions, window_count)
        if standing.is_on or queue.has_preemptors:
            standing.end_pass(at_s, actions)

    def _is_blocked(self, group: Group, reserved: NodeSet, placed_count: int) -> bool:
        """Whether one more try would find no capacity, also after what this pass has placed."""
        if group.is_blocked(reserved):
            return True
        if self._scorer.decision_count == placed_count:
            return False
        group.refresh_hints(self._cluster, self.candidates)
        return group.is_blocked(reserved)

    def _note_overdue(self, job_id: JobId) -> None:
        if self.overdue_id is None and job_id in self._table.queue.overdue:
            self.overdue_id = job_id

    def _reserve(self, job: JobSpec, at_s: float) -> Reservation | None:
        """Reserve nodes for a job; None: too few that it could use are up, so others come next."""
        own = EVERY_NODE if self._team is None else self._team.nodes_for(job)
        every = EVERY_NODE if self._config.forwards else own
        for within in (own, every):  # while its agent's nodes are down, it borrows from others
            found = reserve(self._cluster, job, job.shapes[0], self._table.ends(at_s), at_s, within)
            if found.nodes:
                return found
        return None

    def _backfill(
        self,
        reservation: Reservation,
        closed: NodeSet,
        at_s: float,
        actions: list[Action],
        window_count: int,
    ) -> None:
        """Place jobs on reserved nodes if they will have ended before the reservation starts.

        Args:
            reservation: which nodes, and from when.
            closed: nodes that are reserved for others.
            at_s: engine time.
            actions: receives what follows.
            window_count: how many jobs to look at.
        """
        for group, job_id in self._table.queue.blocked_by_reservation(window_count):
            record = self._table.jobs[job_id]
            if self._promises.may_pass(record, reservation, at_s):
                found = group.last_failure
                assert found is not None
                is_done = self._try(record, group, at_s, closed, actions)
                self._promises.note_passed(record, reservation, at_s)
                if is_done and group.last_failure is None:
                    # The nodes could hold more jobs of this group, of which the reservation blocks
                    # those that do not end in time: the failure stands, and the others come next.
                    group.last_failure = found
                    group.refresh_hints(self._cluster, self.candidates)

    def _try(
        self,
        record: JobRecord,
        group: Group,
        at_s: float,
        reserved: NodeSet,
        actions: list[Action],
    ) -> bool:
        """Place, defer or release one job, or find that its group has no capacity.

        Returns:
            Whether the job needs no more tries in this pass; if not, capacity is missing.
        """
        job, earlier = record.spec, group.last_failure
        limit = self._table.quotas.exhausted_by(job) if job.quotas else ""
        if limit:
            self._table.queue.limited.add(group, limit, at_s)
            report_group(record, group, self._config.hand_over_s, actions)
            return True
        group.forget()
        if record.standing is not None:
            if self.place_if_cleared(record, at_s, actions):
                return True
            if self._standing.is_final and not job.fixed_indices:  # it can start nowhere else
                self._table.queue.defer(record.job_id)
                return True
        full, limit = self._full_nodes(job) if job.node_quotas else (NO_NODES, "")
        proposed, self._proposed = self._proposed, None
        if proposed is not None and proposed[0] is record:
            candidates = proposed[1]
        else:
            candidates = self._propose(job, reserved | full, at_s)
        if candidates.options:
            group.wider_since_s = inf
            self._offer(record, candidates, at_s, actions)
            if earlier is not None and group.job_ids:
                group.restore_failure(earlier, self._cluster, self.candidates)
            return True
        wider = self._wider_candidates(job, reserved | full)
        if wider is not None and self._waits_no_longer(record, group, wider, at_s):
            self._offer(record, wider, at_s, actions)
            return True
        if full and self.candidates.propose(self._cluster, job, reserved, at_s):
            # No node is reserved for it: it waits for other jobs' CPUs, not for capacity.
            group.note_failure(candidates, limit)
            report_group(record, group, self._config.hand_over_s, actions)
            return True
        return self._has_no_capacity(record, group, candidates, at_s, actions)

    def _has_no_capacity(
        self,
        record: JobRecord,
        group: Group,
        failure: Candidates,
        at_s: float,
        actions: list[Action],
    ) -> bool:
        """Let a job wait for capacity, or release it if the cluster never has any; see _try."""
        job = record.spec
        if not len(self._cluster) or could_ever_fit(self._cluster, job):
            group.note_failure(failure)
            report_capacity(record, failure, actions)
            return False
        never = f"no placement could ever hold it in partition {job.partition}"
        reason = f"{never}: {why_never(self._cluster, job)}"
        self._table.release_to_slurm(record.job_id, record, reason, at_s, actions)
        return True

    def _waits_no_longer(
        self, record: JobRecord, group: Group, wider: Candidates, at_s: float
    ) -> bool:
        """Return whether a job without capacity has waited long enough to take a wider shape.

        Args:
            record: of the job.
            group: of the job; notes since when that shape has had capacity.
            wider: what the job could have in that shape now.
            at_s: engine time.
        """
        if not wider.options:
            group.wider_since_s = inf
            return False
        group.wider_since_s = min(group.wider_since_s, at_s)
        due_s = max(group.wider_since_s, record.queued_s) + self._config.wider_after_s
        if at_s < due_s and group.wider_alarm != (due_s, record.job_id):
            group.wider_alarm = due_s, record.job_id
            self._table.alarm(due_s, record.job_id)
        return at_s >= due_s

    def _full_nodes(self, job: JobSpec) -> tuple[NodeSet, str]:
        """Return the nodes with too few CPUs left by a limit of Slurm's, and one such limit."""
        full = self._table.quotas.full_nodes(job)
        return self._cluster.nodes_named(full), next(iter(full.values()), "")

    def _propose(self, job: JobSpec, reserved: NodeSet, at_s: float) -> Candidates:
        """Propose placements on GPUs without foreign memory; on any GPUs where there are none."""
        cluster = self._cluster
        if not cluster.foreign.used_bytes:
            return self.candidates.propose(cluster, job, reserved, at_s)
        propose = partial(self.candidates.propose, cluster, job, reserved, at_s)
        return self._avoid_foreign_memory(propose)

    def _wider_candidates(self, job: JobSpec, reserved: NodeSet) -> Candidates | None:
        """List placements in a wider shape, as `_propose` does; None: the job accepts none."""
        if self._wider is None or len(job.shapes) == 1:
            return None
        cluster, shapes = self._cluster, self._wider.wider_shapes(self._cluster, job)
        if not shapes:
            return None
        propose = partial(first_candidates, cluster, job, reserved, shapes=shapes)
        return self._avoid_foreign_memory(propose) if cluster.foreign.used_bytes else propose()

    def _avoid_foreign_memory(self, propose: Callable[[], Candidates]) -> Candidates:
        with self._cluster.foreign.withheld() as node_count:
            found = propose()
        if not found.options:
            return propose()
        if node_count:
            found.rename_exclusions(lambda others: (*others, (_WITHHELD, node_count)))
        return found

    def place_if_cleared(self, record: JobRecord, at_s: float, actions: list[Action]) -> bool:
        """Place a job where it is pinned already, if its GPUs there are free now."""
        pin = record.standing
        assert pin is not None
        if not self._cluster.has_free(shares_of(pin.placement)):
            return False
        self.place(record, pin.placement, pin.decision, at_s, actions)
        return True

    def _offer(
        self, record: JobRecord, candidates: Candidates, at_s: float, actions: list[Action]
    ) -> None:
        if not self._gate.is_open:
            verdict = self._ask_gate(record, candidates, at_s)
            if isinstance(verdict, Defer):
                record.note_declined(candidates.tier, at_s)
                self._table.alarm(verdict.until_s, record.job_id)
                self._table.queue.defer(record.job_id)
                report_wait(record, verdict.reason, verdict.until_s, actions)
                return
        self._take(record, candidates, at_s, actions)

    def _take(
        self, record: JobRecord, candidates: Candidates, at_s: float, actions: list[Action]
    ) -> None:
        """Place a job on the best of its candidates."""
        placement, decision = self._scorer.choose(candidates, at_s, record.spec)
        foreign = self._cluster.foreign
        if foreign.used_bytes:
            decision = foreign.named_in(decision, shares_of(placement), "no other place was free")
        record.last_try = candidates
        self.place(record, seated(record.spec, placement), decision, at_s, actions)

    def place(
        self,
        record: JobRecord,
        placement: Placement,
        decision: Lazy[Decision],
        at_s: float,
        actions: list[Action],
    ) -> None:
        """Place a job; a binding placement is held until Slurm has started the job there."""
        job_id = record.job_id
        record.decision, record.placement = decision, placement
        if record.spec.binding:
            self._table.unqueue(job_id)
            self._table.begin_placing(job_id, record, placement, at_s)
        else:
            self._table.queue.remove(job_id)
        actions.append(Place(job_id=job_id, placement=placement, decision=decision))
