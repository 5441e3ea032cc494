"""The slot of preemption: which running jobs are stopped, and for which waiting job."""

from collections.abc import Sequence
from math import inf
from typing import cast

from roost_engine.domain.errors import PolicyError
from roost_engine.domain.tier import Tier
from roost_engine.job_record import JobRecord, JobState
from roost_engine.policies.heuristics import NoPreemption
from roost_engine.policies.preemption_protocols import (
    JudgingMoves,
    JudgingPreemption,
    MovingPreemption,
    PreemptPolicy,
    RankingPreemption,
    ServesDeferred,
)
from roost_engine.policies.slots import FaultLog, PolicySlot
from roost_engine.policies.stoppable_jobs import StoppableJobs


class PreemptionSlot(PolicySlot):
    """Which running jobs are stopped, and for which waiting job.

    Attributes:
        stops_none: whether it is the heuristic, which need not be asked.
        migrates: whether the policy also migrates running jobs.
        renews_leases, serves_deferred: see policies.PreemptPolicy and policies.ServesDeferred.
        ranks_by_runs: see policies.RankingPreemption.
    """

    def __init__(self, policy: PreemptPolicy, faults: FaultLog) -> None:
        super().__init__("preemption", policy, faults)
        self._policy, self._heuristic = policy, NoPreemption()
        self.stops_none = type(policy) is NoPreemption
        # By the class: an isinstance would read `renews_leases`, which may fail.
        self._judge = cast(JudgingPreemption, policy) if _can(policy, "approve") else None
        self._mover = cast(MovingPreemption, policy) if _can(policy, "movers") else None
        self.migrates = self._mover is not None
        self._move_judge = cast(JudgingMoves, policy) if _can(policy, "approve_move") else None
        ranker = cast(RankingPreemption, policy) if _can(policy, "displaced_count") else None
        self._ranker, self.ranks_by_runs = ranker, False
        if ranker is not None:
            self.ranks_by_runs = self.ask(lambda: bool(ranker.ranks_by_runs), lambda: False)
        # The last ranking, of which jobs, and when.
        self._ranked: tuple[Sequence[JobRecord], Sequence[JobRecord], float] = (), (), -inf
        self.renews_leases = self.ask(lambda: bool(policy.renews_leases), lambda: False)
        # Policies that never heard of it are not asked: each question counts.
        self.serves_deferred = hasattr(type(policy), "serves_deferred") and self.ask(
            lambda: bool(cast(ServesDeferred, policy).serves_deferred), lambda: False
        )

    def lease_s(self, job: JobRecord) -> float:
        """Return for how many seconds a started job is safe; inf if the policy fails."""

        def asked() -> float:
            lease_s = float(self._policy.lease_s(job))
            if not lease_s >= 0:
                raise PolicyError(f"{self.name} gave a lease of {lease_s!r} s")
            return lease_s

        return self.ask(asked, lambda: self._heuristic.lease_s(job))

    def first_to_go(self, running: Sequence[JobRecord], at_s: float) -> Sequence[JobRecord]:
        """Return the jobs that may be stopped now, the first victim first."""
        if self.ranks_by_runs:
            known, of_jobs, of_s = self._ranked
            if of_s == at_s and of_jobs == running:
                return known
        ranked = self.ask(
            lambda: self._among(running, self._policy.first_to_go(running, at_s)), lambda: ()
        )
        self._ranked = ranked, running, at_s
        return ranked

    def displaced(
        self, job: JobRecord, ranked: Sequence[JobRecord], at_s: float
    ) -> Sequence[JobRecord]:
        """Return the ranked jobs up to the first that a job may not displace.

        One of them may have been asked to stop since the ranking; a policy that is asked about each
        pair is not asked about such a job.

        Args:
            job: the waiting job.
            ranked: what `first_to_go` returned last.
            at_s: engine time.
        """
        ranker = self._ranker
        if ranker is not None:

            def counted() -> int:
                count = ranker.displaced_count(job, ranked, at_s)
                if not isinstance(count, int) or not 0 <= count <= len(ranked):
                    raise PolicyError(f"{self.name} displaces {count!r} of {len(ranked)} jobs")
                return count

            return ranked[: self.ask(counted, lambda: 0)]
        found: list[JobRecord] = []
        for each in ranked:
            if each.state is JobState.RUNNING:
                if not self._displaces(job, each, at_s):
                    break
                found.append(each)
        return found

    def _displaces(self, job: JobRecord, victim: JobRecord, at_s: float) -> bool:
        self._asked_count += 1
        try:
            return bool(self._policy.displaces(job, victim, at_s))
        except Exception as error:  # noqa: BLE001  as `ask`, which costs too much for each pair
            self._faults.note(self.slot, self.name, self._asked_count - 1, error)
            return False

    def review_s(self, at_s: float) -> float:
        """Return when to consider preemption again without an event; inf: never."""

        def asked() -> float:
            next_s = float(self._policy.review_s(at_s))
            if not next_s > at_s:
                raise PolicyError(f"{self.name} wants a review at {next_s!r} s, it is {at_s:g} s")
            return next_s

        return self.ask(asked, lambda: inf)

    def approve(self, job: JobRecord, victims: Sequence[JobRecord], at_s: float) -> bool:
        """Return whether all victims may be stopped for a job."""
        judge = self._judge
        if judge is None:
            return True
        return self.ask(lambda: bool(judge.approve(job, victims, at_s)), lambda: False)

    def movers(self, running: Sequence[JobRecord], at_s: float) -> Sequence[JobRecord]:
        """Return the jobs worth a restart for a closer placement, best first."""
        mover = self._mover
        if mover is None:
            return ()
        return self.ask(lambda: self._among(running, mover.movers(running, at_s)), lambda: ())

    def approve_move(self, job: JobRecord, tier: Tier, at_s: float) -> bool:
        """Return whether a job may be stopped for a placement of this tier."""
        judge = self._move_judge
        if judge is None:
            return True
        return self.ask(lambda: bool(judge.approve_move(job, tier, at_s)), lambda: False)

    def _among(
        self, running: Sequence[JobRecord], chosen: Sequence[JobRecord]
    ) -> Sequence[JobRecord]:
        if isinstance(running, StoppableJobs) and running.is_ranking(chosen):
            return chosen
        jobs = chosen if isinstance(chosen, list | tuple) else tuple(chosen)
        named = set(map(id, jobs))
        if len(named) != len(jobs):
            raise PolicyError(f"{self.name} chose a job twice")
        if not named.issubset(map(id, running)):
            raise PolicyError(f"{self.name} chose a job that may not be stopped")
        return jobs


def _can(policy: object, method: str) -> bool:
    return callable(getattr(type(policy), method, None))
