"""What jobs are expected to need, as one number: for orders, and for the choice of victims."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TypeAlias

from roost_engine.domain.model import JobId, JobSpec
from roost_engine.job_record import JobRecord
from roost_engine.prediction.run_time.prediction_skill import PredictionSkill
from roost_engine.prediction.run_time.run_times import RunTimes

_FRESH_S = 360.0  # in that time the age of a job changes little
FIRST_GPU_S = 8 * 3_600.0  # of `known-left`; 8 and 64 GPU-hours were tried: docs/results/order.md
KNOWN_FRESH_S = 1_800.0  # of `known-left`: as long as its leases
_MOST_VALUES = 100_000
_LEAST_TRUST_FRAC = 0.5

# (job, engine time) to how long it may still run.
Forecast: TypeAlias = Callable[[JobRecord, float], RunTimes]


class ServiceIndex(StrEnum):
    """What a job is expected to need, as one number."""

    MEAN = "mean"  # expected GPU-seconds: best where no job is stopped
    GITTINS = "gittins"  # GPU-seconds for each end, over the best span ahead: where jobs are
    RISK = "risk"  # expected GPU-seconds if it takes longer than the median: a long job that is
    #                taken for a short one blocks others; a short one taken for long only waits


def done_s(job: JobRecord, at_s: float) -> float:
    """Seconds of full speed that the job has run; seconds it has run where its speed is unknown."""
    efficiency = job.efficiency(at_s)
    return job.run_s(at_s) * (min(efficiency, 1.0) if efficiency > 0 else 1.0)


def expected_s(times: RunTimes, index: ServiceIndex) -> float:
    """Return what a job is expected to need, in seconds at full speed, above 0."""
    match index:
        case ServiceIndex.MEAN:
            return times.rest_s()
        case ServiceIndex.GITTINS:
            return 1.0 / times.best_index(gpu_count=1)
        case ServiceIndex.RISK:
            median_s = times.quantile_s(0.5)
            return 2.0 * (times.rest_s() - times.rest_within_s(median_s)) + median_s


@dataclass(slots=True)
class ServiceLeft:
    """What jobs still need at their age: the Gittins index, as GPU-seconds for each end.

    A value is kept while a job waits, and for some minutes while it runs: what was learned in the
    meantime must not make jobs displace each other at every event. That a job has no forecast is
    kept likewise; its attained service is computed at each question.

    Attributes:
        forecast: returns how long a job may still run.
        expected: returns the same to readers outside the engine, and notes nothing.
        is_known: returns whether the forecast of a job counts; where it does not, the job's value
            is its attained service, in GPU-seconds. None: every forecast counts.
        first_gpu_s: a job that has received less has its attained service as its value, and no
            other job has a value below this.
        fresh_s: how long the value of a running job is kept.
        skill: of the forecasts for jobs of known users; while it has lost their trust, the value
            of every job is its attained service. None: they are always trusted.
    """

    forecast: Forecast
    expected: Forecast
    is_known: Callable[[JobSpec], bool] | None = None
    first_gpu_s: float = 0.0
    fresh_s: float = _FRESH_S
    skill: PredictionSkill | None = None
    # By job: when it was asked, whether the job ran then, and the forecast; None: not counted.
    _kept: dict[JobId, tuple[float, bool, float | None]] = field(default_factory=dict)

    def value(self, job: JobRecord, at_s: float) -> tuple[float]:
        """Return a value, in GPU-seconds, for orders.OrderByValue and rules.DisplaceBy."""
        attained_gpu_s = job.attained_gpu_s(at_s)
        if attained_gpu_s < self.first_gpu_s:
            return (attained_gpu_s,)
        kept = self._kept.get(job.job_id)
        if kept is not None:
            since_s, was_running, left_gpu_s = kept
            is_running = job.started_s is not None
            if was_running == is_running and (not is_running or at_s < since_s + self.fresh_s):
                return (self._counted(left_gpu_s, attained_gpu_s),)
        return (self._counted(self._ask(job, at_s), attained_gpu_s),)

    def is_trusted(self) -> bool:
        """Return whether forecasts count; when that changes, so does the value of every job."""
        return self.skill is None or self.skill.trust_frac >= _LEAST_TRUST_FRAC

    def _counted(self, left_gpu_s: float | None, attained_gpu_s: float) -> float:
        return left_gpu_s if left_gpu_s is not None and self.is_trusted() else attained_gpu_s

    def values_of_running(self, jobs: Sequence[JobRecord], at_s: float) -> list[float | None]:
        """Return the values of running jobs that have received at least `first_gpu_s`.

        They are those of value(), without a call for each: hundreds of jobs are ranked at thousands
        of events. None: its attained service.
        """
        kept, fresh_s, values = self._kept, self.fresh_s, list[float | None]()
        for job in jobs:
            known = kept.get(job.spec.job_id)
            if known is not None and known[1] and at_s < known[0] + fresh_s:
                values.append(known[2])
            else:
                values.append(self._ask(job, at_s))
        return values

    def _ask(self, job: JobRecord, at_s: float) -> float | None:
        times = self._times(job, self.forecast, at_s)
        if self.skill is not None and times is not None:
            self._note_expected(self.skill, job, times, at_s)
        left_gpu_s = self._left_gpu_s(job, times)
        if len(self._kept) > _MOST_VALUES:
            self._kept.clear()
        self._kept[job.job_id] = at_s, job.started_s is not None, left_gpu_s
        return left_gpu_s

    def peek(self, job: JobRecord, at_s: float) -> tuple[float]:
        """Return the value that decided last of a job in this state, or would, and note nothing."""
        attained_gpu_s = job.attained_gpu_s(at_s)
        if attained_gpu_s < self.first_gpu_s:
            return (attained_gpu_s,)
        kept = self._kept.get(job.job_id)
        if kept is not None and kept[1] == (job.started_s is not None):
            left_gpu_s = kept[2]
        else:
            left_gpu_s = self._left_gpu_s(job, self._times(job, self.expected, at_s))
        return (self._counted(left_gpu_s, attained_gpu_s),)

    def forget(self, job_id: JobId) -> None:
        """Drop the value of a job that has ended."""
        self._kept.pop(job_id, None)

    def _note_expected(
        self, skill: PredictionSkill, job: JobRecord, times: RunTimes, at_s: float
    ) -> None:
        # Without users only the number of GPUs predicts, and attained service is worth no more
        # (Helios, August: 1.01 of the mean, 1.04 of the 99th percentile, 1.5 times the stops).
        if times.is_of_user and not job.run_s(at_s):
            skill.expect(job.job_id, expected_s(times, ServiceIndex.MEAN))

    def _times(self, job: JobRecord, ask: Forecast, at_s: float) -> RunTimes | None:
        is_known = self.is_known is None or self.is_known(job.spec)
        return ask(job, at_s) if is_known else None

    def _left_gpu_s(self, job: JobRecord, times: RunTimes | None) -> float | None:
        if times is None:
            return None
        left_gpu_s = job.spec.gpu_count * expected_s(times, ServiceIndex.GITTINS)
        return max(left_gpu_s, self.first_gpu_s)
