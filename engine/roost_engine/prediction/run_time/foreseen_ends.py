"""When running jobs end: by their time limits, and by jobs like them where limits say nothing.

A time limit is a bound, a prediction is none. So limits decide wherever there is a usable one; a
prediction stands in for a missing or absurd limit, and for the limit of a job that was let past a
reservation because jobs like it end in time. A job that outlives its prediction counts with its
limit from then on, or is predicted again if it has none.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import takewhile
from math import isfinite
from typing import Protocol

from roost_engine.domain.model import JobId, JobSpec
from roost_engine.domain.promise import Guess
from roost_engine.job_record import JobRecord
from roost_engine.placement.reservation import RunEnds
from roost_engine.policies.slots import TimesLeft

LONGEST_LIMIT_S = 365 * 86_400.0
"""A time limit of a year or more says nothing: sites that want none set such a one."""

LOW_FRAC, HIGH_FRAC = 0.1, 0.9  # the ends of an 80 % interval, for people


@dataclass(frozen=True, slots=True, kw_only=True)
class EndsConfig:
    """How predictions take part in reservations. Page: docs/order.md.

    Attributes:
        safe_frac: a job without a usable time limit is taken to have ended once this share of the
            jobs like it would have.
        passing_frac: a job may be let past a reservation if this share of the jobs like it ends in
            time; 1: only jobs whose time limits end in time.
        most_delay_s: and if its time limit ends no later than so long after the first promised
            start. 0: no promise is ever moved by it.
    """

    safe_frac: float = 0.9
    passing_frac: float = 1.0
    most_delay_s: float = 0.0


class RunTimeSource(Protocol):
    """Says how long jobs may still run; None: it cannot say."""

    def run_times(self, job: JobRecord, at_s: float) -> TimesLeft | None:
        """Return how long a job may still run."""


def usable_limit_s(job: JobSpec) -> float | None:
    """Return the time limit of a job if it says something about the job's end."""
    limit_s = job.time_limit_s
    return limit_s if limit_s is not None and 0.0 < limit_s < LONGEST_LIMIT_S else None


def guess(source: RunTimeSource, job: JobRecord, frac: float, at_s: float) -> Guess | None:
    """Return by when this share of jobs like a job has ended; None: nothing is predicted."""
    times = source.run_times(job, at_s)
    if times is None:
        return None
    left_s = times.quantile_s(frac)
    if not (isfinite(left_s) and left_s > 0.0):
        return None
    low_s, high_s = times.quantile_s(LOW_FRAC), times.quantile_s(HIGH_FRAC)
    ran_s = job.run_s(at_s)
    return Guess(left_s=left_s, low_s=ran_s + low_s, high_s=ran_s + high_s)


class ForeseenEnds:
    """When running jobs end, in order of time.

    Args:
        config: None: by time limits alone, whatever they are.
        source: predicts; needed where there is a config.
    """

    def __init__(self, config: EndsConfig | None, source: RunTimeSource | None) -> None:
        self.config, self._source = config, source
        self._ends = RunEnds()
        self._guessed: dict[JobId, JobRecord] = {}  # whose end is predicted

    def __iter__(self) -> Iterator[tuple[float, JobId]]:
        return iter(self._ends)

    def add(self, job_id: JobId, end_s: float) -> None:
        """Note when a job will have ended."""
        self._ends.add(job_id, end_s)

    def remove(self, job_id: JobId) -> None:
        """Forget a job, if it is there."""
        if self._guessed and (record := self._guessed.pop(job_id, None)) is not None:
            record.guess = None
        self._ends.remove(job_id)

    def begin(self, record: JobRecord, limit_end_s: float | None, at_s: float) -> None:
        """Note that a job runs.

        Args:
            record: the job.
            limit_end_s: when Slurm ends it; None: never.
            at_s: engine time.
        """
        says_nothing = limit_end_s is None or limit_end_s - at_s >= LONGEST_LIMIT_S
        if says_nothing and self.config is not None and record.guess is None:
            record.guess = self._foresee(record, at_s)
        if record.guess is not None:
            self._ends.add(record.job_id, at_s + record.guess.left_s)
            self._guessed[record.job_id] = record
        elif limit_end_s is not None:
            self.add(record.job_id, limit_end_s)

    def guessed(self) -> Iterable[JobRecord]:
        """Return the running jobs whose end is, or was, predicted."""
        return self._guessed.values()

    def renew(self, at_s: float) -> None:
        """Predict or bound again the ends of jobs that have outlived their predictions."""
        if not self._guessed:
            return
        due = takewhile(lambda end: end[0] <= at_s, tuple(self._ends))
        for record in [self._guessed[job_id] for _, job_id in due if job_id in self._guessed]:
            assert record.guess is not None
            earlier = record.guess
            limit_s = usable_limit_s(record.spec)
            if limit_s is not None and record.started_s is not None:
                self._ends.add(record.job_id, record.started_s + limit_s)
            else:
                fresh = self._foresee(record, at_s)
                if fresh is None:
                    self._ends.remove(record.job_id)
                else:
                    self._ends.add(record.job_id, at_s + fresh.left_s)
            record.guess = replace(earlier, is_outlived=True)

    def _foresee(self, record: JobRecord, at_s: float) -> Guess | None:
        """Return when a job without a usable time limit ends; None: it has one, or none knows."""
        if self.config is None or self._source is None:
            return None
        return guess(self._source, record, self.config.safe_frac, at_s)
