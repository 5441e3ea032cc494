"""The jobs of a trace, each as it was when it was submitted: what was known, and how long it ran.

The trace is replayed in order of submission. A job starts and ends when it did in the trace, so the
history knows at each moment what a daemon of the site would have known.
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from heapq import heappop, heappush
from math import isfinite

import numpy as np
from numpy.typing import NDArray

from roost_engine.domain.model import JobId, JobSpec, Shape
from roost_engine.prediction.history import RunTimeHistory
from roost_engine.prediction.run_time_features import COLUMNS, RunTimeFeatures
from roost_engine.prediction.run_times import BAND_COUNT
from roost_sim.traces.trace import Trace
from roost_train.run_time_baselines import LastTwo, MedianOfSize

_STARTS, _ENDS = 0, 1


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


def job_specs(trace: Trace) -> list[JobSpec]:
    """Return the jobs of a trace as the engine sees them.

    Where a trace names no users, its accounts stand for users: Philly's virtual clusters.
    """
    has_users = bool((trace.user_id >= 0).any())
    users = (trace.user_id if has_users else trace.account.ids).tolist()
    gpus, nodes = trace.gpu_count.tolist(), trace.node_count.tolist()
    limits_s, submits_s = trace.time_limit_s.tolist(), trace.submit_s.tolist()
    found = list[JobSpec]()
    for number in range(len(trace)):
        node_count = max(nodes[number], 1)
        shape = Shape(
            node_count=node_count,
            gpus_per_node=max(gpus[number] // node_count, 1),
            cpus_per_node=0,
        )
        found.append(
            JobSpec(
                job_id=JobId(str(number)),
                user_id=users[number],
                partition=trace.partition.of(number),
                shapes=(shape,),
                submit_s=submits_s[number],
                time_limit_s=limits_s[number] if isfinite(limits_s[number]) else None,
                name=trace.job_name.of(number),
                account=trace.account.of(number) if has_users else "",
                qos=trace.qos.of(number),
            )
        )
    return found


def replay(trace: Trace, progress: Callable[[int], None] = lambda done: None) -> ReplayedJobs:
    """Replay a trace, and return what was known of each job at its submission.

    Args:
        trace: the jobs.
        progress: called with how many jobs are done.
    """
    specs, count = job_specs(trace), len(trace)
    submit_s, run_s = trace.submit_s, trace.duration_s
    ended_s = trace.ended_s()
    site = _Site(trace.epoch_of_zero_s)
    features = np.zeros((count, len(COLUMNS)), dtype=np.float32)
    fracs = np.zeros((count, BAND_COUNT))
    points_s, ended_counts = np.zeros((count, 2)), np.zeros(count, dtype=np.int64)
    due = list[tuple[float, int, int]]()
    for number, spec in enumerate(specs):
        at_s = float(submit_s[number])
        while due and due[0][0] <= at_s:
            event_s, what, other = heappop(due)
            if what == _STARTS:
                site.history.begin(specs[other], 0.0, 1.0, event_s)
            else:
                site.end(specs[other], float(run_s[other]), event_s)
        features[number] = site.features.of(spec, at_s)
        fracs[number] = site.history.times(spec, 0.0, at_s).ending_fracs
        points_s[number] = site.last_two.predict_s(spec), site.median.predict_s(spec)
        ended_counts[number] = site.ended_counts[spec.user_id]
        start_s = float(ended_s[number] - run_s[number])
        heappush(due, (max(start_s, at_s), _STARTS, number))
        heappush(due, (float(ended_s[number]), _ENDS, number))
        progress(number + 1)
    return ReplayedJobs(
        submit_s=submit_s,
        ended_s=ended_s,
        run_s=run_s,
        limit_s=np.where(np.isfinite(trace.time_limit_s), trace.time_limit_s, np.nan),
        user_id=np.array([spec.user_id for spec in specs], dtype=np.int64),
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

    def end(self, spec: JobSpec, run_s: float, at_s: float) -> None:
        self.history.add(spec, run_s, at_s)
        self.last_two.add(spec, run_s)
        self.median.add(spec, run_s)
        self.ended_counts[spec.user_id] += 1
