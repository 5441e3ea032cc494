"""Standing pins: waiting jobs that Slurm itself starts on exact GPUs as soon as these are free.

A job under a lease is invisible to Slurm's own rules. The first job in order without capacity waits
in Slurm instead, for the GPUs where it will run soonest: Slurm counts its age and its limits,
reserves these GPUs for it, and starts it. A standing pin closes its nodes to jobs of lower priority
that would run past its start, so only one job is pinned for lack of capacity. Jobs for which Slurm
preempts are pinned beside it, each to GPUs whose holders Slurm may stop.
Page: docs/design/0012-standing-pins.md.
"""

from collections.abc import Callable, Sequence
from math import inf

from roost_engine.cluster.node_sets import NO_NODES, NodeSet
from roost_engine.domain.actions import Action, PinStanding, Unpin
from roost_engine.domain.model import JobId, NodeName
from roost_engine.job_record import JobRecord, JobState, StandingPin, shares_of
from roost_engine.placement.reservation import Reservation
from roost_engine.policies.protocols import CandidatePolicy, Defer
from roost_engine.preemption.displacement import FoundCapacity
from roost_engine.preemption.preemption import AskGate
from roost_engine.preemption.slurm_victims import slurm_victims
from roost_engine.reservations.pin_search import PinSearch
from roost_engine.scoring.scorer import Scorer
from roost_engine.table.job_table import JobTable
from roost_engine.table.lost_placements import is_lost
from roost_engine.table.wait_reports import report_wait

_PINNED = (JobState.WAITING, JobState.CLEARING)  # also while Roost clears other GPUs for it
PREEMPTOR_COUNT = 8  # searches for jobs that preempt, in one pass


class StandingPins:
    """Chooses which waiting jobs are pinned to busy GPUs, and to which.

    Attributes:
        is_on: whether jobs may be pinned to busy GPUs, see EngineConfig.standing_pins.
        is_final: whether a pin cannot be replaced.
        preemptors: the pinned jobs for which Slurm is to stop the holders.
    """

    def __init__(
        self,
        table: JobTable,
        candidates: CandidatePolicy,
        scorer: Scorer,
        ask_gate: AskGate,
        note_released: Callable[[JobId, float], None],
    ) -> None:
        self._table, self._note_released = table, note_released
        self._search = PinSearch(table, candidates, scorer, ask_gate)
        config = table.config
        self.is_on = config.standing_pins
        self.is_final = config.standing_pins and config.standing_pins_are_final
        self._after_s = min(config.standing_pin_after_s, config.patience_s)
        self._head: JobId | None = None
        self._is_head_found = False
        # When a job that has not waited long enough may be pinned, and which; the same for which an
        # alarm was set last.
        self._next: tuple[float, JobId] = (inf, JobId(""))
        self._alarmed = self._next
        self._not_overtaken: JobId | None = None  # the first job to pin once another passes it
        # The job for which there was no place, Cluster.freed_count then, and until when its gate
        # declines the place that was foreseen; inf: none was.
        self._unplaceable: tuple[JobId, int, float] | None = None
        self.preemptors: dict[JobId, None] = {}
        # Preemptors without enough victims: by freed_count, and until Slurm spares one job fewer.
        self._failures: dict[JobId, tuple[int, float]] = {}

    def begin_pass(self, at_s: float, actions: list[Action]) -> tuple[NodeSet, Reservation | None]:
        """Begin a pass.

        Returns:
            The nodes that Slurm clears for jobs that preempt, and the reservation of a job whose
            pin is final: it has one until it starts, whichever job is the first in order by then.
        """
        self._is_head_found, self._next = False, (inf, JobId(""))
        self._not_overtaken = None
        if self.preemptors:
            awaiting = filter(self._awaits_victims, self.preemptors)
            self.preemptors = dict.fromkeys(tuple(awaiting))
        cleared = self._cleared_nodes() if self.preemptors else NO_NODES
        return cleared, self._final(at_s, actions) if self.is_final else None

    def final_head(self) -> JobRecord | None:
        """Return the job that waits by a final pin, if there is one."""
        if not self.is_final or self._head is None:
            return None
        record = self._table.jobs.get(self._head)
        is_waiting = record is not None and record.state is JobState.WAITING
        return record if is_waiting and record is not None and record.standing else None

    @property
    def has_movable_pin(self) -> bool:
        """Whether a job waits by a pin that can be replaced."""
        return not self.is_final and self._pin_of(self._head) is not None

    def is_pinned_to(self, name: NodeName) -> bool:
        """Return whether a job waits in Slurm for GPUs of a node."""
        pins = [self._pin_of(job_id) for job_id in (self._head, *self.preemptors) if job_id]
        return any(pin is not None and name in pin.placement.nodes for pin in pins)

    def is_head(self, record: JobRecord, at_s: float) -> bool:
        """Return whether a job without capacity is the one to be pinned.

        That is the first in order of the jobs that have waited long enough; asked in order. A job
        that could start on nodes that Roost does not give out must not wait for those it does.
        """
        if not self.is_on or not record.is_binding or self._is_head_found:
            return False
        if record.spec.starts_elsewhere:
            return False
        if self.final_head() is not None:
            return False  # one final pin at a time
        if not self._is_overtaken(record):
            self._not_overtaken = self._not_overtaken or record.job_id
            return False
        due_s = record.queued_s + self._after_s
        if at_s < due_s:
            self._next = min(self._next, (due_s, record.job_id))
            return False
        self._is_head_found = True
        return True

    def note_start(self) -> None:
        """Examine a job again that would be pinned, now that a job outside Roost has passed it."""
        if self._not_overtaken is None:
            return
        record = self._table.jobs.get(self._not_overtaken)
        if record is not None and record.state is JobState.WAITING:
            if not self._is_overtaken(record):
                return
            self._table.alarm(record.queued_s + self._after_s, record.job_id)
        self._not_overtaken = None

    def _is_overtaken(self, record: JobRecord) -> bool:
        """Return whether a job may be pinned by what Slurm has started since it began to wait."""
        if not self._table.config.standing_pin_if_overtaken:
            return True
        return self._table.observed_start_s > record.queued_s

    def pin_head(self, record: JobRecord, at_s: float, actions: list[Action]) -> Reservation | None:
        """Pin the first job in order without capacity to the GPUs where it runs soonest.

        Returns:
            Its reservation; None: no running job has to end for it, or the gate wants a closer
            place than can be foreseen. It is asked again when that wait ends.
        """
        if record.spec.preempts:
            self._preempt(record.job_id, record, at_s, actions)
            if record.standing is not None and record.standing.is_preempting:
                return self._reservation(record.standing, record.job_id, at_s)
        if self._head not in (None, record.job_id):
            self._unpin_head(actions)
        if record.standing is None and self._is_unplaceable(record, at_s):
            return None
        pin = self._renewed(record, at_s, actions)
        if pin is None or isinstance(pin, Defer):
            self._note_unplaceable(record, inf if pin is None else pin.until_s)
            self._unpin_head(actions)
            return None
        record.standing, self._head = pin, record.job_id
        if self.is_final:
            self._table.queue.defer(record.job_id)  # it can start nowhere else
        return self._reservation(pin, record.job_id)

    def _is_unplaceable(self, record: JobRecord, at_s: float) -> bool:
        """Return whether the last search for a place of a job would find none once more."""
        if self._unplaceable is None:
            return False
        job_id, freed_count, until_s = self._unplaceable
        is_same = job_id == record.job_id and freed_count == self._table.cluster.freed_count
        return is_same and at_s < until_s

    def _note_unplaceable(self, record: JobRecord, until_s: float) -> None:
        """Note that no place is searched for a job until then, unless nodes are freed before."""
        self._unplaceable = record.job_id, self._table.cluster.freed_count, until_s
        if until_s < inf:
            self._table.alarm(until_s, record.job_id)

    def _reservation(
        self, pin: StandingPin, job_id: JobId, start_s: float | None = None
    ) -> Reservation:
        """Return the nodes of a pin, and when jobs that pass its job must have ended there."""
        if start_s is None:
            start_s = pin.start_s - self._table.config.standing_pin_margin_s
        return Reservation(self._table.cluster.nodes_named(pin.placement.nodes), start_s, job_id)

    def _renewed(
        self, record: JobRecord, at_s: float, actions: list[Action]
    ) -> StandingPin | Defer | None:
        """Return the pin of a job: a new one only if that is better.

        Without any, the verdict of a gate that declines the place that is foreseen.
        """
        pin, freed_count = record.standing, self._table.cluster.freed_count
        search = self._search
        if pin is not None and is_lost(pin.placement, self._table.cluster):
            pin = None
        if pin is not None and pin.freed_count == freed_count and not search.is_late(pin, at_s):
            return pin
        if pin is None:
            ends = search.ends(at_s)
        else:
            pin = search.foreseen(pin, at_s)
            ends = search.ends_before(pin, at_s)
            if not search.fits_after(record, ends, at_s):
                return pin
        found = search.soonest(record, ends, at_s)
        if found is None or isinstance(found, Defer):
            return found if pin is None else pin
        if pin is not None and not self._is_better(found, pin):
            return pin
        self._announce(record, found, actions)
        return found

    def _is_better(self, one: StandingPin, other: StandingPin) -> bool:
        """Return whether a pin starts sooner; or as soon, and closer; and so on.

        As soon and as close: whether more of its nodes are free, or it has no foreign memory.
        """
        if one.start_s != other.start_s:
            return one.start_s < other.start_s
        if one.placement.tier != other.placement.tier:
            return one.placement.tier < other.placement.tier
        busy_counts = self._search.busy_node_count(one), self._search.busy_node_count(other)
        if busy_counts[0] != busy_counts[1]:
            return busy_counts[0] < busy_counts[1]
        has_foreign = self._search.has_foreign_memory
        return has_foreign(other) and not has_foreign(one)

    def _final(self, at_s: float, actions: list[Action]) -> Reservation | None:
        """Return the reservation of a final pin; release its job if the GPUs are lost."""
        record = self.final_head()
        if record is None:
            self._head = None
            return None
        pin = record.standing
        assert pin is not None
        if not is_lost(pin.placement, self._table.cluster):
            has_freed = pin.freed_count != self._table.cluster.freed_count
            if has_freed or self._search.is_late(pin, at_s):
                pin = record.standing = self._search.foreseen(pin, at_s)
            return self._reservation(pin, record.job_id)
        lost = ", ".join(pin.placement.nodes)
        why = f"its GPUs on {lost} are gone, and it cannot be pinned again"
        self._table.release_to_slurm(record.job_id, record, why, at_s, actions)
        return None

    def end_pass(self, at_s: float, actions: list[Action]) -> None:
        """Pin jobs for which Slurm preempts, and unpin a job that is no longer the first."""
        if not self._is_head_found:
            if self._head is not None:
                self._unpin_head(actions)
            if self._next != self._alarmed and self._next[0] < inf:
                self._alarmed = self._next
                self._table.alarm(*self._next)
        queue = self._table.queue
        for job_id in queue.blocked_preemptors(PREEMPTOR_COUNT) if queue.has_preemptors else ():
            self._preempt(job_id, self._table.jobs[job_id], at_s, actions)

    def give_up(self, job_id: JobId, at_s: float, actions: list[Action]) -> bool:
        """Release a job for which Slurm did not preempt in time. Returns whether it was one."""
        record = self._table.jobs[job_id]
        if record.standing is None or at_s < record.standing.give_up_s:
            return False
        why = "Slurm did not stop the jobs on the chosen GPUs in time"
        self._table.release_to_slurm(job_id, record, why, at_s, actions)
        return True

    def _announce(self, record: JobRecord, pin: StandingPin, actions: list[Action]) -> None:
        record.replace_pins(pin)
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
        report_wait(record, _reason(pin), until_s, actions)

    def _preempt(
        self, job_id: JobId, record: JobRecord, at_s: float, actions: list[Action]
    ) -> None:
        """Let Slurm preempt for a job: on chosen GPUs where it can be pinned, else on any."""
        pin, freed_count = record.standing, self._table.cluster.freed_count
        if pin is not None and pin.is_preempting and is_lost(pin.placement, self._table.cluster):
            record.replace_pins()
            actions.append(Unpin(job_id=job_id))
            pin = None
        if pin is not None and (self.is_final or pin.is_preempting):
            return
        failed_count, retry_s = self._failures.get(job_id, (-1, inf))
        if failed_count == freed_count and at_s < retry_s:
            return
        is_handed_over = not self.is_on or self.is_final  # then Slurm waits for those it spares
        until_s = inf if is_handed_over else at_s
        ids, more_s = slurm_victims(self._table, record.spec, self._cleared_nodes(), until_s)
        if pin is not None:  # Slurm may be about to stop these already
            awaited = pin.awaited
            ids.sort(key=lambda victim: victim not in awaited)
        found = self._search.find(record, ids, at_s)
        if found is None:
            if len(self._failures) > self._table.config.window_count:
                self._failures.clear()
            self._failures[job_id] = freed_count, more_s
            if more_s not in (inf, retry_s):
                self._table.alarm(more_s, job_id)
            return
        if is_handed_over:
            why = "Slurm may stop other jobs for it"
            self._table.release_to_slurm(job_id, record, why, at_s, actions)
            self._note_released(job_id, at_s)
            return
        give_up_s = at_s + self._table.config.stop_timeout_s
        pin = self._preempting_pin(record, found, ids, at_s, give_up_s)
        self._announce(record, pin, actions)
        if self._head == job_id:
            self._head = None  # it keeps its pin, whichever job is the first by then
        self._table.alarm(give_up_s, job_id)
        self.preemptors[job_id] = None

    def _preempting_pin(
        self,
        record: JobRecord,
        found: FoundCapacity,
        ids: Sequence[JobId],
        at_s: float,
        give_up_s: float,
    ) -> StandingPin:
        """Return the pin of a job for which Slurm preempts.

        Args:
            record: the job.
            found: where it fits with the fewest stops.
            ids: the jobs that Slurm may stop, the first victim first.
            at_s: engine time.
            give_up_s: see StandingPin.
        """

        def chosen(capacity: FoundCapacity) -> StandingPin:
            candidates, count, _ = capacity
            return self._search.choose(record.spec, candidates, ids[:count], at_s, at_s, give_up_s)

        pin = chosen(found)
        other = self._search.without_foreign_memory(record, pin, ids, at_s)
        if other is None:
            return pin
        better = chosen(other)
        is_as_close = better.placement.tier <= pin.placement.tier
        return better if is_as_close and len(better.awaited) <= len(pin.awaited) else pin

    def _unpin_head(self, actions: list[Action]) -> None:
        if self.is_final:
            return
        job_id, self._head = self._head, None
        record = None if job_id is None else self._table.jobs.get(job_id)
        if record is None or record.standing is None or record.state not in _PINNED:
            return
        record.drop_standing()
        if record.state is JobState.WAITING:  # while clearing, it waits for its victims as before
            record.reason = ""
        actions.append(Unpin(job_id=record.job_id))

    def _awaits_victims(self, job_id: JobId) -> bool:
        pin = self._pin_of(job_id)
        return pin is not None and not self._table.cluster.has_free(shares_of(pin.placement))

    def _cleared_nodes(self) -> NodeSet:
        """Return the nodes that Slurm clears for jobs that preempt."""
        pins = (self._pin_of(job_id) for job_id in self.preemptors)
        cleared = (name for pin in pins if pin is not None for name in pin.placement.nodes)
        return self._table.cluster.nodes_named(cleared)

    def _pin_of(self, job_id: JobId | None) -> StandingPin | None:
        record = None if job_id is None else self._table.jobs.get(job_id)
        return None if record is None else record.standing


def _reason(pin: StandingPin) -> str:
    nodes = ", ".join(pin.placement.nodes[:4]) + ("..." if len(pin.placement.nodes) > 4 else "")
    if pin.is_preempting:
        return f"waits until Slurm has stopped other jobs on {nodes}"
    return f"is next: waits in Slurm for GPUs of {nodes} that other jobs hold"
