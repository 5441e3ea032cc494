"""The jobs of a trace, each as it was when it was submitted: what was known, and how long it ran.

The trace is replayed in order of submission. A job starts and ends when it did in the trace, so the
history knows at each moment what a daemon of the site would have known.
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from roost_engine.domain.model import JobSpec
from roost_engine.prediction.run_time.history import RunTimeHistory
from roost_engine.prediction.run_time.run_time_features import COLUMNS, RunTimeFeatures
from roost_engine.prediction.run_time.run_times import BAND_COUNT
from roost_sim.information.trace_history import PastJobs
from roost_sim.traces.trace import Trace
from roost_train.runtimes.run_time_baselines import LastTwo, MedianOfSize


@dataclass(frozen=True, slots=True, eq=False)
class ReplayedJobs:
    """Jobs in order of submission, with what was known when each was submitted.

    Attributes:
        submit_s, ended_s, run_s: float64 [job].
        limit_s: float64 [job], the user's time limit; not a number: unknown or none.
        user_id: int64 [job].
        user_ended_count: int64 [job], jobs of the user that had ended.
        features: float32 [job, column], run_time_features.COLUMNS.
        history_fracs: float64 [job, band], the history's prediction.
        last_two_s, median_s: float64 [job], see run_time_baselines.
    """

    submit_s: NDArray[np.float64]
    ended_s: NDArray[np.float64]
    run_s: NDArray[np.float64]
    limit_s: NDArray[np.float64]
    user_id: NDArray[np.int64]
    user_ended_count: NDArray[np.int64]
    features: NDArray[np.float32]
    history_fracs: NDArray[np.float64]
    last_two_s: NDArray[np.float64]
    median_s: NDArray[np.float64]

    def __len__(self) -> int:
        return len(self.run_s)


def replay(trace: Trace, progress: Callable[[int], None] = lambda done: None) -> ReplayedJobs:
    """Replay a trace, and return what was known of each job at its submission.

    Args:
        trace: the jobs.
        progress: called with how many jobs are done.
    """
    count = len(trace)
    submit_s, run_s = trace.submit_s, trace.duration_s
    site = _Site(trace.epoch_of_zero_s)
    past, users = PastJobs(trace, site.history), list[int]()
    features = np.zeros((count, len(COLUMNS)), dtype=np.float32)
    fracs = np.zeros((count, BAND_COUNT))
    points_s, ended_counts = np.zeros((count, 2)), np.zeros(count, dtype=np.int64)
    for number in range(count):
        at_s = float(submit_s[number])
        for ended, ran_s, _ in past.advance(at_s):
            site.end(ended, ran_s)
        spec = past.submit(number)
        users.append(spec.user_id)
        features[number] = site.features.of(spec, at_s)
        fracs[number] = site.history.times(spec, 0.0, at_s).ending_fracs
        points_s[number] = site.last_two.predict_s(spec), site.median.predict_s(spec)
        ended_counts[number] = site.ended_counts[spec.user_id]
        progress(number + 1)
    return ReplayedJobs(
        submit_s=submit_s,
        ended_s=trace.ended_s(),
        run_s=run_s,
        limit_s=np.where(np.isfinite(trace.time_limit_s), trace.time_limit_s, np.nan),
        user_id=np.array(users, dtype=np.int64),
        user_ended_count=ended_counts,
        features=features,
        history_fracs=fracs,
        last_two_s=points_s[:, 0],
        median_s=points_s[:, 1],
    )


class _Site:
    """Everything that learns while a trace is replayed."""

    def __init__(self, zero_epoch_s: float | None) -> None:
        self.history = RunTimeHistory()
        self.features = RunTimeFeatures(self.history, zero_epoch_s)
        self.last_two, self.median = LastTwo(), MedianOfSize()
        self.ended_counts = Counter[int]()

    def end(self, spec: JobSpec, run_s: float) -> None:
        self.last_two.add(spec, run_s)
        self.median.add(spec, run_s)
        self.ended_counts[spec.user_id] += 1
