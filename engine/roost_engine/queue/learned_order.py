"""The learned order: the job that is expected to need least goes first, but no job waits for ever.

    key(j)    = from(j) + trust · min(AGEING · service(j), window(j))        the lowest goes first
    window(j) = WINDOW + BACKLOGS · (what waits, in GPU-seconds) / (GPUs that work)

service: expected GPU-seconds of the job, by the run times of jobs like it (`run_time.history`).
from: when the job was submitted, or its begin time. A job is overtaken by no job that became
eligible after from(j) + window(j), whatever is predicted: such a job has a higher key. So there is
a bound to what may be served before it: the jobs that came until then. The window grows with the
queue, because in a crowd a bound that is too close makes every large job due at once.
trust: 0 to 1, by how well such expectations have lately told short jobs from long ones
(`run_time.prediction_skill`): where nothing can be predicted, jobs are served as they came.
Page: docs/order.md.

The site says how far that may depart from Slurm's priority: nowhere (`strict`: only jobs of the
same priority change places), within bands of it, or everywhere (`free`). What an operator has put
first stays first (JobSpec.precedence), and a job that was moved past others of its user goes before
these (JobSpec.overtakes).

A user that has had and wants much more than its share gains nothing by the order: the next
jobs of such a user have the key from(j) + 2 · window(j) (`share_slack`).
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from math import inf
from typing import NamedTuple

from roost_engine.domain.model import JobId, JobSpec
from roost_engine.job_record import JobRecord
from roost_engine.policies.heuristics import ranked_by_key, submission_key
from roost_engine.policies.protocols import QueueView, SortKey
from roost_engine.prediction.predictors import Predictors
from roost_engine.prediction.run_time.prediction_skill import TrustConfig
from roost_engine.prediction.run_time.run_times import RunTimes
from roost_engine.prediction.service import ServiceIndex, expected_s

# A job of which nothing else is known than its GPUs counts as one of so many: their number alone
# would decide, and gangs would wait for nothing (Helios, August, a trace without users: 8 % more).
_TYPICAL_GPU_COUNT = 4

_OVER_WINDOWS = 2.0  # the due time of a job whose user is over the user's share

_MOST_REMEMBERED = 20_000
_DUE_PLACE = 3  # in a job's sort key: slot, precedence, level, due time


class Fairness(StrEnum):
    """How far the learned order may depart from Slurm's priority."""

    STRICT = "strict"
    BAND = "band"
    FREE = "free"


@dataclass(frozen=True, slots=True, kw_only=True)
class LearnedOrderConfig:
    """The numbers of the learned order.

    Attributes:
        index: what is expected of a job.
        fairness: how far the order may depart from Slurm's priority.
        band: width of a band of priority, above 0; only for Fairness.BAND.
        ageing: seconds that a job has to have waited longer for each GPU-second more.
        window_s: jobs that became eligible so much later never overtake, with an empty queue.
        window_backlogs: so many times the time that the queue takes is added to that.
        reads_limits: whether the time limits that users give tell something about run times.
        share_slack: a user whose jobs have had and want more than so many times the user's share of
            the GPU-seconds gains nothing by the learned order; inf: each user may.
        earned_trust: whether what is expected counts only as far as it has lately put jobs in the
            right order.
        trust: how the order that they had becomes trust.
    """

    index: ServiceIndex = ServiceIndex.MEAN
    fairness: Fairness = Fairness.FREE
    band: int = 1_000
    ageing: float = 2.0
    window_s: float = 6 * 86_400.0
    window_backlogs: float = 64.0
    reads_limits: bool = True
    share_slack: float = inf
    earned_trust: bool = True
    trust: TrustConfig = field(default_factory=TrustConfig)


class _Due(NamedTuple):
    """A due time: `from_s`, and later by `span_s` as far as predictions are trusted."""

    from_s: float
    span_s: float


class LearnedOrder:
    """See the module.

    Args:
        config: the numbers.
        predictors: what is expected of jobs.
    """

    name = "learned"

    def __init__(self, config: LearnedOrderConfig, predictors: Predictors) -> None:
        self.config, self._predictors = config, predictors
        # Of the last jobs asked for, the latest last: due times, of which a job has the earliest.
        self._places: dict[JobId, tuple[_Due, ...]] = {}
        # Of those that others were moved past: what the next one that is may take.
        self._left: dict[JobId, _Due] = {}

    def rank(self, view: QueueView) -> Sequence[JobId]:
        """See policies.OrderPolicy."""
        return ranked_by_key(self, view)

    def key(self, job: JobRecord, at_s: float) -> SortKey:
        """See policies.KeyedOrder; what was learned since the job was queued changes nothing."""
        config, spec = self.config, job.spec
        times = self._predictors.run_times(job, at_s)
        backlog = self._predictors.backlog
        gpu_s = spec.gpu_count * times.rest_s()
        backlog.wait(spec.job_id, gpu_s)
        window_s = self.window_s(backlog.drain_of_s(spec.job_id))
        users, slack = self._predictors.users, config.share_slack
        is_over = users.wait(spec.job_id, spec.user_id, gpu_s, slack, at_s)
        if times.age_s <= 0.0:
            self._predictors.skill.expect(spec.job_id, self.expected_s(times))
        due = _Due(max(spec.submit_s, spec.eligible_s), self._span_s(spec, times, window_s))
        if is_over:  # behind the jobs of other users that come within a window
            due = _Due(due.from_s + _OVER_WINDOWS * window_s, 0.0)
        place = self._moved(spec, due) if spec.overtakes else (due,)
        self._remember(spec.job_id, place)
        return self._sorted_by(spec, self._earliest_s(place))

    @property
    def generation(self) -> int:
        """See policies.RekeyedOrder."""
        return self._predictors.skill.generation if self.config.earned_trust else 0

    def key_again(self, job: JobRecord, at_s: float) -> SortKey:
        """See policies.RekeyedOrder; nothing is predicted again."""
        place = self._places.get(job.spec.job_id)
        if place is None:
            return self.key(job, at_s)
        return self._sorted_by(job.spec, self._earliest_s(place))

    def _trust_frac(self) -> float:
        return self._predictors.skill.trust_frac if self.config.earned_trust else 1.0

    def expected_s(self, times: RunTimes) -> float:
        """See ExpectingOrder."""
        return expected_s(times, self.config.index)

    def key_by(self, spec: JobSpec, times: RunTimes) -> SortKey:
        """See ExpectingOrder."""
        drain_s = self._predictors.backlog.drain_s()
        return self._sorted_by(spec, self.due_by(spec, times, self.window_s(drain_s)))

    def due_by(self, spec: JobSpec, times: RunTimes, window_s: float) -> float:
        """Return when a job is due that may run so long and has this window, by present trust."""
        span_s = self._span_s(spec, times, window_s)
        return self._earliest_s((_Due(max(spec.submit_s, spec.eligible_s), span_s),))

    def window_s(self, drain_s: float) -> float:
        """Return the window of a job that came when the queue took so long."""
        return self.config.window_s + self.config.window_backlogs * drain_s

    def _span_s(self, spec: JobSpec, times: RunTimes, window_s: float) -> float:
        """Return how much later a job is due than it came, if what is expected of it is trusted.

        Args:
            spec: the job.
            times: how long it may run.
            window_s: its window.
        """
        gpu_count = spec.gpu_count if times.is_of_user else _TYPICAL_GPU_COUNT
        service_gpu_s = gpu_count * self.expected_s(times)
        # In this order NaN, from a predictor at fault, counts as the whole window.
        return max(min(window_s, self.config.ageing * service_gpu_s), 0.0)

    def _sorted_by(self, spec: JobSpec, due_s: float) -> SortKey:
        return -spec.precedence, -self._level(spec.priority), due_s, *submission_key(spec)

    def _earliest_s(self, place: Iterable[_Due]) -> float:
        trust_frac = self._trust_frac()
        return min([due.from_s + trust_frac * due.span_s for due in place])

    def _moved(self, spec: JobSpec, own: _Due) -> tuple[_Due, ...]:
        """Return the place of a job that its owner has moved past others.

        The job takes the earliest due time among theirs and its own; of equal due times the higher
        priority goes first. A due time is taken once, and the job that was passed keeps the later
        one of the two: moving every new job past the same old one gains nothing.
        """
        own_s, taken = self._earliest_s((own,)), [own, *self._takable(spec.job_id)]
        for other in spec.overtakes:
            place = self._takable(other)
            if place and self._earliest_s(place) < own_s:
                taken += place
                self._left[other] = own
        return own, min(taken, key=lambda due: self._earliest_s((due,)))

    def _takable(self, job_id: JobId) -> tuple[_Due, ...]:
        left = self._left.get(job_id)
        return self._places.get(job_id, ()) if left is None else (left,)

    def _remember(self, job_id: JobId, place: tuple[_Due, ...]) -> None:
        self._places.pop(job_id, None)
        self._left.pop(job_id, None)
        self._places[job_id] = place
        if len(self._places) > _MOST_REMEMBERED:
            oldest = next(iter(self._places))
            del self._places[oldest]
            self._left.pop(oldest, None)

    def due_s(self, job: JobRecord) -> float | None:
        """See ExpectingOrder."""
        # The order's slot puts 0 before a key, and 1 before the heuristic's, which has no due time.
        return float(job.sort_key[_DUE_PLACE]) if job.sort_key[:1] == (0,) else None

    def _level(self, priority: int) -> int:
        """Return what of a priority counts before everything learned."""
        match self.config.fairness:
            case Fairness.STRICT:
                return priority
            case Fairness.BAND:
                return priority // self.config.band
            case Fairness.FREE:
                return 0
