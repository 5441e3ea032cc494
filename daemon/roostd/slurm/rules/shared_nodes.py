"""How partitions and jobs share nodes: CPUs in common, and users kept apart. Pure.

Roost counts each CPU for one job. Where Slurm gives a CPU to several jobs, or suspends a job to
free its CPUs, a job that does not fit by that count is left to Slurm. Jobs that ask to share CPUs
are left to Slurm too, and so are jobs of partitions that give a node to one user at a time, or a
switch or block to one job.
"""

from collections.abc import Iterable, Mapping

from roost_engine.domain.model import NodeName, NodeSpec
from roost_slurm.text.hostlist import HostlistError, expand
from roost_slurm.text.partitions import Partition
from roost_slurm.text.scheduling import Scheduling
from roost_slurm.text.scontrol import JobDetail
from roost_slurm.text.squeue import QueuedJob

_BY_PARTITION = "preempt/partition_prio"
_SUSPEND = "SUSPEND"
_TO_USER, _TO_TOPO = "USER", "TOPO"  # OverSubscribe= of a job, up to 24.11; later Exclusive=
_EXCLUSIVE = {_TO_USER: "a node to one user", _TO_TOPO: "a switch or block to one job"}
NO_USER = -1  # the id of no user: a node that is closed to all


def why_left(
    partition: Partition | None, job: QueuedJob, node_count: int, *, has_topologies: bool
) -> str | None:
    """Return why a job is left to Slurm for its partition's nodes; None: Roost may place it.

    Args:
        partition: of the job.
        job: the job.
        node_count: the least number of nodes on which the job fits.
        has_topologies: whether partitions have different topologies: Slurm shows the default one,
            and holds a job whose pin does not fit the partition's.
    """
    if partition is None:
        return None
    if partition.exclusive_to:
        return f"partition {partition.name} gives {_EXCLUSIVE[partition.exclusive_to]} at a time"
    if has_topologies and partition.topology and node_count > 1:
        return f"asks for several nodes in partition {partition.name}, which has its own Topology="
    if _jobs_of_a_cpu(partition, "YES") > 1 and job.over_subscribe == "YES":
        return f"may share its CPUs in partition {partition.name}: --oversubscribe"
    return None


def cpu_sharing(partitions: Mapping[str, Partition], scheduling: Scheduling) -> frozenset[str]:
    """Return the partitions whose jobs Slurm may start on CPUs that other jobs have."""
    forced = {one.name for one in partitions.values() if _jobs_of_a_cpu(one, "FORCE") > 1}
    if scheduling.preempt_type != _BY_PARTITION:
        return frozenset(forced)
    tiers = [
        one.tier
        for one in partitions.values()
        if _SUSPEND in (one.preempt_modes or scheduling.preempt_modes)
    ]
    lowest = min(tiers, default=None)
    above = {one.name for one in partitions.values() if lowest is not None and one.tier > lowest}
    return frozenset(forced | above)


def users_of_nodes(
    jobs: Iterable[QueuedJob],
    details: Mapping[int, JobDetail],
    nodes: Mapping[NodeName, NodeSpec],
    partitions: Mapping[str, Partition],
) -> Mapping[NodeName, int]:
    """Return the nodes that running jobs keep for their own user, and that user's id.

    The id is NO_USER for all nodes of a switch or block that one job has whole (--exclusive=topo).
    Of several topologies Slurm shows the default one alone, so the others are unknown.

    Args:
        jobs: of the queue.
        details: of these jobs, by record number.
        nodes: those with GPUs, by name.
        partitions: by name: a job of an exclusive one need not say that it is.
    """
    found: dict[NodeName, int] = {}
    for job in jobs:
        if not job.is_holding:
            continue
        word = _exclusive_to(job, details.get(job.number))
        if word not in (_TO_USER, _TO_TOPO):
            word = partitions[job.partition].exclusive_to if job.partition in partitions else ""
        if not word:
            continue
        try:
            own = frozenset(map(NodeName, expand(job.nodes)))
        except HostlistError:
            continue
        if word == _TO_USER:
            found |= dict.fromkeys(own, job.user_id)
            continue
        racks = {nodes[name].rack for name in own if name in nodes} - {""}
        beside = (one.name for one in nodes.values() if one.rack in racks)
        found |= dict.fromkeys(own.union(beside), NO_USER)
    return found


def _exclusive_to(job: QueuedJob, detail: JobDetail | None) -> str:
    return (detail.exclusive_to if detail is not None else "") or job.over_subscribe


def _jobs_of_a_cpu(partition: Partition, word: str) -> int:
    """Return how many jobs may have a CPU: 4 for FORCE:4, and 1 where the word is another."""
    found, _, count = partition.over_subscribe.partition(":")
    return int(count) if found == word and count.isdecimal() and len(count) < 6 else 1
