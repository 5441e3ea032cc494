"""Orders by the value of a job: the lowest value is offered GPUs first.

Preemption rules rank running jobs by the same values, so that a job that displaces others is also
served first.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import inf
from typing import Protocol, TypeAlias, runtime_checkable

from roost_engine.domain.model import JobId, JobSpec
from roost_engine.domain.tier import Tier
from roost_engine.job_record import JobRecord
from roost_engine.policies.heuristics import ranked_by_key, submission_key
from roost_engine.policies.protocols import KeyedOrder, QueueView, SortKey
from roost_engine.prediction.run_time.run_times import RunTimes
from roost_engine.prediction.speed.speed_predictor import SpeedPredictor

Value: TypeAlias = Callable[[JobRecord, float], SortKey]  # of (job, engine time)


@runtime_checkable
class ValuedOrder(KeyedOrder, Protocol):
    """An order by the value of a job, which a preemption rule can compare running jobs by.

    What an operator has put first or last comes before the value in a key, and Slurm's order after.
    """

    @property
    def value(self) -> Value:
        """The value."""

    def peek_key(self, job: JobRecord, at_s: float) -> SortKey:
        """Return the key of a job to a reader outside the engine, and note nothing."""


@runtime_checkable
class ExpectingOrder(KeyedOrder, Protocol):
    """An order by what a job is expected to need, with a bound to what may overtake it."""

    def expected_s(self, times: RunTimes) -> float:
        """Return what a job with these run times is expected to need, in seconds at full speed."""

    def key_by(self, spec: JobSpec, times: RunTimes) -> SortKey:
        """Return the key of a job with these run times; nothing remembers the question."""

    def due_s(self, job: JobRecord) -> float | None:
        """Return the engine time after which no job that becomes eligible overtakes this one.

        None: it was queued without such a bound.
        """


@dataclass(frozen=True, slots=True)
class OrderByValue:
    """Lowest value first, then in Slurm's order: priority, submission, id.

    What an operator has put first or last stays so. Of the others the jobs that have waited for
    `longest_wait_s` go first, in the order in which their waits began.

    Attributes:
        value: the value of a job; while the job waits it changes only with `is_trusted`.
        name: what operators call the order.
        peek: the value for readers outside the engine; None: `value` notes nothing.
        is_trusted: returns whether forecasts count in the value; None: there are none, or always.
        longest_wait_s: see policies.BoundedOrder.
    """

    value: Value
    name: str = "by value"
    peek: Value | None = None
    is_trusted: Callable[[], bool] | None = None
    longest_wait_s: float = inf

    @property
    def generation(self) -> int:
        """See policies.RekeyedOrder."""
        return 0 if self.is_trusted is None else int(self.is_trusted())

    def key_again(self, job: JobRecord, at_s: float) -> SortKey:
        """See policies.RekeyedOrder."""
        return self.key(job, at_s)

    def key(self, job: JobRecord, at_s: float) -> SortKey:
        """See policies.KeyedOrder."""
        return self._place(job, self.value(job, at_s), at_s)

    def peek_key(self, job: JobRecord, at_s: float) -> SortKey:
        """See ValuedOrder."""
        value = self.peek or self.value
        return self._place(job, value(job, at_s), at_s)

    def _place(self, job: JobRecord, value: SortKey, at_s: float) -> SortKey:
        spec = job.spec
        if job.queued_s > at_s - self.longest_wait_s:
            return -spec.precedence, *value, *submission_key(spec)
        # Before every value, and by the wait in place of Slurm's priority.
        first = (-inf,) * len(value)
        return -spec.precedence, *first, job.queued_s, *submission_key(spec)[1:]

    def rank(self, view: QueueView) -> Sequence[JobId]:
        """See policies.OrderPolicy."""
        return ranked_by_key(self, view)


def attained_service(job: JobRecord, at_s: float) -> SortKey:
    """See Value: GPU-seconds that a job has received.

    Source: Gu et al., Tiresias, NSDI 2019, least attained service without its queues.
    """
    return (job.attained_gpu_s(at_s),)


@dataclass(frozen=True, slots=True)
class SpeedAchieved:
    """Dally's S: the ideal time of a job's work over the time that its runs took.

    Slurm reports no speed of jobs. Where none was reported, each earlier run counts with the speed
    that is expected on its tier, relative to the closest tier that the job could have.
    Source: Sharma et al., arXiv 2401.16492, section 3.

    Attributes:
        speed: gives the expected speeds; None: a job without reported speed has S = 0.
    """

    speed: SpeedPredictor | None = None

    def value(self, job: JobRecord, at_s: float) -> SortKey:
        """See Value: S, 0 to 1; 0 before any run."""
        reported = job.efficiency(at_s)
        if reported > 0 or self.speed is None:
            return (reported,)
        return (_expected_frac(self.speed, job, at_s),)


def _expected_frac(speed: SpeedPredictor, job: JobRecord, at_s: float) -> float:
    """Return the mean expected speed of a job over its runs; 0 before any run."""
    ran_s = job.run_s_by_tier(at_s)
    total_s = sum(ran_s)
    if total_s <= 0:
        return 0.0
    speeds, closest = speed.estimate(job.spec).speeds, job.tiers[1]
    at_closest = speeds.at(closest)
    return sum(ran_s[tier] * min(speeds.at(tier) / at_closest, 1.0) for tier in Tier) / total_s
