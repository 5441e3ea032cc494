"""Occupancy: GPU-seconds held by jobs, and GPU-seconds idle while jobs waited for GPUs."""

from array import array
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from roost_engine.domain.model import NodeShare
from roost_sim.figures.outcome import JobResult


@dataclass(slots=True)
class Holds:
    """Records when how many GPUs were held. A `roost_sim.runs.driver.HoldObserver`.

    Three numbers an interval, so that a million jobs fit into a few megabytes.
    """

    _gpus: "array[float]" = field(default_factory=lambda: array("d"))
    _begin_s: "array[float]" = field(default_factory=lambda: array("d"))
    _end_s: "array[float]" = field(default_factory=lambda: array("d"))

    def __call__(self, shares: tuple[NodeShare, ...], begin_s: float, end_s: float) -> None:
        """Record one interval in which a job held these GPUs."""
        self._gpus.append(sum([len(share.gpu_indices) for share in shares]))
        self._begin_s.append(begin_s)
        self._end_s.append(end_s)

    @classmethod
    def of_jobs(cls, jobs: Sequence[JobResult]) -> "Holds":
        """Return the intervals of jobs that were never preempted."""
        holds = cls()
        for job in jobs:
            if job.started_s is not None and job.ended_s is not None:
                holds._gpus.append(job.held_gpu_count)
                holds._begin_s.append(job.started_s)
                holds._end_s.append(job.ended_s)
        return holds

    def columns(self) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
        """GPUs, begin and end of each interval, float64 [interval]."""
        return np.array(self._gpus), np.array(self._begin_s), np.array(self._end_s)


@dataclass(frozen=True, slots=True)
class Occupancy:
    """Fractions of all GPU-seconds from the first submission to the last end, 0..1.

    Attributes:
        held_frac: held by jobs.
        lost_frac: idle while jobs waited for GPUs: at each moment the lesser of the idle GPUs and
            the GPUs that waiting jobs asked for. Jobs that never started do not count.
    """

    held_frac: float
    lost_frac: float


def occupancy_of(jobs: Sequence[JobResult], holds: Holds, gpu_count: int) -> Occupancy | None:
    """Compute the occupancy of a run; None if no job ended.

    A job in the system holds its GPUs or waits for them, so the GPUs waited for are those of all
    jobs in the system minus those held.

    Args:
        jobs: all jobs of a run, in order of arrival.
        holds: the intervals of the run.
        gpu_count: GPUs of the cluster.
    """
    done = [job for job in jobs if job.ended_s is not None]
    if not done:
        return None
    gpus, begin_s, end_s = holds.columns()
    wanted = np.array([job.held_gpu_count for job in done], dtype=np.float64)
    came_s = np.array([job.submit_s for job in done])
    left_s = np.array([job.ended_s for job in done], dtype=np.float64)
    span_s = float(left_s.max()) - jobs[0].submit_s
    if span_s <= 0:
        return None
    moments = np.concatenate([begin_s, end_s, came_s, left_s])
    held = np.concatenate([gpus, -gpus, np.zeros(2 * len(done))])
    inside = np.concatenate([np.zeros(2 * len(gpus)), wanted, -wanted])
    order = np.argsort(moments, kind="stable")
    length_s = np.diff(moments[order])
    busy = np.cumsum(held[order])[:-1]
    waiting = np.maximum(np.cumsum(inside[order])[:-1] - busy, 0.0)
    idle = np.maximum(gpu_count - busy, 0.0)
    whole = gpu_count * span_s
    return Occupancy(
        held_frac=float((busy * length_s).sum()) / whole,
        lost_frac=float((np.minimum(idle, waiting) * length_s).sum()) / whole,
    )
