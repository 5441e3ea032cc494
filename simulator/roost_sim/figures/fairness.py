"""Finish-time fairness: a job's completion time over that with a fair share of the cluster.

rho = completion time / (ideal run time * max(1, GPUs * n / cluster GPUs)), where n is the mean
number of jobs in the system from the job's submission to its end. The denominator is the run time
on one n-th of the cluster; a job of more GPUs would share them in time. A job with rho of 1 or less
got at least its fair share. Source: Themis (Mahajan et al., NSDI 2020), T_shared over
T_ideal, with the mean number of jobs as in Gavel (Narayanan et al., OSDI 2020).
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from roost_sim.figures.outcome import JobResult


@dataclass(frozen=True, slots=True)
class Fairness:
    """Finish-time fairness, rho, of the measured jobs.

    Attributes:
        mean, most: mean and largest rho.
        jain: Jain's index of rho: 1 if all are equal, 1/jobs if all but one are 0.
    """

    mean: float
    most: float
    jain: float


def fairness_of(jobs: Sequence[JobResult], begin: int, end: int, gpu_count: int) -> Fairness | None:
    """Compute the finish-time fairness of the measured jobs; None if none of them ended.

    Args:
        jobs: all jobs of a run, in order of arrival: they share the cluster.
        begin: position of the first measured job.
        end: position past the last measured job.
        gpu_count: GPUs of the cluster.
    """
    rho = finish_time_ratios(jobs, begin, end, gpu_count)
    if not len(rho):
        return None
    total, squares = float(rho.sum()), float((rho * rho).sum())
    return Fairness(
        mean=total / len(rho), most=float(rho.max()), jain=total * total / (len(rho) * squares)
    )


def finish_time_ratios(
    jobs: Sequence[JobResult], begin: int, end: int, gpu_count: int
) -> NDArray[np.float64]:
    """Return rho of each measured job that ended, float64 [job]."""
    done = [job for job in jobs if job.ended_s is not None]
    measured = [job for job in jobs[begin:end] if job.ended_s is not None]
    came_s = np.array([job.submit_s for job in measured])
    left_s = np.array([job.ended_s for job in measured], dtype=np.float64)
    work_s = np.maximum([job.work_s for job in measured], 1e-12)
    gpus = np.array([job.gpu_count for job in measured], dtype=np.float64)
    took_s = left_s - came_s
    present = _present(done, came_s, left_s) / np.maximum(took_s, 1e-12)
    ratios: NDArray[np.float64] = took_s / (work_s * np.maximum(1.0, gpus * present / gpu_count))
    return ratios


def _present(
    done: Sequence[JobResult], from_s: NDArray[np.float64], until_s: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Job-seconds in the system in each interval, float64 [interval]."""
    moments = np.array([job.submit_s for job in done] + [job.ended_s or 0.0 for job in done])
    steps = np.repeat([1.0, -1.0], len(done))
    order = np.argsort(moments, kind="stable")
    moments, level = moments[order], np.cumsum(steps[order])
    if not len(moments):
        return np.zeros(len(from_s))
    integral = np.concatenate([[0.0], np.cumsum(level[:-1] * np.diff(moments))])
    between: NDArray[np.float64] = np.interp(until_s, moments, integral) - np.interp(
        from_s, moments, integral
    )
    return between
