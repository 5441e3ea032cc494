"""Exposed communication: the part of the jobs' run time that is neither compute nor restart.

The work of a job is its run time on the closest placement; a fixed fraction of it is compute,
wherever the job runs. The other part of the run time, except restarts after preemptions, is exposed
communication. Dally counts the same: GPU time minus compute time.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from roost_engine.domain.model import JobId
from roost_sim.figures.outcome import JobResult


@dataclass(frozen=True, slots=True)
class Communication:
    """Exposed communication of the measured jobs.

    Attributes:
        mean_s: mean over jobs, in seconds.
        share_frac: GPU-seconds of it over GPU-seconds run, 0..1.
    """

    mean_s: float
    share_frac: float


def communication_of(
    jobs: Sequence[JobResult],
    compute_frac: Callable[[JobId, int], float] | None,
    restart_s: Callable[[JobId, int], float],
) -> Communication | None:
    """Compute the exposed communication of jobs.

    Args:
        jobs: jobs that ended.
        compute_frac: (job, GPUs) to the fraction of its work that is compute; None: unknown.
        restart_s: (job, GPUs) to seconds of one restart.

    Returns:
        None if the compute is unknown or there is no job.
    """
    if compute_frac is None or not jobs:
        return None
    total_s = gpu_s = run_gpu_s = 0.0
    for job in jobs:
        restarts_s = job.preempted_count * restart_s(job.job_id, job.gpu_count)
        compute_s = job.work_s * compute_frac(job.job_id, job.gpu_count)
        waited_s = max(job.ran_s - restarts_s - compute_s, 0.0)
        total_s += waited_s
        gpu_s += job.gpu_count * waited_s
        run_gpu_s += job.gpu_count * job.ran_s
    return Communication(total_s / len(jobs), gpu_s / run_gpu_s if run_gpu_s else 0.0)
