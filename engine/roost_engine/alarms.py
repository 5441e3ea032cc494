"""What is due by time alone: alarms of jobs, limits that last too long, the next wake-up."""

from heapq import heappop
from math import inf

from roost_engine.domain.actions import Action, WakeAt
from roost_engine.policies.preemption_slot import PreemptionSlot
from roost_engine.preemption.preemption import Preemption
from roost_engine.reservations.released_preemptors import ReleasedPreemptors
from roost_engine.reservations.standing_pins import StandingPins
from roost_engine.sharing.seating import Seating
from roost_engine.table.job_table import JobTable
from roost_engine.table.refusals import refuse


class Alarms:
    """Rings the alarms of one engine, and asks for the wake-up at the next one.

    Args:
        table: every job, and the heap of alarms.
        standing, released, preemption, preempt: what else waits for a time.
        seating: likewise; None: jobs share no GPUs.
    """

    def __init__(
        self,
        table: JobTable,
        standing: StandingPins,
        released: ReleasedPreemptors,
        preemption: Preemption,
        preempt: PreemptionSlot,
        seating: Seating | None,
    ) -> None:
        self._table, self._config = table, table.config
        self._standing, self._released = standing, released
        self._preemption, self._preempt, self._seating = preemption, preempt, seating
        self._announced_s = inf

    def ring(self, at_s: float, actions: list[Action]) -> None:
        """Refuse placements that Slurm has not started in time; offer GPUs to jobs that paused.

        A job that can only have certain GPU indices is released to Slurm once it is overdue.
        """
        table = self._table
        while table.alarms and table.alarms[0][0] <= at_s:
            job_id = heappop(table.alarms)[1]
            if job_id in table.placing:
                if at_s >= table.jobs[job_id].start_deadline_s:
                    timeout = f"Slurm did not start it in {self._config.start_timeout_s:g} s"
                    refuse(table, job_id, timeout, at_s, actions)
            elif job_id in table.waiting:
                if table.is_overdue(job_id, at_s):
                    table.hand_over(job_id, at_s, actions)
                elif not self._standing.give_up(job_id, at_s, actions):
                    table.offer_later(job_id, at_s)
                    if table.jobs[job_id].promise is not None:
                        # The promise is checked in a pass: a job may have outlived its prediction.
                        table.queue.postpone()
            elif job_id in table.stopping and at_s >= table.jobs[job_id].safe_until_s:
                self._preemption.keep_running(job_id, at_s)

    def hand_over(self, at_s: float, actions: list[Action]) -> None:
        """Release the jobs to Slurm that one of its limits has kept waiting for long enough."""
        table, hand_over_s = self._table, self._config.hand_over_s
        limited = table.queue.limited
        if limited.next_hand_over_s(hand_over_s) <= at_s:
            for job_id, limit in limited.take_overdue(at_s - hand_over_s):
                why = f"Slurm's limit {limit} has kept it waiting for {hand_over_s:g} s"
                table.release_to_slurm(job_id, table.jobs[job_id], why, at_s, actions)

    def announce(self, at_s: float, actions: list[Action]) -> None:
        """Ask to be woken at the next alarm that still matters, unless that is asked already."""
        table, alarms, next_s = self._table, self._table.alarms, inf
        if self._announced_s <= at_s:
            self._announced_s = inf
        while alarms:
            next_s, job_id = alarms[0]
            if job_id in table.placing or table.is_awaited(next_s, job_id):
                break
            heappop(alarms)
            next_s = inf
        limited = table.queue.limited
        if limited.by_number:
            next_s = min(next_s, limited.next_hand_over_s(self._config.hand_over_s))
        if self._released.is_active:
            next_s = min(next_s, self._released.next_s)
        if table.running and self._preemption.is_wanted:
            next_s = min(next_s, self._preempt.review_s(at_s))
        if self._seating is not None:
            next_s = min(next_s, self._seating.review_s(at_s))
        if next_s < self._announced_s:
            self._announced_s = next_s
            actions.append(WakeAt(at_s=next_s))
