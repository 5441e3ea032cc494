"""Repetition in a trace: the errors of simple predictors of run times.

A predictor that looks at a user's last jobs is good where users repeat their jobs, and no better
than the mean of all jobs where they do not. So its error measures the repetition, and tells whether
generated jobs repeat as those of a site do.
"""

from collections import defaultdict, deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from math import log
from statistics import fmean
from typing import TypeAlias

from roost_sim.traces.trace import Trace

FIRST_GUESS_S = 3_600.0  # before any job has ended

_Key: TypeAlias = tuple[int, ...]
_KeyRule: TypeAlias = Callable[[int, int], _Key]  # of user and GPUs


@dataclass(frozen=True, slots=True)
class RecentJobs:
    """Predicts by the last jobs of the closest class that has any.

    Attributes:
        classes: of a job by its user and GPUs, the closest first.
        count: how many jobs.
        of: their run times in seconds become one.
    """

    classes: Sequence[_KeyRule]
    count: int
    of: Callable[[Sequence[float]], float]


def _upper_median(values: Sequence[float]) -> float:
    return sorted(values)[len(values) // 2]


PREDICTORS: Mapping[str, RecentJobs] = {
    "median_of_20_of_user_and_gpus": RecentJobs(
        (lambda user, gpus: (user, gpus), lambda user, _: (user,), lambda _, gpus: (-2, gpus)),
        20,
        _upper_median,
    ),
    "mean_of_2_of_user": RecentJobs((lambda user, _: (user,),), 2, fmean),
    "mean_of_2_of_user_and_gpus": RecentJobs((lambda user, gpus: (user, gpus),), 2, fmean),
}


def prediction_errors(trace: Trace) -> dict[str, float]:
    """Return the mean of |ln(predicted / true)| of each predictor, by name.

    Jobs are predicted in order of submission. A job is known to the predictors once it has ended in
    the trace; of jobs that end at one time, the first submitted is known first.
    """
    jobs = list(
        zip(
            trace.submit_s.tolist(),
            trace.ended_s().tolist(),
            trace.duration_s.tolist(),
            trace.user_id.tolist(),
            trace.gpu_count.tolist(),
            strict=True,
        )
    )
    return {name: _error(predictor, jobs) for name, predictor in PREDICTORS.items()}


def _error(predictor: RecentJobs, jobs: Sequence[tuple[float, float, float, int, int]]) -> float:
    recent = defaultdict[_Key, deque[float]](lambda: deque(maxlen=predictor.count))
    running = list[tuple[float, int]]()
    total = 0.0
    for number, (submit_s, end_s, duration_s, user, gpus) in enumerate(jobs):
        while running and running[0][0] <= submit_s:
            _, ended = heappop(running)
            _, _, ran_s, its_user, its_gpus = jobs[ended]
            for rule in (*predictor.classes, _everything):
                recent[rule(its_user, its_gpus)].append(ran_s)
        keys = (rule(user, gpus) for rule in (*predictor.classes, _everything))
        values = next((recent[key] for key in keys if key in recent), None)
        predicted_s = FIRST_GUESS_S if values is None else predictor.of(values)
        total += abs(log(predicted_s / duration_s))
        heappush(running, (end_s, number))
    return total / len(jobs)


def _everything(_user: int, _gpus: int) -> _Key:
    return ()
