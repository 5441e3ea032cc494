"""The Protocols of preemption: which running jobs are stopped or moved, and for which waiting job.

A policy implements PreemptPolicy, and of the others those that it can answer. See `protocols` for
what holds for every plug-in.
"""

from collections.abc import Callable, Sequence
from typing import Protocol, runtime_checkable

from roost_engine.domain.tier import Tier
from roost_engine.domain.value import value
from roost_engine.job_record import JobRecord
from roost_engine.policies.protocols import SortKey
from roost_engine.policies.stop_permission import StopPermission


class PreemptPolicy(Protocol):
    """Chooses which running jobs are stopped for which waiting job, and when."""

    def lease_s(self, job: JobRecord) -> float:
        """Return for how many seconds a started job is safe; inf: it may never be stopped.

        When `renews_leases` is true the job frees its GPUs by then and is placed again.
        """

    @property
    def renews_leases(self) -> bool:
        """Whether a job whose lease has ended is placed again even if no job wants its GPUs."""

    def first_to_go(self, running: Sequence[JobRecord], at_s: float) -> Sequence[JobRecord]:
        """Return the jobs that may be stopped now, the first victim first.

        Args:
            running: jobs whose lease has ended, in the order they were first seen.
            at_s: engine time.
        """

    def displaces(self, job: JobRecord, victim: JobRecord, at_s: float) -> bool:
        """Return whether a waiting job may have the GPUs of a running one."""

    def review_s(self, at_s: float) -> float:
        """Return when to consider preemption again without an event; inf: never."""


@runtime_checkable
class ServesDeferred(PreemptPolicy, Protocol):
    """A policy that may also stop jobs for a job that the gate lets wait for a closer place.

    Such a job has an offer and declined it. It gets GPUs of running jobs only on the closest tier
    that it could have, in its tightest shape.
    """

    @property
    def serves_deferred(self) -> bool:
        """Whether it does; other policies serve only jobs without any offer."""


@runtime_checkable
class RankingPreemption(PreemptPolicy, Protocol):
    """A policy that lets a waiting job displace the first jobs of its ranking, and no others.

    It is asked once how many, not about each of hundreds of running jobs.
    """

    @property
    def ranks_by_runs(self) -> bool:
        """Whether a ranking depends on nothing but the time and when each job ran before.

        Then the same jobs are ranked once for each engine time, and a report of how fast a job runs
        changes no answer.
        """

    def displaced_count(self, job: JobRecord, ranked: Sequence[JobRecord], at_s: float) -> int:
        """Return how many of the first jobs of a ranking a waiting job may displace.

        Args:
            job: the waiting job.
            ranked: what `first_to_go` returned last.
            at_s: engine time of that.
        """


@value(kw_only=True)
class Displacement:
    """How waiting jobs displace running ones by values: the lower displaces the higher.

    Attributes:
        value: of a job, at an engine time; asking for it notes nothing.
        permission: which jobs may be stopped; None: every job.
        lease_s: a job is not stopped for so long after its start.
        grows: whether a forecast adds a job's GPU count to its value for each second of its run.
    """

    value: Callable[[JobRecord, float], SortKey]
    permission: StopPermission | None
    lease_s: float
    grows: bool


@runtime_checkable
class ValuedPreemption(RankingPreemption, Protocol):
    """A ranking policy that compares jobs by nothing but a value of each: forecasts play that."""

    @property
    def displacement(self) -> Displacement:
        """How it compares them."""


@runtime_checkable
class JudgingPreemption(PreemptPolicy, Protocol):
    """A policy that judges whole plans, and may count the stops that it approves."""

    def approve(self, job: JobRecord, victims: Sequence[JobRecord], at_s: float) -> bool:
        """Return whether all victims may be stopped for a job; if so, they are asked at once."""


@runtime_checkable
class MovingPreemption(PreemptPolicy, Protocol):
    """A policy that also migrates running jobs closer together, for their own sake."""

    def movers(self, running: Sequence[JobRecord], at_s: float) -> Sequence[JobRecord]:
        """Return the jobs worth a restart for a closer tier, or fewer nodes of it; best first.

        Asked when nodes were freed and every waiting job was offered them. The engine searches for
        the placement, and stops no job without one.

        Args:
            running: jobs whose lease has ended, in the order they were first seen.
            at_s: engine time.
        """


@runtime_checkable
class JudgingMoves(MovingPreemption, Protocol):
    """A policy that judges each migration, and may count those that it approves."""

    def approve_move(self, job: JobRecord, tier: Tier, at_s: float) -> bool:
        """Return whether a job may be stopped for a place on a tier; if so, it is asked at once."""
