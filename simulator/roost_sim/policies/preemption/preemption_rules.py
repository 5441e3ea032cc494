"""Preemption rules that only simulations run; the others are in roost_engine.preemption.rules.

Sources: docs/simulator/policies.md.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import inf

from roost_engine.domain.model import JobId
from roost_engine.job_record import JobRecord
from roost_engine.preemption.rules import next_round_s, widest_first

_RUN_PER_RESTART = 10.0


@dataclass(frozen=True, slots=True)
class TimeSlices:
    """Round-robin: at the end of a slice a waiting job displaces the longest-running jobs.

    A preempted job waits at least to the end of the next slice. Otherwise it would at once
    displace the next job, that job another one, and so on: one waiting job would preempt all
    running ones. Jobs on several nodes migrate to fewer or closer ones.
    Source: Xiao et al., Gandiva, OSDI 2018.

    Attributes:
        slice_s: slices end at multiples of this.
        restart_s: (job, GPUs) to the seconds that a preemption costs. A job runs for at least
            `_RUN_PER_RESTART` times as long: shorter slices would be mostly restarts.
    """

    renews_leases = False  # not a field

    slice_s: float
    restart_s: Callable[[JobId, int], float]

    def lease_s(self, job: JobRecord) -> float:
        """See policies.PreemptPolicy."""
        restart_s = self.restart_s(job.job_id, job.spec.gpu_count)
        return max(self.slice_s, _RUN_PER_RESTART * restart_s)

    def first_to_go(self, running: Sequence[JobRecord], at_s: float) -> Sequence[JobRecord]:
        """See policies.PreemptPolicy: no victims except at the end of a slice."""
        if at_s % self.slice_s:
            return ()
        return sorted(running, key=lambda job: job.started_s or 0.0)

    def displaces(self, job: JobRecord, victim: JobRecord, at_s: float) -> bool:
        """See policies.PreemptPolicy."""
        return job.queued_s < at_s

    def review_s(self, at_s: float) -> float:
        """See policies.PreemptPolicy."""
        return next_round_s(self.slice_s, at_s)

    def movers(self, running: Sequence[JobRecord], at_s: float) -> Sequence[JobRecord]:
        """See policies.MovingPreemption."""
        return widest_first(running)


@dataclass(frozen=True, slots=True)
class ShortestIfItPays:
    """Shortest remaining time first, where the victims together wait less than the job would.

    Each victim waits for the run time of the job and for its own restart. Without preemption the
    job would wait until the last of the victims has ended. With one victim this is the exchange
    that makes shortest remaining time first optimal on one machine, with the restart added.

    Attributes:
        left_s: (job, engine time) to remaining work.
        restart_s: (job, GPUs) to the seconds that a preemption costs.
    """

    renews_leases = False  # not a field

    left_s: Callable[[JobId, float], float]
    restart_s: Callable[[JobId, int], float]

    def lease_s(self, job: JobRecord) -> float:
        """See policies.PreemptPolicy."""
        return 0.0

    def first_to_go(self, running: Sequence[JobRecord], at_s: float) -> Sequence[JobRecord]:
        """See policies.PreemptPolicy."""
        gain_s = {job.job_id: self._gain_s(job, at_s) for job in running}
        return sorted(running, key=lambda job: (-gain_s[job.job_id], -job.spec.submit_s))

    def displaces(self, job: JobRecord, victim: JobRecord, at_s: float) -> bool:
        """See policies.PreemptPolicy."""
        return self.left_s(job.job_id, at_s) < self._gain_s(victim, at_s)

    def approve(self, job: JobRecord, victims: Sequence[JobRecord], at_s: float) -> bool:
        """See policies.JudgingPreemption."""
        own_s = self.left_s(job.job_id, at_s)
        costs_s = sum(own_s + self._restart_s(victim) for victim in victims)
        return costs_s < max(self.left_s(victim.job_id, at_s) for victim in victims)

    def review_s(self, at_s: float) -> float:
        """See policies.PreemptPolicy."""
        return inf

    def _gain_s(self, victim: JobRecord, at_s: float) -> float:
        return self.left_s(victim.job_id, at_s) - self._restart_s(victim)

    def _restart_s(self, victim: JobRecord) -> float:
        return self.restart_s(victim.job_id, victim.spec.gpu_count)


@dataclass(frozen=True, slots=True)
class ShortestIfItPaysAndMoves(ShortestIfItPays):
    """ShortestIfItPays, plus migration: see preemption.rules.DisplaceAndMove."""

    def movers(self, running: Sequence[JobRecord], at_s: float) -> Sequence[JobRecord]:
        """See policies.MovingPreemption."""
        return widest_first(running)
