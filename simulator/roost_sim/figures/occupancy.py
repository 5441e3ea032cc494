"""Occupancy: GPU-seconds held by jobs, and GPU-seconds idle while jobs waited for GPUs."""

from array import array
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from roost_engine.domain.model import NodeShare
from roost_sim.figures.outcome import JobResult
from roost_sim.figures.sharing import GpuHolds


@dataclass(slots=True)
class Holds:
    """Records when how many GPUs were held. A `roost_sim.runs.driver.HoldObserver`.

    Three numbers an interval, so that a million jobs fit into a few megabytes.

    Attributes:
        is_shared: whether two jobs may hold a GPU at once.
    """

    is_shared: bool = False
    _gpus: "array[float]" = field(default_factory=lambda: array("d"))
    _begin_s: "array[float]" = field(default_factory=lambda: array("d"))
    _end_s: "array[float]" = field(default_factory=lambda: array("d"))
    # Begin and end of each time in which two jobs held one GPU.
    _doubled_s: "array[float]" = field(default_factory=lambda: array("d"))
    _gpu_holds: GpuHolds = field(default_factory=GpuHolds)

    def __call__(self, shares: tuple[NodeShare, ...], begin_s: float, end_s: float) -> None:
        """Record one interval in which a job held these GPUs."""
        self._gpus.append(sum([len(share.gpu_indices) for share in shares]))
        self._begin_s.append(begin_s)
        self._end_s.append(end_s)
        if self.is_shared:
            for _, since_s, until_s in self._gpu_holds.doubled(shares, begin_s, end_s):
                self._doubled_s.extend((since_s, until_s))

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

    def doubled(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Begin and end of each time in which two jobs held one GPU, float64 [time]."""
        times = np.array(self._doubled_s).reshape(-1, 2)
        return times[:, 0], times[:, 1]


@dataclass(frozen=True, slots=True)
class Occupancy:
    """Fractions of all GPU-seconds from the first submission to the last end, 0..1.

    Attributes:
        held_frac: held by jobs; a GPU that two jobs share counts once.
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
    since_s, until_s = holds.doubled()
    moments = np.concatenate([begin_s, end_s, came_s, left_s, since_s, until_s])
    order = np.argsort(moments, kind="stable")
    length_s = np.diff(moments[order])

    def counted(*changes: NDArray[np.float64]) -> NDArray[np.float64]:
        found: NDArray[np.float64] = np.cumsum(np.concatenate(changes)[order])[:-1]
        return found

    jobs_only, doubled_only = np.zeros(2 * len(done)), np.zeros(2 * len(since_s))
    held = counted(gpus, -gpus, jobs_only, doubled_only)
    inside = counted(np.zeros(2 * len(gpus)), wanted, -wanted, doubled_only)
    twice = np.ones(len(since_s))
    busy = held - counted(np.zeros(2 * len(gpus)), jobs_only, twice, -twice)
    waiting = np.maximum(inside - held, 0.0)
    idle = np.maximum(gpu_count - busy, 0.0)
    whole = gpu_count * span_s
    return Occupancy(
        held_frac=float((busy * length_s).sum()) / whole,
        lost_frac=float((np.minimum(idle, waiting) * length_s).sum()) / whole,
    )
