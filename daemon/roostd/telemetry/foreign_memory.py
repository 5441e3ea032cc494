"""GPU memory of no Slurm job: of processes that ended jobs left behind, or of users outside Slurm.

On a free GPU all memory in use counts, as the driver reports it. On a GPU that a job holds it takes
the probe's list of processes, and one that shows processes of jobs there: without cgroups in Slurm
(`ProctrackType=proctrack/linuxproc`), or for a job in a container of another daemon, every process
looks like one of no job.

Up to MOST_FOREIGN_BYTES is no finding: display servers, the contexts of an MPS server and the
profiler of DCGM take a few hundred MB each, and are to be there. NVML does not list what the driver
reserves for itself. A GPU in MIG mode has no memory of its own that a job could get.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from roost_engine.domain.model import JobId
from roost_proto.v1.telemetry_pb2 import JobMemory
from roostd.telemetry.board import NodeReport
from roostd.telemetry.job_memory import MOST_FOREIGN_BYTES
from roostd.telemetry.probe_messages import column

_NO_JOB = 0  # in JobMemory.slurm_job_id


@dataclass(frozen=True, slots=True)
class ForeignMemory:
    """What processes of no job that holds a GPU use of its memory.

    Attributes:
        used_bytes: more than MOST_FOREIGN_BYTES.
        user_id: of the process that uses most; None: the processes are not listed.
        slurm_job_id: Slurm's number of the job that started it, which has ended or holds other
            GPUs; None: of no job.
    """

    used_bytes: int
    user_id: int | None = None
    slurm_job_id: int | None = None


@dataclass(frozen=True, slots=True)
class Foreign:
    """Foreign memory that has lasted.

    Attributes:
        memory: at the last poll.
        held_by: the job that holds the GPU, of several jobs one; None: it is free.
        since_s: engine time at which it was first seen.
    """

    memory: ForeignMemory
    held_by: JobId | None
    since_s: float


def foreign_memory(
    report: NodeReport,
    holders: Sequence[Collection[JobId] | None],
    job_ids: Mapping[int, JobId],
) -> list[ForeignMemory | None]:
    """Return the foreign memory of each GPU of a node: [gpu] in gres order.

    None where there is none, or it is not known.

    Args:
        report: of the node, not a stale one.
        holders: [gpu], the jobs that hold it; empty: it is free; None: who holds it is not known.
        job_ids: the JobId of each of Slurm's numbers, where the two differ.
    """
    sample, hello = report.sample, report.hello
    found: list[ForeignMemory | None] = [None] * len(holders)
    if sample is None:
        return found
    used = column(sample.memory_used_bytes, hello.order)
    listed: dict[int, list[JobMemory]] = {}
    for one in sample.job_memory:
        listed.setdefault(one.gpu_index, []).append(one)
    for gpu, (holding, nvml) in enumerate(zip(holders, hello.order, strict=False)):
        if holding is None or hello.gpus[gpu].mig_enabled or (holding and nvml not in listed):
            continue
        found[gpu] = _of_gpu(holding, listed.get(nvml, ()), int(used[gpu] or 0), job_ids)
    return found


def _of_gpu(
    holding: Collection[JobId],
    listed: Sequence[JobMemory],
    used_bytes: int,
    job_ids: Mapping[int, JobId],
) -> ForeignMemory | None:
    others = [
        one
        for one in listed
        if job_ids.get(one.slurm_job_id, JobId(str(one.slurm_job_id))) not in holding
    ]
    if holding:
        if all(one.slurm_job_id == _NO_JOB for one in listed):
            return None
        used_bytes = sum(one.used_bytes for one in others)
    if used_bytes <= MOST_FOREIGN_BYTES:
        return None
    most = max(others, key=lambda one: one.used_bytes, default=None)
    if most is None:
        return ForeignMemory(used_bytes)
    return ForeignMemory(
        used_bytes,
        most.user_id if most.HasField("user_id") else None,
        most.slurm_job_id or None,
    )
