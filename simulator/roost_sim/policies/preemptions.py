"""Rules of who is stopped for whom. See core.policy.PreemptPolicy."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from math import inf
from typing import TypeAlias

from roost_sim.policies.job_values import Value
from roostd.core.jobs import JobRecord
from roostd.core.model import JobId
from roostd.core.policy import SortKey

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
    def rebids(self) -> bool:
        """See core.policy.PreemptPolicy."""
        return False

    def lease_s(self, job: JobRecord) -> float:
        """See core.policy.PreemptPolicy."""
        return self.safe_s

    def first_to_go(self, running: Sequence[JobRecord], at_s: float) -> Sequence[JobRecord]:
        """See core.policy.PreemptPolicy."""
        self._change_s = self.next_change(running, at_s)
        value = self.value
        return sorted(running, key=lambda job: (*value(job, at_s), _submit_s(job)), reverse=True)

    def displaces(self, job: JobRecord, victim: JobRecord, at_s: float) -> bool:
        """See core.policy.PreemptPolicy."""
        if self._asked != (job.job_id, at_s):
            self._asked, self._asked_value = (job.job_id, at_s), self.value(job, at_s)
        return self._asked_value < self.value(victim, at_s)

    def review_s(self, at_s: float) -> float:
        """See core.policy.PreemptPolicy."""
        change_s = self._change_s if self._change_s > at_s else inf
        return min(change_s, next_round_s(self.round_s, at_s))


@dataclass(frozen=True, slots=True)
class TimeSlices:
    """Round-robin: at the end of a slice, who waits displaces who has run for one, oldest first.

    Who was stopped waits at least to the end of the next slice. Without that he would at once
    displace the next one, and so on: one job that waits would stop all that run. While nobody
    waits, jobs that span nodes are moved to span fewer, or closer ones.

    Attributes:
        slice_s: slices end at multiples of it.
    """

    slice_s: float

    @property
    def rebids(self) -> bool:
        """See core.policy.PreemptPolicy."""
        return False

    def lease_s(self, job: JobRecord) -> float:
        """See core.policy.PreemptPolicy."""
        return self.slice_s

    def first_to_go(self, running: Sequence[JobRecord], at_s: float) -> Sequence[JobRecord]:
        """See core.policy.PreemptPolicy. Between the ends of slices nobody goes."""
        if at_s % self.slice_s:
            return ()
        return sorted(running, key=lambda job: job.started_s or 0.0)

    def displaces(self, job: JobRecord, victim: JobRecord, at_s: float) -> bool:
        """See core.policy.PreemptPolicy."""
        return job.queued_s < at_s

    def review_s(self, at_s: float) -> float:
        """See core.policy.PreemptPolicy."""
        return next_round_s(self.slice_s, at_s)

    def movers(self, running: Sequence[JobRecord], at_s: float) -> Sequence[JobRecord]:
        """See core.policy.MovingPreemption. Who spans most nodes first."""
        spread = [job for job in running if len(job.shares) > 1]
        return sorted(spread, key=lambda job: -len(job.shares))


@dataclass(frozen=True, slots=True)
class Leases:
    """Every job gives its GPUs up when its lease ends, and bids anew with all others.

    Attributes:
        length_s: of a lease.
    """

    length_s: float

    @property
    def rebids(self) -> bool:
        """See core.policy.PreemptPolicy."""
        return True

    def lease_s(self, job: JobRecord) -> float:
        """See core.policy.PreemptPolicy."""
        return self.length_s

    def first_to_go(self, running: Sequence[JobRecord], at_s: float) -> Sequence[JobRecord]:
        """See core.policy.PreemptPolicy."""
        return running

    def displaces(self, job: JobRecord, victim: JobRecord, at_s: float) -> bool:
        """See core.policy.PreemptPolicy."""
        return False

    def review_s(self, at_s: float) -> float:
        """See core.policy.PreemptPolicy."""
        return inf


def next_round_s(round_s: float, at_s: float) -> float:
    """The first multiple of a round after a time; inf where rounds are endless."""
    return inf if round_s == inf else (at_s // round_s + 1) * round_s


def _submit_s(job: JobRecord) -> float:
    assert job.spec is not None
    return job.spec.submit_s
