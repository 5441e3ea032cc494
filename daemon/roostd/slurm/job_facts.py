"""What people may ask of any job in Slurm's queue, placed by Roost or not. Pure."""

from dataclasses import dataclass
from functools import lru_cache

from roost_slurm.text.limits import whole_number
from roost_slurm.text.scontrol import JobDetail
from roost_slurm.text.squeue import QueuedJob
from roost_slurm.text.tres import TresError, gpu_count, parse_gres


@dataclass(frozen=True, slots=True)
class Owner:
    """The user of a job, the partition that it was submitted to, and what Slurm says of it.

    Attributes:
        gpu_count: the GPUs that it asks for, all nodes together; 0: none, or not known.
        name: as its user gave it; "" where it cannot be read.
        priority: Slurm's.
    """

    user_id: int
    partition: str
    gpu_count: int = 0
    name: str = ""
    account: str = ""
    qos: str = ""
    priority: int = 0


def owner_of(job: QueuedJob, detail: JobDetail | None) -> Owner:
    """Return the owner of a job, and what the job asks for.

    Args:
        job: a record of the queue.
        detail: of the same job; None: it could not be read, so the job has no name.
    """
    return Owner(
        user_id=job.user_id,
        partition=job.partition,
        gpu_count=asked_gpu_count(job),
        name="" if detail is None else detail.name,
        account=job.account,
        qos=job.qos,
        priority=job.priority,
    )


def asked_gpu_count(job: QueuedJob) -> int:
    """Return the GPUs that a job asks for, all nodes together; 0: none, or they cannot be read."""
    counted = _counted_gpus(job.tres_total)
    if counted:
        return counted
    return _asked_gpus(job.tres, job.node_count, job.task_count)


@lru_cache(maxsize=4_000)
def _counted_gpus(tres_total: str) -> int:
    """Return Slurm's own count, which it has where gres/gpu is one of AccountingStorageTRES."""
    counts = dict(item.partition("=")[::2] for item in tres_total.split(","))
    count = counts.get("gres/gpu", "")
    return whole_number(count) if count.isdecimal() else 0


@lru_cache(maxsize=4_000)
def _asked_gpus(tres: tuple[tuple[str, str], ...], node_count: int, task_count: int) -> int:
    times = {"TresPerJob": 1, "TresPerTask": task_count}
    try:
        return sum(
            gpu_count(parse_gres(text)) * times.get(field, node_count)
            for field, text in tres
            if field.startswith("TresPer")
        )
    except TresError:
        return 0
