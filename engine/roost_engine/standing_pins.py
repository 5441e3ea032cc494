"""Standing pins: waiting jobs that Slurm itself starts on exact GPUs as soon as these are free.

A job under a lease is invisible to Slurm's own rules. The first job in order without capacity waits
in Slurm instead, for the GPUs where it will run soonest: Slurm counts its age and its limits,
reserves these GPUs for it, and starts it. A standing pin closes its nodes to jobs of lower priority
that would run past its start, so only one job is pinned for lack of capacity. Jobs for which Slurm
preempts are pinned beside it, each to GPUs whose holders Slurm may stop.
Page: docs/design/0012-standing-pins.md.
"""

from collections.abc import Callable, Iterable, Sequence
from math import inf

from roost_engine.cluster.node_sets import NO_NODES, NodeSet, node_set
from roost_engine.domain.actions import Action, PinStanding, Unpin
from roost_engine.domain.model import JobId, NodeName, Placement
from roost_engine.job_record import JobRecord, JobState, StandingPin, shares_of
from roost_engine.job_table import JobTable
from roost_engine.placement.candidates import Candidates
from roost_engine.placement.reservation import Reservation
from roost_engine.policies import CandidatePolicy, Defer, GateVerdict
from roost_engine.preemption.displacement import find_capacity, holders
from roost_engine.scoring.scorer import Scorer

AskGate = Callable[[JobRecord, Candidates, float], GateVerdict]
PREEMPTOR_COUNT = 8  # searches for jobs that preempt, in one pass


class StandingPins:
    """Chooses which waiting jobs are pinned to busy GPUs, and to which."""

    def __init__(
        self, table: JobTable, candidates: CandidatePolicy, scorer: Scorer, ask_gate: AskGate
    ) -> None:
        self._table, self._candidates = table, candidates
        self._scorer, self._ask_gate = scorer, ask_gate
        self.is_on, self._is_final = (
            table.config.standing_pins,
            table.config.standing_pins_are_final,
        )
        self._head: JobId | None = None
        self._awaited_head: JobId | None = None  # an alarm rings when it may be pinned
        self._is_head_found = False
        self._preemptors: dict[JobId, None] = {}
        self._failures: dict[JobId, int] = {}  # preemptors without enough victims, by freed_count

    def begin_pass(self) -> NodeSet:
        """Begin a pass. Returns the nodes that Slurm clears for jobs that preempt."""
        self._is_head_found = False
        self._preemptors = {
            job_id: None for job_id in self._preemptors if self._awaits_victims(job_id)
        }
        return self._cleared_nodes()

    def is_pinned_to(self, name: NodeName) -> bool:
        """Return whether a job waits in Slurm for GPUs of a node."""
        pins = [self._pin_of(job_id) for job_id in (self._head, *self._preemptors) if job_id]
        return any(pin is not None and name in pin.placement.nodes for pin in pins)

    def is_head(self, record: JobRecord, at_s: float) -> bool:
        """Return whether a job without capacity is the first in order, and to be pinned by now.

        Asked in order, so that only the first one that is binding can be.
        """
        if not self.is_on or not record.is_binding or self._is_head_found:
            return False
        self._is_head_found = True
        if not self._is_final or record.standing is not None:
            return True
        if self._head not in (None, record.job_id) and self._pin_of(self._head) is not None:
            return False  # one final pin at a time
        due_s = record.queued_s + self._table.config.standing_pin_after_s
        if at_s < due_s and self._awaited_head != record.job_id:
            self._awaited_head = record.job_id
            self._table.alarm(due_s, record.job_id)
        return at_s >= due_s

    def pin_head(self, record: JobRecord, at_s: float, actions: list[Action]) -> Reservation | None:
        """Pin the first job in order without capacity to the GPUs where it runs soonest.

        Returns:
            Its reservation; None: no running job has to end for it, or the gate wants a closer
            place than can be foreseen.
        """
        if record.spec.preempts:
            self._preempt(record.job_id, record, at_s, actions)
            if record.standing is not None and record.standing.is_preempting:
                return Reservation(self._nodes([record.standing.placement]), at_s)
        if self._head not in (None, record.job_id):
            self._unpin_head(actions)
        pin, now = record.standing, self._table.cluster.freed_count
        if pin is not None and self._is_final:
            return self._final(record, pin, at_s, actions)
        if pin is None or pin.freed_count != now or not self._is_possible(pin.placement):
            pin = self._soonest(record, at_s)
            if pin is None:
                self._unpin_head(actions)
                return None
            pin = self._pin(record, pin, at_s, actions)
        self._head = record.job_id
        return Reservation(self._nodes([pin.placement]), pin.start_s)

    def _final(
        self, record: JobRecord, pin: StandingPin, at_s: float, actions: list[Action]
    ) -> Reservation | None:
        """Return the reservation of a final pin; release a job that lost its GPUs."""
        if self._is_possible(pin.placement):
            return Reservation(self._nodes([pin.placement]), pin.start_s)
        why = (
            f"its GPUs on {', '.join(pin.placement.nodes)} are gone, and it cannot be pinned again"
        )
        self._table.release_to_slurm(record.job_id, record, why, at_s, actions)
        return None

    def end_pass(self, at_s: float, actions: list[Action]) -> None:
        """Pin jobs for which Slurm preempts, and unpin a job that is no longer the first."""
        if self._head is not None and not self._is_head_found:
            self._unpin_head(actions)
        blocked = self._table.queue.blocked_preemptors(PREEMPTOR_COUNT)
        for job_id in blocked:
            self._preempt(job_id, self._table.jobs[job_id], at_s, actions)

    def give_up(self, job_id: JobId, at_s: float, actions: list[Action]) -> bool:
        """Release a job for which Slurm did not preempt in time. Returns whether it was one."""
        record = self._table.jobs[job_id]
        if record.standing is None or at_s < record.standing.give_up_s:
            return False
        why = "Slurm did not stop the jobs on the chosen GPUs in time"
        self._table.release_to_slurm(job_id, record, why, at_s, actions)
        return True

    def _soonest(self, record: JobRecord, at_s: float) -> StandingPin | None:
        ends = self._ends(at_s)
        ids = [job_id for _, job_id in ends]
        found = self._find(record, ids, at_s)
        if found is None:
            return None
        candidates, count = found
        if isinstance(self._ask_gate(record, candidates, at_s), Defer):
            return None
        start_s = max(end_s for end_s, _ in ends[:count])
        return self._choose(candidates, ids[:count], start_s, at_s)

    def _pin(
        self, record: JobRecord, pin: StandingPin, at_s: float, actions: list[Action]
    ) -> StandingPin:
        """Pin a job, or leave it where it is if the new place is no better. Returns its pin."""
        before = record.standing
        if before is not None and self._is_possible(before.placement):
            is_sooner = pin.start_s < before.start_s
            is_closer = pin.placement.tier < before.placement.tier
            if not (is_sooner or (is_closer and pin.start_s <= before.start_s)):
                record.standing = StandingPin(
                    placement=before.placement,
                    decision=before.decision,
                    start_s=before.start_s,
                    freed_count=pin.freed_count,
                )
                return record.standing
        record.standing = pin
        actions.append(
            PinStanding(
                job_id=record.job_id,
                placement=pin.placement,
                decision=pin.decision,
                start_s=pin.start_s,
                is_preempting=pin.is_preempting,
            )
        )
        until_s = pin.start_s if pin.start_s < inf else None
        self._table.wait(record.job_id, record, _reason(pin), until_s, actions)
        return pin

    def _preempt(
        self, job_id: JobId, record: JobRecord, at_s: float, actions: list[Action]
    ) -> None:
        """Let Slurm preempt for a job: on chosen GPUs where it can be pinned, else on any."""
        freed_count = self._table.cluster.freed_count
        if record.standing is not None or self._failures.get(job_id) == freed_count:
            return
        ids = self._victims(record)
        found = self._find(record, ids, at_s)
        if found is None:
            if len(self._failures) > self._table.config.window_count:
                self._failures.clear()
            self._failures[job_id] = freed_count
            return
        if not self.is_on or self._is_final:
            why = "Slurm may stop other jobs for it"
            self._table.release_to_slurm(job_id, record, why, at_s, actions)
            return
        candidates, count = found
        give_up_s = at_s + self._table.config.stop_timeout_s
        pin = self._choose(candidates, ids[:count], at_s, at_s, give_up_s)
        self._pin(record, pin, at_s, actions)
        self._table.alarm(give_up_s, job_id)
        self._preemptors[job_id] = None

    def _victims(self, record: JobRecord) -> list[JobId]:
        """Return the jobs that Slurm may stop for a job, the youngest first."""
        table, classes = self._table, record.spec.preempts
        taken = self._cleared_nodes()
        found = [
            (one.started_s or 0.0, job_id)
            for known in (table.jobs, table.observed)
            for job_id, one in known.items()
            if one.preempt_class in classes
            and one.state is JobState.RUNNING
            and not self._nodes_of(job_id) & taken
        ]
        return [job_id for _, job_id in sorted(found, reverse=True)]

    def _find(
        self, record: JobRecord, ids: Sequence[JobId], at_s: float
    ) -> tuple[Candidates, int] | None:
        cluster = self._table.cluster
        found = find_capacity(
            cluster,
            ids,
            lambda: self._candidates.propose(cluster, record.spec, NO_NODES, at_s),
        )
        return found if found is not None and found[1] else None

    def _choose(
        self,
        candidates: Candidates,
        leaving: Sequence[JobId],
        start_s: float,
        at_s: float,
        give_up_s: float = inf,
    ) -> StandingPin:
        cluster = self._table.cluster
        with cluster.without(leaving):
            placement, decision = self._scorer.choose(candidates, at_s)
        return StandingPin(
            placement=placement,
            decision=decision,
            start_s=start_s if holders(cluster, leaving, shares_of(placement)) else at_s,
            freed_count=cluster.freed_count,
            give_up_s=give_up_s,
        )

    def _ends(self, at_s: float) -> list[tuple[float, JobId]]:
        """Return when each job that holds something ends, in order of time; inf where unknown."""
        table = self._table
        known = dict.fromkeys([job_id for _, job_id in table.ends(at_s)])
        rest = [(inf, job_id) for job_id in table.cluster.held_jobs() if job_id not in known]
        return [*((max(end_s, at_s), job_id) for end_s, job_id in table.ends(at_s)), *rest]

    def _is_possible(self, placement: Placement) -> bool:
        """Return whether Slurm would use the nodes, and no GPU of the placement is broken."""
        cluster = self._table.cluster
        for name, gpu_indices in placement.by_node():
            node = cluster.index_of.get(name)
            if node is None or not cluster.usable[node]:
                return False
            if any((node, gpu) in cluster.faults for gpu in gpu_indices):
                return False
        return True

    def _unpin_head(self, actions: list[Action]) -> None:
        if self._is_final:
            return
        job_id, self._head = self._head, None
        record = None if job_id is None else self._table.jobs.get(job_id)
        if record is None or record.standing is None or record.state is not JobState.WAITING:
            return
        record.standing, record.reason = None, ""
        actions.append(Unpin(job_id=record.job_id))

    def _awaits_victims(self, job_id: JobId) -> bool:
        pin = self._pin_of(job_id)
        return pin is not None and not self._table.cluster.has_free(shares_of(pin.placement))

    def _cleared_nodes(self) -> NodeSet:
        """Return the nodes that Slurm clears for jobs that preempt."""
        pins = (self._pin_of(job_id) for job_id in self._preemptors)
        return self._nodes(pin.placement for pin in pins if pin is not None)

    def _pin_of(self, job_id: JobId | None) -> StandingPin | None:
        record = None if job_id is None else self._table.jobs.get(job_id)
        return None if record is None else record.standing

    def _nodes(self, placements: Iterable[Placement]) -> NodeSet:
        index_of = self._table.cluster.index_of
        return node_set(
            index_of[name]
            for placement in placements
            for name in placement.nodes
            if name in index_of
        )

    def _nodes_of(self, job_id: JobId) -> NodeSet:
        cluster = self._table.cluster
        return node_set(
            cluster.index_of[share.node]
            for share in cluster.shares(job_id)
            if share.node in cluster.index_of
        )


def _reason(pin: StandingPin) -> str:
    nodes = ", ".join(pin.placement.nodes[:4]) + ("..." if len(pin.placement.nodes) > 4 else "")
    if pin.is_preempting:
        return f"waits until Slurm has stopped other jobs on {nodes}"
    return f"is next: waits in Slurm for GPUs of {nodes} that other jobs hold"
