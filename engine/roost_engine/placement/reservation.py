"""When a job that has no room will have it, by what the running jobs' time limits promise.

The reservation of EASY backfill (Lifka, JSSPP 1995): the first job without room gets the nodes that
will be free soonest, and others may use them only if they promise to be gone by then.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from math import inf

from roost_engine.cluster.cluster import Cluster
from roost_engine.cluster.node_sets import NO_ROWS, RowSet, row_set, rows_in
from roost_engine.domain.model import JobId, JobSpec, Shape
from roost_engine.placement.eligibility import usable_rows


@dataclass(frozen=True, slots=True, eq=False)
class Reservation:
    """Nodes that one waiting job is to have.

    Attributes:
        rows: as many as its shape has nodes; none when it can never have so many.
        start_s: engine time by which they have room, if everybody keeps to his time limit.
    """

    rows: RowSet
    start_s: float


def reserve(
    cluster: Cluster, job: JobSpec, shape: Shape, ends_s: Mapping[JobId, float], at_s: float
) -> Reservation:
    """Find the nodes that have room for a shape soonest.

    Ties, also between nodes of which nobody knows when, go to the node with more free GPUs.

    Counts GPUs; that a gang needs the same indices on each node may delay it further.

    Args:
        cluster: the nodes and who holds what.
        job: whose partition, features and node lists count.
        shape: what it waits for.
        ends_s: engine time at which each running job ends by its time limit; others never do.
        at_s: engine time.
    """
    rows, required = usable_rows(cluster, job, shape)
    if rows.bit_count() < shape.node_count or required is None:
        return Reservation(NO_ROWS, inf)
    ending: dict[int, list[tuple[float, int]]] = {}
    for job_id in cluster.held_jobs():
        end_s = max(ends_s.get(job_id, inf), at_s)
        for share in cluster.shares(job_id):
            row = cluster.row[share.node]
            ending.setdefault(row, []).append((end_s, len(share.gpu_indices)))
    wanted_gpus = shape.gpus_per_node
    free_s = {
        row: _free_at(cluster.gpu_free[row], ending.get(row, []), wanted_gpus, at_s)
        for row in rows_in(rows)
    }
    # Nodes that the job requires come first, whenever they have room.
    gpu_free = cluster.gpu_free
    order = sorted(
        free_s, key=lambda row: (not required >> row & 1, free_s[row], -gpu_free[row], row)
    )
    chosen = order[: shape.node_count]
    return Reservation(row_set(chosen), max(free_s[row] for row in chosen))


def _free_at(
    free_gpus: int, ending: list[tuple[float, int]], wanted_gpus: int, at_s: float
) -> float:
    """When a node has so many free GPUs."""
    when_s = at_s
    for end_s, gpu_count in sorted(ending):
        if free_gpus >= wanted_gpus:
            break
        free_gpus, when_s = free_gpus + gpu_count, end_s
    return when_s if free_gpus >= wanted_gpus else inf
