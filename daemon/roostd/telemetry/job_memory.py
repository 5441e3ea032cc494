"""What each job uses of the memory of GPUs that it shares, as probes list their processes.

Slurm is authoritative: an entry counts only for a job that holds the GPU by what Slurm says. Memory
that belongs to none of them, as that of an MPS server or of what an ended job left behind, may be
of a process that the probe could not place; where it is more than a little, what the jobs use there
is not known.
"""

from collections.abc import Iterable, Mapping

from roost_engine.domain.model import JobId
from roostd.telemetry.board import NodeReport

MOST_FOREIGN_BYTES = 1 << 30  # an MPS server and its contexts take a few hundred MB


def used_by_holders(
    report: NodeReport,
    gpu: int,
    holders: Iterable[JobId],
    job_ids: Mapping[int, JobId],
) -> dict[JobId, int] | None:
    """Return what each job uses of one GPU's memory, in bytes; None: that is not known.

    Args:
        report: of the node.
        gpu: gres index.
        holders: the jobs that hold the GPU.
        job_ids: the JobId of each of Slurm's numbers, where the two differ.
    """
    sample, hello = report.sample, report.hello
    if sample is None or gpu >= len(hello.order):
        return None
    if not sample.process_mask >> hello.order[gpu] & 1:
        return None
    found, foreign_bytes = dict.fromkeys(holders, 0), 0
    for one in sample.job_memory:
        if one.gpu_index != hello.order[gpu]:
            continue
        job_id = job_ids.get(one.slurm_job_id, JobId(str(one.slurm_job_id)))
        if job_id in found:
            found[job_id] += one.used_bytes
        else:
            foreign_bytes += one.used_bytes
    # An absent capacity reads as 0, and tells nothing.
    has_bytes = hello.gpus[gpu].memory_bytes or foreign_bytes + sum(found.values())
    if foreign_bytes > MOST_FOREIGN_BYTES or foreign_bytes + sum(found.values()) > has_bytes:
        return None
    return found
