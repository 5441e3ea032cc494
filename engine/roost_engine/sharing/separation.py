"""Separates pairs that turned out bad: one of the two jobs is stopped, and waits for other GPUs.

A pair has turned out bad where a job of it has reported for some minutes that it loses more than
the site's limit. Of the two jobs the one that came last is stopped, if it may be; else the other
one. What a user's jobs report stops no job of another user, which must have reported a loss too.
It is not seated beside that job again. A job is stopped where that is expected to pay:

    gain = g(stays) · (1 - s(stays)) + g(goes) · (1 - s(goes))   GPUs' worth of speed; if the job
         = g(stays) · (1 - s(stays)) - g(goes) · s(goes)         finds no whole GPUs free, this
    stopped where gain · HORIZON_S > g(goes) · (min(checkpoint, run since it started) + restart)

g: the number of GPUs. s: the speed beside the other job as a fraction of the speed alone; 1 where
it is not reported.
So a job that would only wait is stopped only where two jobs, side by side, get less done than one.

Where a job outgrew the memory that it counted with, and does not fit on the GPU with the other one
any more, it is stopped at once if it may be, whatever speed that gains: else one of the two fails
where memory runs out, and it may be the one that kept to what it stated.

No job is stopped for this once it was stopped MOST_STOPS times, for whatever reason. The time
between two requests is limited too, and the number of stops in a partition and hour:
separation_budget.
Page: docs/sharing.md.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import inf

from roost_engine.cluster.node_sets import NodeSet
from roost_engine.domain.actions import Action
from roost_engine.domain.model import JobId
from roost_engine.job_record import JobRecord, JobState
from roost_engine.policies.protocols import CandidatePolicy
from roost_engine.policies.stop_permission import StopPermission
from roost_engine.sharing.memory_needs import Overfull
from roost_engine.sharing.pairs import LearningRule
from roost_engine.sharing.separation_budget import SeparationBudget
from roost_engine.table.job_table import JobTable

HORIZON_S = 3_600.0  # for which a separation is judged, as a lease in preemption
MOST_STOPS = 3


@dataclass(frozen=True, slots=True)
class _Bad:
    """A job that loses too much beside another.

    Attributes:
        beside: the other job.
        since_s: when it first reported so.
    """

    beside: JobId
    since_s: float


class Separation:
    """See the module.

    Args:
        budget: the numbers, and what was stopped before.
        rule: knows what runs have taught of pairs.
        table: the jobs.
        candidates: proposes whole GPUs.
    """

    def __init__(
        self,
        budget: SeparationBudget,
        rule: LearningRule,
        table: JobTable,
        candidates: CandidatePolicy,
    ) -> None:
        self._budget, self._config, self._rule = budget, budget.config, rule
        self._table, self._candidates = table, candidates
        named = budget.config.partitions
        self._permission = None if named is None else StopPermission(named)
        self._bad: dict[JobId, _Bad] = {}
        self._overfull: dict[JobId, Overfull] = {}  # by the job that outgrew its memory
        self._speeds: dict[JobId, tuple[JobId, float]] = {}  # beside which job, and how fast

    def note(self, record: JobRecord, other: JobRecord, speed_frac: float, at_s: float) -> None:
        """Note the speed of a job beside another, as a fraction of its speed alone."""
        job_id, beside = record.job_id, other.job_id
        self._speeds[job_id] = beside, min(speed_frac, 1.0)
        if not self._rule.is_beyond_limit(speed_frac):
            self._bad.pop(job_id, None)
            return
        known = self._bad.get(job_id)
        if known is None or known.beside != beside:
            self._bad[job_id] = _Bad(beside, at_s)

    def note_overfull(self, overfull: Overfull | None) -> None:
        """Note that two jobs do not fit on their GPU together any more; None: they do."""
        if overfull is not None:
            self._overfull[overfull.job] = overfull

    def forget(self, job_id: JobId) -> None:
        """Forget a job that has ended."""
        self._speeds.pop(job_id, None)
        self._budget.forget(job_id)

    def have_parted(self, job_id: JobId, host: JobId) -> bool:
        """Return whether a waiting job was separated from another one, or the other from it."""
        return self._budget.have_parted(job_id, host)

    def consider(self, reserved: NodeSet, at_s: float, actions: list[Action]) -> None:
        """Ask a job of each bad pair to stop, where it may be stopped and that pays.

        Args:
            reserved: nodes that are reserved for a job that waits.
            at_s: engine time.
            actions: the requests are added to it.
        """
        if not self._bad and not self._overfull:
            return
        self._budget.forget_expired(at_s)
        self._stop_outgrown(at_s, actions)
        for job_id, bad in tuple(self._bad.items()):
            pair = self._running(job_id, bad.beside)
            if pair is None:
                self._bad.pop(job_id, None)  # its partner's stop may have taken it out already
                continue
            if at_s - bad.since_s < self._config.settle_s:
                continue
            asked = [one for one in _last_first(pair) if self._may_be_named(one, pair)]
            leaving = next((one for one in asked if self._may_stop(one)), None)
            if leaving is not None:
                staying = pair[0] if leaving is pair[1] else pair[1]
                if self._pays(leaving, staying, reserved, at_s):
                    self._stop(leaving, pair[0], at_s, actions)

    def _stop_outgrown(self, at_s: float, actions: list[Action]) -> None:
        for job_id, overfull in tuple(self._overfull.items()):
            pair = self._running(job_id, overfull.beside)
            if pair is None:
                del self._overfull[job_id]
            elif self._may_stop(pair[0]):
                del self._overfull[job_id]
                self._budget.spend(pair[0].spec, overfull.beside, at_s)
                reason = f"leaves a shared GPU: {overfull.in_words}"
                self._table.ask_to_stop(pair[0], reason, None, at_s, actions)

    def review_s(self, at_s: float) -> float:
        """Return when the next pair has been bad for long enough; inf: none is known."""
        due = (bad.since_s + self._config.settle_s for bad in self._bad.values())
        return min((due_s for due_s in due if due_s > at_s), default=inf)

    def _running(self, job_id: JobId, beside: JobId) -> tuple[JobRecord, JobRecord] | None:
        """Return the jobs of a pair, if both run and still share a GPU."""
        jobs, seats = self._table.jobs, self._table.cluster.seats
        one, other = jobs.get(job_id), jobs.get(beside)
        if one is None or other is None or seats is None or beside not in seats.partners(job_id):
            return None
        are_running = one.state is JobState.RUNNING and other.state is JobState.RUNNING
        return (one, other) if are_running else None

    def _may_be_named(self, record: JobRecord, pair: tuple[JobRecord, JobRecord]) -> bool:
        """Return whether a job, or one of the same user, has reported that it loses too much."""
        one, other = pair
        if one.spec.user_id == other.spec.user_id:
            return True
        beside = other if record is one else one
        bad = self._bad.get(record.job_id)
        return bad is not None and bad.beside == beside.job_id

    def _may_stop(self, record: JobRecord) -> bool:
        if not record.spec.binding or record.stop_count >= MOST_STOPS:
            return False
        if self._permission is not None and not self._permission.may_stop(record):
            return False
        return self._budget.allows(record.spec)

    def _pays(self, leaving: JobRecord, staying: JobRecord, reserved: NodeSet, at_s: float) -> bool:
        own_frac = self._speed(leaving.job_id, staying.job_id)
        gained = staying.spec.gpu_count * (1.0 - self._speed(staying.job_id, leaving.job_id))
        has_place = self._has_place(leaving, reserved, at_s)
        gained += leaving.spec.gpu_count * (1.0 - own_frac if has_place else -own_frac)
        ran_s = at_s - leaving.started_s if leaving.started_s is not None else 0.0
        checkpoint_s = leaving.spec.checkpoint_s
        redone_s = ran_s if checkpoint_s is None else min(checkpoint_s, ran_s)
        lost_s = redone_s + self._config.restart_s
        return gained * HORIZON_S > leaving.spec.gpu_count * lost_s

    def _speed(self, job_id: JobId, beside: JobId) -> float:
        reported = self._speeds.get(job_id)
        return reported[1] if reported is not None and reported[0] == beside else 1.0

    def _has_place(self, record: JobRecord, reserved: NodeSet, at_s: float) -> bool:
        """Return whether a job would find whole GPUs free now that no waiting job could use."""
        job, (share, *_) = record.spec, record.shares
        if self._table.config.standing_pins_are_final:
            # Before 23.02 it could have these indices and seat only, on any node.
            job = replace(job, fixed_indices=share.gpu_indices, fixed_seat=share.seat)
        return bool(self._candidates.propose(self._table.cluster, job, reserved, at_s))

    def _stop(
        self, leaving: JobRecord, slow: JobRecord, at_s: float, actions: list[Action]
    ) -> None:
        bad = self._bad.pop(slow.job_id)
        self._bad.pop(bad.beside, None)
        staying_id = bad.beside if leaving is slow else slow.job_id
        self._budget.spend(leaving.spec, staying_id, at_s)
        speed = f"{self._speed(slow.job_id, bad.beside):.0%}"
        if leaving is slow:
            why = f"beside job {bad.beside} it reached {speed} of its speed alone"
        else:
            why = f"beside it job {slow.job_id} reached {speed} of its speed alone"
        self._table.ask_to_stop(leaving, f"leaves a shared GPU: {why}", None, at_s, actions)


def _last_first(pair: Sequence[JobRecord]) -> list[JobRecord]:
    def since(record: JobRecord) -> tuple[float, JobId]:
        return -inf if record.started_s is None else record.started_s, record.job_id

    return sorted(pair, key=since, reverse=True)
