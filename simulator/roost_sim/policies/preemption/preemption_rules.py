"""Preemption rules: which running jobs may be preempted for a waiting job. See PreemptPolicy.

Sources: docs/simulator/policies.md.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from math import inf
from operator import itemgetter
from typing import TypeAlias

from roost_engine.domain.model import JobId
from roost_engine.job_record import JobRecord
from roost_engine.policies import JudgingPreemption, PreemptPolicy, SortKey
from roost_sim.policies.order.job_values import Value

_RUN_PER_RESTART = 10.0
_VALUE_AND_SUBMISSION = itemgetter(0, 1)

# (running jobs, engine time) to the time at which their order changes next without any event.
NextChange: TypeAlias = Callable[[Sequence[JobRecord], float], float]


def never_changes(running: Sequence[JobRecord], at_s: float) -> float:
    """See NextChange: the order changes only with events."""
    return inf


@dataclass(slots=True)
class DisplaceBy:
    """A waiting job displaces running jobs of a higher value, the highest first.

    Attributes:
        value: the value of the composition's order, so that a job that displaces others is also
            served first.
        safe_s: a job is not preempted for so long after its start.
        round_s: review at least at every multiple of this.
        next_change: review at that time too.
    """

    value: Value
    safe_s: float = 0.0
    round_s: float = inf
    next_change: NextChange = never_changes
    _change_s: float = field(default=inf, init=False)
    _asked: tuple[JobId, float] | None = field(default=None, init=False)
    _asked_value: SortKey = field(default=(), init=False)

    @property
    def renews_leases(self) -> bool:
        """See policies.PreemptPolicy."""
        return False

    def lease_s(self, job: JobRecord) -> float:
        """See policies.PreemptPolicy."""
        return self.safe_s

    def first_to_go(self, running: Sequence[JobRecord], at_s: float) -> Sequence[JobRecord]:
        """See policies.PreemptPolicy."""
        self._change_s = self.next_change(running, at_s)
        value = self.value
        keyed = [(value(job, at_s), job.spec.submit_s, job) for job in running if job.spec]
        keyed.sort(key=_VALUE_AND_SUBMISSION, reverse=True)
        return [job for _, _, job in keyed]

    def displaces(self, job: JobRecord, victim: JobRecord, at_s: float) -> bool:
        """See policies.PreemptPolicy."""
        if self._asked != (job.job_id, at_s):
            self._asked, self._asked_value = (job.job_id, at_s), self.value(job, at_s)
        return self._asked_value < self.value(victim, at_s)

    def review_s(self, at_s: float) -> float:
        """See policies.PreemptPolicy."""
        change_s = self._change_s if self._change_s > at_s else inf
        return min(change_s, next_round_s(self.round_s, at_s))


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

    slice_s: float
    restart_s: Callable[[JobId, int], float]

    @property
    def renews_leases(self) -> bool:
        """See policies.PreemptPolicy."""
        return False

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

    left_s: Callable[[JobId, float], float]
    restart_s: Callable[[JobId, int], float]

    @property
    def renews_leases(self) -> bool:
        """See policies.PreemptPolicy."""
        return False

    def lease_s(self, job: JobRecord) -> float:
        """See policies.PreemptPolicy."""
        return 0.0

    def first_to_go(self, running: Sequence[JobRecord], at_s: float) -> Sequence[JobRecord]:
        """See policies.PreemptPolicy."""
        gain_s = {job.job_id: self._gain_s(job, at_s) for job in running}
        return sorted(running, key=lambda job: (-gain_s[job.job_id], -_submit_s(job)))

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
class WithMigration:
    """Another rule, plus migration: jobs on several nodes move closer together.

    They migrate to capacity that no waiting job can use. A job that starts again after a
    preemption takes whatever is free, maybe across racks, and would stay there without migration.

    Attributes:
        rule: chooses the victims.
    """

    rule: PreemptPolicy

    @classmethod
    def of(cls, rule: PreemptPolicy) -> "WithMigration":
        """Add migration to a rule; the result approves plans if the rule does."""
        return JudgedWithMigration(rule) if isinstance(rule, JudgingPreemption) else cls(rule)

    @property
    def renews_leases(self) -> bool:
        """See policies.PreemptPolicy."""
        return self.rule.renews_leases

    def lease_s(self, job: JobRecord) -> float:
        """See policies.PreemptPolicy."""
        return self.rule.lease_s(job)

    def first_to_go(self, running: Sequence[JobRecord], at_s: float) -> Sequence[JobRecord]:
        """See policies.PreemptPolicy."""
        return self.rule.first_to_go(running, at_s)

    def displaces(self, job: JobRecord, victim: JobRecord, at_s: float) -> bool:
        """See policies.PreemptPolicy."""
        return self.rule.displaces(job, victim, at_s)

    def review_s(self, at_s: float) -> float:
        """See policies.PreemptPolicy."""
        return self.rule.review_s(at_s)

    def movers(self, running: Sequence[JobRecord], at_s: float) -> Sequence[JobRecord]:
        """See policies.MovingPreemption."""
        return widest_first(running)


@dataclass(frozen=True, slots=True)
class JudgedWithMigration(WithMigration):
    """The same for a rule that approves or rejects whole plans."""

    def approve(self, job: JobRecord, victims: Sequence[JobRecord], at_s: float) -> bool:
        """See policies.JudgingPreemption."""
        assert isinstance(self.rule, JudgingPreemption)
        return self.rule.approve(job, victims, at_s)


@dataclass(frozen=True, slots=True)
class Leases:
    """Every job releases its GPUs when its lease ends, and competes again with all other jobs.

    Attributes:
        length_s: length of a lease.
    """

    length_s: float

    @property
    def renews_leases(self) -> bool:
        """See policies.PreemptPolicy."""
        return True

    def lease_s(self, job: JobRecord) -> float:
        """See policies.PreemptPolicy."""
        return self.length_s

    def first_to_go(self, running: Sequence[JobRecord], at_s: float) -> Sequence[JobRecord]:
        """See policies.PreemptPolicy."""
        return running

    def displaces(self, job: JobRecord, victim: JobRecord, at_s: float) -> bool:
        """See policies.PreemptPolicy."""
        return False

    def review_s(self, at_s: float) -> float:
        """See policies.PreemptPolicy."""
        return inf


def next_round_s(round_s: float, at_s: float) -> float:
    """Return the first multiple of `round_s` after a time; inf if `round_s` is."""
    return inf if round_s == inf else (at_s // round_s + 1) * round_s


def widest_first(running: Sequence[JobRecord]) -> Sequence[JobRecord]:
    """Return the jobs on several nodes, most nodes first."""
    spread = [job for job in running if len(job.shares) > 1]
    return sorted(spread, key=lambda job: -len(job.shares))


def _submit_s(job: JobRecord) -> float:
    return job.spec.submit_s
