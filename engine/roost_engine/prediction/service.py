"""What jobs are expected to need, as one number: for orders, and for the choice of victims."""

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TypeAlias

from roost_engine.domain.model import JobId, JobSpec
from roost_engine.job_record import JobRecord
from roost_engine.prediction.run_time.run_times import RunTimes

_FRESH_S = 360.0  # in that time the age of a job changes little
_MOST_VALUES = 100_000

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


@dataclass(frozen=True, slots=True)
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
    """

    forecast: Forecast
    expected: Forecast
    is_known: Callable[[JobSpec], bool] | None = None
    # By job: when it was asked, whether the job ran then, and the forecast; None: not counted.
    _kept: dict[JobId, tuple[float, bool, float | None]] = field(default_factory=dict)

    def value(self, job: JobRecord, at_s: float) -> tuple[float]:
        """Return a value for queue.orders.OrderByValue and preemption.rules.DisplaceBy."""
        job_id, is_running = job.job_id, job.started_s is not None
        kept = self._kept.get(job_id)
        if kept is not None:
            since_s, was_running, left_gpu_s = kept
            if was_running == is_running and (not is_running or at_s < since_s + _FRESH_S):
                return _value(job, left_gpu_s, at_s)
        left_gpu_s = self._left_gpu_s(job, self.forecast, at_s)
        if len(self._kept) > _MOST_VALUES:
            self._kept.clear()
        self._kept[job_id] = at_s, is_running, left_gpu_s
        return _value(job, left_gpu_s, at_s)

    def peek(self, job: JobRecord, at_s: float) -> tuple[float]:
        """Return the value that decided last of a job in this state, or would, and note nothing."""
        kept = self._kept.get(job.job_id)
        if kept is not None and kept[1] == (job.started_s is not None):
            return _value(job, kept[2], at_s)
        return _value(job, self._left_gpu_s(job, self.expected, at_s), at_s)

    def forget(self, job_id: JobId) -> None:
        """Drop the value of a job that has ended."""
        self._kept.pop(job_id, None)

    def _left_gpu_s(self, job: JobRecord, ask: Forecast, at_s: float) -> float | None:
        if self.is_known is not None and not self.is_known(job.spec):
            return None
        return job.spec.gpu_count * expected_s(ask(job, at_s), ServiceIndex.GITTINS)


def _value(job: JobRecord, left_gpu_s: float | None, at_s: float) -> tuple[float]:
    return (job.attained_gpu_s(at_s) if left_gpu_s is None else left_gpu_s,)
