"""Fake policies, which decide as a test says."""

from collections.abc import Callable, Sequence
from math import inf

import numpy as np
from numpy.typing import NDArray

from roost_engine.domain.errors import PolicyError
from roost_engine.domain.events import Event
from roost_engine.domain.model import JobId, JobSpec
from roost_engine.job_record import JobRecord
from roost_engine.policies.protocols import Allow, GateVerdict, Offer, QueueView, WaitEnded
from roost_engine.prediction.predictors import Predictors
from roost_engine.prediction.run_time.run_times import BAND_COUNT, RunTimes, band_of


class FakeScore:
    """Prefers the candidate at one position; records the features of each call."""

    name = "fake"

    def __init__(self, favourite: int = 0) -> None:
        self.favourite = favourite
        self.asked: list[NDArray[np.float32]] = []

    def score(self, features: NDArray[np.float32]) -> NDArray[np.float32]:
        """See policies.ScorePolicy."""
        self.asked.append(features)
        wanted = self.favourite % len(features)
        return np.asarray(np.arange(len(features)) == wanted, dtype=np.float32)


class FailingScore:
    """Raises PolicyError on every call."""

    name = "failing"

    def __init__(self, reason: str = "the model is broken") -> None:
        self.reason = reason

    def score(self, features: NDArray[np.float32]) -> NDArray[np.float32]:
        """See policies.ScorePolicy."""
        raise PolicyError(self.reason)


class WrongScore:
    """Returns scores that no policy may return: another shape, NaN, infinity."""

    name = "wrong"

    def __init__(self, answer: Callable[[int], NDArray[np.float32]]) -> None:
        """Make a policy whose scores are `answer(number of candidates)`."""
        self.answer = answer

    def score(self, features: NDArray[np.float32]) -> NDArray[np.float32]:
        """See policies.ScorePolicy."""
        return self.answer(len(features))


class ScriptedGate:
    """Gives its verdicts in turn, then allows every offer.

    Attributes:
        asked: (job, seconds waited, tier) of each offer.
        noted: (job, seconds waited, tier or None) of each wait that ended.
    """

    def __init__(self, *verdicts: GateVerdict) -> None:
        self._verdicts = list(verdicts)
        self.asked: list[tuple[JobId, float, int]] = []
        self.noted: list[tuple[JobId, float, int | None]] = []

    def decide(self, offer: Offer) -> GateVerdict:
        """See policies.GatePolicy."""
        self.asked.append((offer.job.job_id, offer.waited_s, offer.tier))
        return self._verdicts.pop(0) if self._verdicts else Allow()

    def note(self, outcome: WaitEnded) -> None:
        """See policies.GatePolicy."""
        self.noted.append((outcome.job.job_id, outcome.waited_s, outcome.tier))


class FakePreemption:
    """Lets a job displace jobs of a lower Slurm priority, the lowest first.

    Attributes:
        asked: the jobs of each call of first_to_go.
    """

    def __init__(
        self, *, lease_s: float = 0.0, renews_leases: bool = False, review_every_s: float = inf
    ) -> None:
        """Leave started jobs alone for `lease_s`; review them at multiples of `review_every_s`."""
        self.renews_leases = renews_leases
        self.asked: list[tuple[JobId, ...]] = []
        self._lease_s, self._review_every_s = lease_s, review_every_s

    def lease_s(self, job: JobRecord) -> float:
        """See policies.PreemptPolicy."""
        return self._lease_s

    def first_to_go(self, running: Sequence[JobRecord], at_s: float) -> Sequence[JobRecord]:
        """See policies.PreemptPolicy."""
        self.asked.append(tuple(job.job_id for job in running))
        return sorted(running, key=_priority)

    def displaces(self, job: JobRecord, victim: JobRecord, at_s: float) -> bool:
        """See policies.PreemptPolicy."""
        return _priority(job) > _priority(victim)

    def review_s(self, at_s: float) -> float:
        """See policies.PreemptPolicy."""
        if self._review_every_s == inf:
            return inf
        return (at_s // self._review_every_s + 1) * self._review_every_s


class FakeMoving(FakePreemption):
    """Also wants every job migrated, in the order in which they started."""

    def movers(self, running: Sequence[JobRecord], at_s: float) -> Sequence[JobRecord]:
        """See policies.MovingPreemption."""
        return running


def _priority(job: JobRecord) -> int:
    return job.spec.priority


class FixedOrder:
    """Serves jobs in the order of a list, jobs not in it last, by id; counts its calls."""

    def __init__(self, *job_ids: str) -> None:
        self.job_ids = job_ids
        self.call_count = 0

    def rank(self, view: QueueView) -> Sequence[JobId]:
        """See policies.OrderPolicy."""
        self.call_count += 1
        known = {job_id: position for position, job_id in enumerate(self.job_ids)}
        return sorted(
            (job.job_id for job in view.jobs),
            key=lambda job_id: (known.get(job_id, len(known)), job_id),
        )


async def nobody_listens(event: Event) -> None:
    """Ignore an event; stands in for an engine in tests without one."""


class ToldRunTimes(Predictors):
    """Expects of each job what a test says, whatever jobs have shown.

    Args:
        run_times: by the job's request.
    """

    def __init__(self, run_times: Callable[[JobSpec], RunTimes]) -> None:
        super().__init__()
        self._told = run_times

    def run_times(self, job: JobRecord, at_s: float) -> RunTimes:
        """See Predictors."""
        return self._told(job.spec)


def ends_about(run_s: float) -> RunTimes:
    """Return the run times of jobs that all end in the band of one run time."""
    fracs = np.zeros(BAND_COUNT)
    fracs[band_of(run_s)] = 1.0
    return RunTimes(fracs)
