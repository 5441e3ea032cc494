"""GPUs that slurmctld counts as used though no job has them: see roost_slurm.text.gres_used.

Nodes and jobs come from two answers of slurmctld, and a job may have started or ended between the
two. So a node counts only where both answers describe the same moment: the node has as many CPUs in
use as its jobs have, and no job there is starting or completing.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from roost_engine.domain.model import NodeName
from roost_slurm.text.hostlist import HostlistError, expand
from roost_slurm.text.scontrol import JobDetail
from roost_slurm.text.squeue import QueuedJob, SlurmJobState
from roostd.slurm.port import QueueSnapshot, SlurmNode

_STEADY = (SlurmJobState.RUNNING, SlurmJobState.SUSPENDED)


@dataclass(slots=True)
class _Held:
    """What the jobs of a node hold.

    Attributes:
        gpu_indices: also those of suspended jobs, and those of which jobs have shards.
        cpu_count: of the running jobs.
        is_known: whether slurmctld shows that of every job there.
    """

    gpu_indices: set[int] = field(default_factory=set)
    cpu_count: int = 0
    is_known: bool = True


class StrandedGpus:
    """Compares the nodes with the jobs; a GPU counts once two comparisons in a row find it."""

    def __init__(self) -> None:
        self._before: Mapping[NodeName, frozenset[int]] = {}

    def compare(
        self, nodes: Iterable[SlurmNode], snapshot: QueueSnapshot
    ) -> Mapping[NodeName, int]:
        """Return how many GPUs of each node no job had, in this reading and in the last.

        Args:
            nodes: as slurmctld showed them just before the snapshot.
            snapshot: the queue.
        """
        used = [node for node in nodes if node.used_gpus]
        held = _held(snapshot) if used else {}
        now = {node.spec.name: _stranded(node, held.get(node.spec.name, _Held())) for node in used}
        before, self._before = self._before, now
        again = {name: gpus & before.get(name, frozenset()) for name, gpus in now.items()}
        return {name: len(gpus) for name, gpus in again.items() if gpus}


def _stranded(node: SlurmNode, held: _Held) -> frozenset[int]:
    is_one_moment = held.is_known and held.cpu_count == node.cpu_allocated_count
    if not is_one_moment or "completing" in node.state:
        return frozenset()
    return frozenset(node.used_gpus) - held.gpu_indices


def _held(snapshot: QueueSnapshot) -> Mapping[str, _Held]:
    """Return by node what the jobs of a snapshot hold."""
    found = defaultdict[str, _Held](_Held)
    for job in snapshot.jobs:
        if job.is_holding:
            _add(found, job, snapshot.details.get(job.number))
    return found


def _add(found: Mapping[str, _Held], job: QueuedJob, detail: JobDetail | None) -> None:
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
