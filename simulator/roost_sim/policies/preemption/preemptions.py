"""Rules of who is stopped for whom. See policies.PreemptPolicy."""

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

# When the order of running jobs next changes though nothing happens: of them, at an engine time.
NextChange: TypeAlias = Callable[[Sequence[JobRecord], float], float]


def never_changes(running: Sequence[JobRecord], at_s: float) -> float:
    """Only events change anything."""
    return inf


@dataclass(slots=True)
class DisplaceBy:
    """A waiting job of a lower value displaces running ones of a higher value, the highest first.

    Attributes:
        value: as the order's, so that who displaces is also served first.
        safe_s: a started job is left alone for so long.
        round_s: look at least so often, at multiples of it.
        next_change: look at that time too.
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
    """Round-robin: at the end of a slice, who waits displaces who has run for one, oldest first.

    Who was stopped waits at least to the end of the next slice. Without that he would at once
    displace the next one, and so on: one job that waits would stop all that run. Jobs that
    span nodes are moved to span fewer, or closer ones.

    Attributes:
        slice_s: slices end at multiples of it.
        restart_s: what a stop costs a job of so many GPUs; slices of a few seconds of work each
            would do nobody good, so a job runs `_RUN_PER_RESTART` times as long at least.
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
        """See policies.PreemptPolicy. Between the ends of slices nobody goes."""
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
    """Who has least left displaces who has most, if all of them together wait less for it.

    Each victim waits as long as the job runs, and for its own restart. The job would wait for the
    victims; here until the last of them has ended. With one victim that is the exchange which
    makes shortest remaining time first best on one machine, with the restart counted.

    Attributes:
        left_s: work that a job has left, at a time.
        restart_s: what a stop costs a job of so many GPUs.
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
class AndMoves:
    """Another rule; and jobs that span nodes move closer together, to room of no use to who waits.

    Whoever comes back after a stop takes what is free, maybe far apart, and would stay there.

    Attributes:
        rule: who is stopped for whom.
    """

    rule: PreemptPolicy

    @classmethod
    def of(cls, rule: PreemptPolicy) -> "AndMoves":
        """With the rule's say on whole plans, where it has one."""
        return JudgedAndMoves(rule) if isinstance(rule, JudgingPreemption) else cls(rule)

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
class JudgedAndMoves(AndMoves):
    """The same for a rule that judges whole plans."""

    def approve(self, job: JobRecord, victims: Sequence[JobRecord], at_s: float) -> bool:
        """See policies.JudgingPreemption."""
        assert isinstance(self.rule, JudgingPreemption)
        return self.rule.approve(job, victims, at_s)


@dataclass(frozen=True, slots=True)
class Leases:
    """Every job gives its GPUs up when its lease ends, and bids anew with all others.

    Attributes:
        length_s: of a lease.
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
    """The first multiple of a round after a time; inf where rounds are endless."""
    return inf if round_s == inf else (at_s // round_s + 1) * round_s


def widest_first(running: Sequence[JobRecord]) -> Sequence[JobRecord]:
    """Those that span several nodes, who spans most first."""
    spread = [job for job in running if len(job.shares) > 1]
    return sorted(spread, key=lambda job: -len(job.shares))


def _submit_s(job: JobRecord) -> float:
    return job.spec.submit_s
