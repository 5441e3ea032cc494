"""How partitions and jobs share nodes: CPUs in common, and users kept apart. Pure.

Roost counts each CPU for one job. Where Slurm gives a CPU to several jobs, or suspends a job for
its CPUs, a job that does not fit by that count is Slurm's. Jobs that ask to share are as well, and
so are those of partitions that give a node to one user at a time.
"""

from collections.abc import Iterable, Mapping

from roost_engine.domain.model import NodeName
from roost_slurm.text.hostlist import HostlistError, expand
from roost_slurm.text.partitions import Partition
from roost_slurm.text.scheduling import Scheduling
from roost_slurm.text.scontrol import JobDetail
from roost_slurm.text.squeue import QueuedJob

_BY_PARTITION = "preempt/partition_prio"
_SUSPEND = "SUSPEND"
_TO_USER = "USER"  # OverSubscribe= of a job, up to 24.11; later Exclusive=


def why_left(partition: Partition | None, job: QueuedJob) -> str | None:
    """Return why a job is left to Slurm for how it shares nodes; None: Roost may place it."""
    if partition is None:
        return None
    if partition.is_for_one_user:
        return f"partition {partition.name} gives a node to one user at a time"
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
    jobs: Iterable[QueuedJob], details: Mapping[int, JobDetail]
) -> Mapping[NodeName, int]:
    """Return the nodes that running jobs keep for their own user, and that user's id."""
    found: dict[NodeName, int] = {}
    for job in jobs:
        if job.is_holding and _is_for_user(job, details.get(job.number)):
            try:
                found |= dict.fromkeys(map(NodeName, expand(job.nodes)), job.user_id)
            except HostlistError:
                continue
    return found


def _is_for_user(job: QueuedJob, detail: JobDetail | None) -> bool:
    by_detail = detail is not None and detail.is_exclusive_to_user
    return by_detail or job.over_subscribe == _TO_USER


def _jobs_of_a_cpu(partition: Partition, word: str) -> int:
    """Return how many jobs may have a CPU: 4 of FORCE:4, and 1 where the word is another."""
    said, _, count = partition.over_subscribe.partition(":")
    return int(count) if said == word and count.isdecimal() and len(count) < 6 else 1
