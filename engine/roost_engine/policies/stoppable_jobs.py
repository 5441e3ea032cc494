"""The running jobs that may be stopped, with what rankings by attained service read of each."""

from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple, TypeAlias, overload

import numpy as np
from numpy.typing import NDArray

from roost_engine.job_record import JobRecord

# (jobs, engine time) to a value of each; None: its attained service.
Values: TypeAlias = Callable[[Sequence[JobRecord], float], Sequence[float | None]]


class Beyond(NamedTuple):
    """Another value than attained service, for the jobs that have received much.

    Attributes:
        first_gpu_s: a job with fewer attained GPU-seconds has these as its value.
        values: returns those of the other jobs, each at least `first_gpu_s`, and the same ones as
            long as the engine time is the same.
    """

    first_gpu_s: float
    values: Values


class Ranking(NamedTuple):
    """Jobs in the order in which they are to be stopped.

    Attributes:
        jobs: the first victim first.
        negative_values: minus the values by which they are ranked, so that they ascend.
    """

    jobs: tuple[JobRecord, ...]
    negative_values: list[float]

    def count_above(self, value: float) -> int:
        """Return how many of the jobs have a higher value than this: the first ones."""
        return bisect_left(self.negative_values, -value)


class StoppableJobs(Sequence[JobRecord]):
    """The running jobs whose lease has ended, in the order in which they started; never changes.

    Args:
        jobs: the jobs.
        runs: float64 [4, job], see `run_of`.
    """

    def __init__(self, jobs: Sequence[JobRecord], runs: NDArray[np.float64]) -> None:
        self._jobs = tuple(jobs)
        self._earlier_s, self._started_s, gpu_counts, submits_s = runs
        self._negative_gpu_counts, self._negative_submits_s = -gpu_counts, -submits_s
        self._ranking: Ranking | None = None
        self._order = np.arange(0)  # of the last ranking, as places in the list of jobs
        self._ranked_s = 0.0

    def __len__(self) -> int:
        return len(self._jobs)

    @overload
    def __getitem__(self, index: int) -> JobRecord: ...

    @overload
    def __getitem__(self, index: slice) -> tuple[JobRecord, ...]: ...

    def __getitem__(self, index: int | slice) -> JobRecord | tuple[JobRecord, ...]:
        return self._jobs[index]

    def __iter__(self) -> Iterator[JobRecord]:
        return iter(self._jobs)

    def by_attained_service(self, at_s: float, beyond: Beyond | None = None) -> Ranking:
        """Return the jobs with most attained GPU-seconds first, of equal ones the latest submitted.

        The values are those of JobRecord.attained_gpu_s, to the last digit; for jobs with at least
        `beyond.first_gpu_s` of service those of `beyond`, which alone are asked job by job.

        Args:
            at_s: engine time.
            beyond: the same at each call; None: attained service is the value of every job.
        """
        if self._ranking is None or self._ranked_s != at_s:
            run_s = self._earlier_s + (at_s - self._started_s)
            negative_values = run_s * self._negative_gpu_counts
            if beyond is not None:
                places = (negative_values <= -beyond.first_gpu_s).nonzero()[0].tolist()
                values = beyond.values([self._jobs[place] for place in places], at_s)
                for place, value in zip(places, values, strict=True):
                    if value is not None:
                        negative_values[place] = -value
            self._ranking = self._ranked_by(negative_values)
            self._ranked_s = at_s
        return self._ranking

    def _ranked_by(self, negative_values: NDArray[np.float64]) -> Ranking:
        """Rank the jobs by minus their values; mostly they are in the same order as before."""
        before = self._ranking
        if before is not None:
            ordered = negative_values[self._order]
            if (ordered[1:] > ordered[:-1]).all():
                return Ranking(before.jobs, ordered.tolist())
        self._order = np.lexsort((self._negative_submits_s, negative_values))
        jobs = self._jobs
        ranked = tuple([jobs[place] for place in self._order.tolist()])
        return Ranking(ranked, negative_values[self._order].tolist())

    def is_ranking(self, chosen: Sequence[JobRecord]) -> bool:
        """Return whether these are the jobs of the last ranking, so that each is one of its own."""
        return self._ranking is not None and chosen is self._ranking.jobs


def run_of(job: JobRecord) -> tuple[float, float, float, float]:
    """Return what stays the same of a job while it runs: its column of StoppableJobs.

    That is the seconds of its earlier runs, the start of this one, its GPUs, its submission.
    """
    assert job.started_s is not None
    shape = job.spec.shapes[0]
    gpu_count = shape.node_count * shape.gpus_per_node
    return job.earlier_run_s, job.started_s, gpu_count, job.spec.submit_s
