"""Preemption rules: which running jobs may be preempted for a waiting job. See PreemptPolicy.

Sources: docs/simulator/policies.md. A rule with a permission stops only the jobs that it allows.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from math import inf
from typing import TypeAlias

from roost_engine.job_record import JobRecord
from roost_engine.policies.preemption_protocols import Displacement
from roost_engine.policies.protocols import SortKey
from roost_engine.policies.stop_permission import StopPermission
from roost_engine.policies.stoppable_jobs import Beyond, Ranking, StoppableJobs
from roost_engine.prediction.service import ServiceLeft
from roost_engine.queue.orders import Value, attained_service

ROUND_S = 360.0  # of Gavel (OSDI 2020)
LONG_ROUND_S = 1_800.0  # of `las-closer-moves`: half of the stops of 360 s; docs/results/order.md
DALLY_LEASE_S = 3_600.0  # Sharma et al., arXiv 2401.16492

# (running jobs, engine time) to the time at which their order changes next without any event.
NextChange: TypeAlias = Callable[[Sequence[JobRecord], float], float]


def never_changes(running: Sequence[JobRecord], at_s: float) -> float:
    """See NextChange: the order changes only with events."""
    return inf


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleConfig:
    """What the configurations of the rules below share.

    Attributes:
        partitions: the partitions that allow preemption; None: every job may be stopped.
    """

    reads_predictors = False  # not a field: whether the rule asks for run times

    partitions: tuple[str, ...] | None = None

    @property
    def permission(self) -> StopPermission | None:
        """Which jobs may be stopped; None: every job."""
        return None if self.partitions is None else StopPermission(self.partitions)


@dataclass(frozen=True, slots=True, kw_only=True)
class LasMovesConfig(RuleConfig):
    """Configuration of the rule `las-moves`.

    Attributes:
        lease_s: how long a started job is not stopped, and the time from one review to the next.
        serves_deferred: see policies.ServesDeferred; False in journals of earlier versions.
    """

    lease_s: float = ROUND_S
    serves_deferred: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class LearnedMovesConfig(RuleConfig):
    """Configuration of the rule `learned-moves`; `lease_s` as in LasMovesConfig."""

    reads_predictors = True

    lease_s: float = ROUND_S


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownLeftMovesConfig(RuleConfig):
    """Configuration of the rule `known-left-moves`; `lease_s` as in LasMovesConfig."""

    reads_predictors = True

    lease_s: float = LONG_ROUND_S


@dataclass(frozen=True, slots=True, kw_only=True)
class LeasesConfig(RuleConfig):
    """Configuration of the rule `leases`; `lease_s` is how long a started job keeps its GPUs."""

    lease_s: float = DALLY_LEASE_S


def las_moves(config: LasMovesConfig) -> "DisplaceAndMove":
    """Make the rule `las-moves`: the most attained GPU-seconds are stopped first; jobs migrate.

    With `serves_deferred` it is the rule `las-closer-moves`.
    """
    return DisplaceAndMove(
        attained_service,
        safe_s=config.lease_s,
        round_s=config.lease_s,
        permission=config.permission,
        name="las-closer-moves" if config.serves_deferred else "las-moves",
        serves_deferred=config.serves_deferred,
        ranks_by_runs=True,
        grows=True,
    )


def learned_moves(config: LearnedMovesConfig, left: ServiceLeft) -> "DisplaceAndMove":
    """Make the rule `learned-moves`: the most expected service is stopped first; jobs migrate.

    Args:
        config: the numbers.
        left: gives the values of the order that belongs to it: what jobs are expected to need.
    """
    return DisplaceAndMove(
        left.value,
        safe_s=config.lease_s,
        round_s=config.lease_s,
        permission=config.permission,
        name="learned-moves",
        peek=left.peek,
        is_trusted=left.is_trusted,
    )


def known_left_moves(config: KnownLeftMovesConfig, left: ServiceLeft) -> "DisplaceAndMove":
    """Make the rule `known-left-moves`: as `las-closer-moves`, by these values of `known-left`."""
    return DisplaceAndMove(
        left.value,
        safe_s=config.lease_s,
        round_s=config.lease_s,
        permission=config.permission,
        name="known-left-moves",
        serves_deferred=True,
        ranks_by_runs=True,
        peek=left.peek,
        grows=True,
        beyond=Beyond(left.first_gpu_s, left.values_of_running),
    )


def leases(config: LeasesConfig) -> "Leases":
    """Make the rule `leases`: after a lease a job competes again."""
    return Leases(config.lease_s, permission=config.permission)


@dataclass(slots=True)
class DisplaceBy:
    """A waiting job displaces running jobs of a higher value, the highest first.

    Attributes:
        value: the value of the composition's order, so that a job that displaces others is also
            served first.
        safe_s: a job is not preempted for so long after its start.
        round_s: review at least at every multiple of this.
        next_change: review at that time too.
        permission: which jobs may be stopped; None: every job.
        name: what operators call the rule.
        serves_deferred: see policies.ServesDeferred.
        ranks_by_runs: see policies.RankingPreemption.
        peek: the value for readers outside the engine; None: `value` notes nothing.
        grows: see policies.Displacement.
        is_trusted: returns whether forecasts count in the value. While they do not it is attained
            service, so it grows, and leases are as long as those of `roost`. None: there are none.
        beyond: the jobs whose `value` is not their attained service, so that all others are ranked
            by one numpy call; None: the value of any job may be another one.
    """

    renews_leases = False  # not a field

    value: Value
    safe_s: float = 0.0
    round_s: float = inf
    next_change: NextChange = never_changes
    permission: StopPermission | None = None
    name: str = "displacement"
    serves_deferred: bool = False
    ranks_by_runs: bool = False
    peek: Value | None = None
    grows: bool = False
    is_trusted: Callable[[], bool] | None = None
    beyond: Beyond | None = None
    _change_s: float = field(default=inf, init=False)
    # The last ranking: by attained service, or the values of another one.
    _ranking: Ranking | None = field(default=None, init=False)
    _ranked_values: list[SortKey] = field(default_factory=list, init=False)

    @property
    def displacement(self) -> Displacement:
        """See policies.ValuedPreemption."""
        value = self.peek or self.value
        grows = self.grows if self.is_trusted is None else not self.is_trusted()
        return Displacement(
            value=value, permission=self.permission, lease_s=self._now_s(self.safe_s), grows=grows
        )

    def lease_s(self, job: JobRecord) -> float:
        """See policies.PreemptPolicy."""
        return self._now_s(self.safe_s) if _may_stop(self.permission, job) else inf

    def _now_s(self, span_s: float) -> float:
        """Return a lease, or the time between two reviews, as long as it is at present."""
        is_short = self.is_trusted is None or self.is_trusted()
        return span_s if is_short else max(span_s, LONG_ROUND_S)

    def first_to_go(self, running: Sequence[JobRecord], at_s: float) -> Sequence[JobRecord]:
        """See policies.PreemptPolicy."""
        self._change_s = self.next_change(running, at_s)
        is_by_service = self.value is attained_service or self.beyond is not None
        if is_by_service and isinstance(running, StoppableJobs):
            self._ranking = running.by_attained_service(at_s, self.beyond)
            return self._ranking.jobs
        self._ranking, value = None, self.value
        values = [value(job, at_s) for job in running]
        # Flat keys: sorting tuples within tuples takes several times as long.
        keys = [(*found, job.spec.submit_s) for found, job in zip(values, running, strict=True)]
        places = sorted(range(len(keys)), key=keys.__getitem__, reverse=True)
        self._ranked_values = [values[place] for place in places]
        return [running[place] for place in places]

    def displaces(self, job: JobRecord, victim: JobRecord, at_s: float) -> bool:
        """See policies.PreemptPolicy."""
        if self.permission is not None and not self.permission.covers(job):
            return False
        return self.value(job, at_s) < self.value(victim, at_s)

    def displaced_count(self, job: JobRecord, ranked: Sequence[JobRecord], at_s: float) -> int:
        """See policies.RankingPreemption."""
        if self.permission is not None and not self.permission.covers(job):
            return 0
        if self._ranking is not None:
            return self._ranking.count_above(float(self.value(job, at_s)[0]))
        own, values = self.value(job, at_s), self._ranked_values
        # Values descend: bisect for the first that is not above the job's own.
        low, high = 0, len(values)
        while low < high:
            middle = (low + high) // 2
            if own < values[middle]:
                low = middle + 1
            else:
                high = middle
        return low

    def review_s(self, at_s: float) -> float:
        """See policies.PreemptPolicy."""
        change_s = self._change_s if self._change_s > at_s else inf
        return min(change_s, next_round_s(self._now_s(self.round_s), at_s))


@dataclass(slots=True)
class DisplaceAndMove(DisplaceBy):
    """DisplaceBy, plus migration: jobs on several nodes move closer together.

    They migrate to capacity that no waiting job can use. A job that starts again after a
    preemption takes whatever is free, maybe across racks, and would stay there without migration.
    """

    name: str = "displacement-moves"

    def movers(self, running: Sequence[JobRecord], at_s: float) -> Sequence[JobRecord]:
        """See policies.MovingPreemption."""
        return widest_first(running)


@dataclass(frozen=True, slots=True)
class Leases:
    """Every job releases its GPUs when its lease ends, and competes again with all other jobs.

    Attributes:
        length_s: length of a lease.
        permission: which jobs may be stopped; None: every job.
    """

    renews_leases = True  # not a field

    length_s: float
    permission: StopPermission | None = None
    name: str = "leases"

    def lease_s(self, job: JobRecord) -> float:
        """See policies.PreemptPolicy."""
        return self.length_s if _may_stop(self.permission, job) else inf

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


def _may_stop(permission: StopPermission | None, job: JobRecord) -> bool:
    return permission is None or permission.may_stop(job)
