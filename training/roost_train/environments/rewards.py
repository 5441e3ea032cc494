"""Rewards: what the time between two decisions was worth.

Each is a rate that is added up over time, so an episode's sum does not depend on how often the
agent was asked.
"""

from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import TypeAlias

from roost_sim.runs.driver import Driver

# (run, GPUs of the cluster) to reward a second, as long as nothing happens.
RewardRate: TypeAlias = Callable[[Driver, int], float]

HOLD_COST = 2.0  # TopDRL's cost of a waiting job, beside the speed of a running one


class Reward(StrEnum):
    """What an agent learns to maximise."""

    COMPLETION = "completion"  # minus the jobs in the system; in sum minus all completion times
    PROGRESS = "progress"  # DL2: the share of each job's work that is done
    THROUGHPUT = "throughput"  # TopDRL: speed of running jobs minus a cost of waiting ones


def jobs_in_system(run: Driver, gpu_count: int) -> float:
    """Return minus the number of jobs that have arrived and not ended (Little, 1961)."""
    return -float(run.active_count)


def progress_made(run: Driver, gpu_count: int) -> float:
    """Return the work done a second, each job's as a share of its whole work.

    Source: Peng et al., DL2, TPDS 2021, section 4: epochs trained over all epochs of the job.
    """
    return sum(job.rate / job.work_s for job in run.progress.jobs.values() if job.is_running)


def throughput(run: Driver, gpu_count: int) -> float:
    """Return GPUs at work times their speed, minus the cost of waiting GPUs, over all GPUs.

    Source: Ayadi et al., TopDRL, JPDC 2025, in the form of the laboratory's earlier code: the
    speeds of running jobs minus 2 times those that waiting jobs would have; scaled by the cluster
    instead of clipped.
    """
    total = 0.0
    for job in run.progress.jobs.values():
        total += job.gpu_count * (job.rate if job.is_running else -HOLD_COST)
    return total / gpu_count


RATES: Mapping[Reward, RewardRate] = {
    Reward.COMPLETION: jobs_in_system,
    Reward.PROGRESS: progress_made,
    Reward.THROUGHPUT: throughput,
}
