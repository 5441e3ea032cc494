"""Which placed jobs cannot start: another job has started on their GPUs, or these are lost."""

from collections.abc import Collection, Mapping

from roost_engine.cluster.cluster import Cluster
from roost_engine.domain.events import JobStarted
from roost_engine.domain.gpu_seat import gpu_seats_of, is_any_taken
from roost_engine.domain.model import JobId, NodeName, Placement
from roost_engine.job_record import JobRecord, shares_of


def lost_to_start(
    event: JobStarted,
    placing: Collection[JobId],
    jobs: Mapping[JobId, JobRecord],
    cluster: Cluster,
) -> list[JobId]:
    """Return the placed jobs whose GPUs a started job has taken.

    Args:
        event: the start.
        placing: the jobs that were placed and have not started.
        jobs: every job under Roost.
        cluster: knows whether jobs may share GPUs.
    """
    if all(job_id == event.job_id for job_id in placing):
        return []
    started, taken = jobs.get(event.job_id), frozenset(gpu_seats_of(event.shares))
    nodes = frozenset(share.node for share in event.shares)
    may_share = cluster.seats is not None and started is not None and started.spec.shares_gpus
    found: list[JobId] = []
    for job_id in placing:
        record = jobs[job_id]
        # First what is cheap and nearly always true: thousands of jobs may be placed at once.
        if record.placement is None or nodes.isdisjoint(record.placement.nodes):
            continue
        if job_id == event.job_id or not record.placement.is_exact:
            continue
        wanted, both_share = shares_of(record.placement), may_share and record.spec.shares_gpus
        if is_any_taken(gpu_seats_of(wanted), taken, may_share=both_share):
            found.append(job_id)
    return found


def lost_with_node(
    name: NodeName,
    placing: Collection[JobId],
    jobs: Mapping[JobId, JobRecord],
    cluster: Cluster,
) -> list[JobId]:
    """Return the placed jobs that cannot start on a node that has changed."""
    placed = ((job_id, jobs[job_id].placement) for job_id in placing)
    return [
        job_id
        for job_id, placement in placed
        if placement is not None and name in placement.nodes and is_lost(placement, cluster)
    ]


def is_lost(placement: Placement, cluster: Cluster) -> bool:
    """Return whether Slurm uses a node of a placement no more, or one of its GPUs is broken."""
    for name, gpu_indices in placement.by_node():
        node = cluster.index_of.get(name)
        if node is None or not cluster.usable[node]:
            return True
        size = cluster.gpu_count[node]
        if any(gpu >= size or (node, gpu) in cluster.faults for gpu in gpu_indices):
            return True
    return False
