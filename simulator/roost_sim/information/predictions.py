"""Run times as a site could predict them: by the jobs most like it that have ended by then.

Users run much the same again and again (Helios, SC 2021; Philly, ATC 2019). Most alike are jobs of
one user that run the same thing on as many GPUs; `_classes` has the whole ladder. Of a class the
last twenty count, and their median is told. With jobs taken to end as in the trace, the mean of
|ln(predicted / true)| is 1.79 on Helios, June, with its users, and 1.03 on the first 15,000 jobs of
Philly, November, with virtual clusters for users. The last five or fifty, or geometric means, come
to 1.79 to 1.84 and 1.04 to 1.07.
"""

from bisect import bisect_left, bisect_right, insort
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from roost_engine.domain.model import JobId
from roost_sim.information.progress import ProgressBook

RECENT_COUNT = 20  # users change their habits
SECONDS_OF_NOBODY = 3_600.0  # before any job has ended

_Class: TypeAlias = tuple[str | int, ...]


@dataclass(frozen=True, slots=True)
class JobKind:
    """What is known of a job when it is submitted.

    Attributes:
        user_id: -1: unknown.
        what: the model that it trains or the job's name; "": unknown.
        gpu_count: that it asks for.
    """

    user_id: int
    what: str
    gpu_count: int


class Predictions(Mapping[JobId, float]):
    """The predicted run time of each job, in seconds.

    It is made when a job is first asked about, and stays. Only jobs that have ended in the same
    simulation by then are known, by the time for which they held GPUs, as accounting has it.
    """

    def __init__(self, kinds: Mapping[JobId, JobKind], book: ProgressBook) -> None:
        """Predict for the jobs of `kinds`; `book` tells which of them have ended."""
        self._kinds, self._book = kinds, book
        self._recent = defaultdict[_Class, _Recent](_Recent)
        self._seen_count = 0
        self._told: dict[JobId, float] = {}
        self._samples: dict[JobId, tuple[float, ...]] = {}

    def __getitem__(self, job_id: JobId) -> float:
        told_s = self._told.get(job_id)
        if told_s is None:
            sample = self._sample(job_id)
            told_s = self._told[job_id] = _upper_median(sample) if sample else SECONDS_OF_NOBODY
        return told_s

    def __iter__(self) -> Iterator[JobId]:
        return iter(self._kinds)

    def __len__(self) -> int:
        return len(self._kinds)

    def left_s(self, job_id: JobId, done_s: float) -> float:
        """What is left of a job that has done so much, by those like it that took longer.

        Where none did, twice the longest is told, then four times, and so on. It must fall while
        the job runs, and rise in few steps: jobs of which it rose would take turns at every event.
        """
        sample = self._sample(job_id) or (SECONDS_OF_NOBODY,)
        longer = sample[bisect_right(sample, done_s) :]
        if longer:
            return _upper_median(longer) - done_s
        told_s = sample[-1]
        while told_s <= done_s:
            told_s *= 2
        return told_s - done_s

    def _sample(self, job_id: JobId) -> tuple[float, ...]:
        """Run times of the last jobs of the closest class that has any, ascending."""
        sample = self._samples.get(job_id)
        if sample is None:
            self._learn()
            classes = _classes(self._kinds[job_id])
            alike = (self._recent[each] for each in classes if each in self._recent)
            sample = next((recent.ascending() for recent in alike), ())
            self._samples[job_id] = sample
        return sample

    def _learn(self) -> None:
        past = self._book.past
        for run in past[self._seen_count :]:
            for each in _classes(self._kinds[run.job_id]):
                self._recent[each].add(run.ran_s)
        self._seen_count = len(past)


def _classes(kind: JobKind) -> tuple[_Class, ...]:
    """The classes of a job, the closest first."""
    user, gpus = kind.user_id, kind.gpu_count
    wider: tuple[_Class, ...] = (("user", user, gpus), ("user", user), ("gpus", gpus), ("all",))
    if not kind.what:
        return wider
    return ("what", user, kind.what, gpus), ("what", user, kind.what), *wider


def _upper_median(ascending: Sequence[float]) -> float:
    return ascending[len(ascending) // 2]


class _Recent:
    """The last few values."""

    def __init__(self) -> None:
        self._arrived, self._sorted, self._oldest = list[float](), list[float](), 0

    def add(self, value: float) -> None:
        if len(self._arrived) < RECENT_COUNT:
            self._arrived.append(value)
        else:
            gone, self._arrived[self._oldest] = self._arrived[self._oldest], value
            self._oldest = (self._oldest + 1) % RECENT_COUNT
            del self._sorted[bisect_left(self._sorted, gone)]
        insort(self._sorted, value)

    def ascending(self) -> tuple[float, ...]:
        return tuple(self._sorted)
