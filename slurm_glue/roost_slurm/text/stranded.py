"""GPUs that slurmctld counts as used though no job has them. Pure. gres_used has the cause.

Nodes and jobs come from two answers of slurmctld, and a job may have started or ended between the
two. So a node counts only where both answers describe the same moment: the node has as many CPUs in
use as its jobs have, and no job there is starting or completing.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from roost_slurm.text.hostlist import HostlistError, expand
from roost_slurm.text.scontrol import JobDetail
from roost_slurm.text.squeue import QueuedJob, SlurmJobState

_STEADY = (SlurmJobState.RUNNING, SlurmJobState.SUSPENDED)


@dataclass(slots=True)
class Held:
    """What the jobs of a node hold.

    Attributes:
        gpu_indices: also those of suspended jobs, and those of which jobs have shards.
        cpu_count: of the running jobs.
        is_known: whether slurmctld shows that of every job there.
    """

    gpu_indices: set[int] = field(default_factory=set)
    cpu_count: int = 0
    is_known: bool = True


def stranded(
    used_gpus: Sequence[int], cpu_allocated_count: int, state: str, held: Held
) -> frozenset[int]:
    """Return the GPUs of a node that no job has; empty where the answers do not fit together.

    Args:
        used_gpus: indices of the GPUs that slurmctld counts as used.
        cpu_allocated_count: CPUs that it counts as used.
        state: of the node, in full, lower case.
        held: what the jobs of the node hold; `Held()` where there are none.
    """
    is_one_moment = held.is_known and held.cpu_count == cpu_allocated_count
    if not is_one_moment or "completing" in state:
        return frozenset()
    return frozenset(used_gpus) - held.gpu_indices


def held_by_jobs(jobs: Iterable[QueuedJob], details: Mapping[int, JobDetail]) -> Mapping[str, Held]:
    """Return by node what the jobs of a queue hold; a node without jobs is missing.

    Args:
        jobs: the queue.
        details: of them, by record number.
    """
    found = defaultdict[str, Held](Held)
    for job in jobs:
        if job.is_holding:
            _add(found, job, details.get(job.number))
    return found


def _add(found: Mapping[str, Held], job: QueuedJob, detail: JobDetail | None) -> None:
    if job.state not in _STEADY or detail is None or not detail.allocated:
        for name in _nodes_of(job):
            found[name].is_known = False
        return
    asks_gpus = "gpu" in job.tres_total or any("gpu" in request for _, request in job.tres)
    for node in detail.allocated:
        held = found[node.node]
        held.gpu_indices.update(node.gpu_indices, node.shared_indices)
        if job.state is SlurmJobState.RUNNING:  # a suspended job keeps its GPUs, and no CPU
            held.cpu_count += node.cpu_count
        if asks_gpus and not (node.gpu_indices or node.shared_indices):
            held.is_known = False  # which ones it has is unknown to slurmctld itself


def _nodes_of(job: QueuedJob) -> Iterable[str]:
    try:
        return expand(job.nodes)
    except HostlistError:
        return ()
