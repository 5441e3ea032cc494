"""Which nodes may take a job: now, ever, and soonest.

One function a question, each answered for all nodes at once.
"""

from collections.abc import Sequence
from typing import Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from roostd.core.cluster import Cluster
from roostd.core.links import MAX_GPUS, popcounts
from roostd.core.model import JobSpec, NodeName, Shape

KEPT_FREE = "kept free for a job that waits longer"
POPCOUNT = popcounts(MAX_GPUS)
_Number = TypeVar("_Number", np.float32, np.float64, np.int64)


def eligible_rows(
    cluster: Cluster, job: JobSpec, shape: Shape, kept: NDArray[np.bool_] | None = None
) -> tuple[NDArray[np.int64], tuple[tuple[str, int], ...]]:
    """The rows with room for one node's part of a shape, and why the others have none."""
    count = len(cluster)
    alive = cluster.members("partition", job.partition).copy()
    exclusions: list[tuple[str, int]] = []

    def keep(reason: str, condition: NDArray[np.bool_]) -> None:
        before = int(np.count_nonzero(alive))
        np.logical_and(alive, condition, out=alive)
        if removed := before - int(np.count_nonzero(alive)):
            exclusions.append((reason, removed))

    _keep_static(cluster, job, shape, keep)
    keep("not usable by Slurm's word", cluster.usable[:count])
    free_gpus = POPCOUNT[cluster.free_mask[:count]]
    keep("too few free GPUs", free_gpus >= shape.gpus_per_node)
    keep("too few free CPUs", cluster.cpu_free[:count] >= shape.cpus_per_node)
    keep("too little free memory", cluster.memory_free[:count] >= shape.memory_per_node_bytes)
    if kept is not None:
        keep(KEPT_FREE, ~kept[:count])
    return np.flatnonzero(alive), tuple(exclusions)


def has_room(cluster: Cluster, job: JobSpec, shape: Shape, row: int) -> bool:
    """Whether one node has room for its part of a shape, kept nodes and node lists aside."""
    return bool(
        POPCOUNT[cluster.free_mask[row]] >= shape.gpus_per_node
        and cluster.usable[row]
        and cluster.cpu_free[row] >= shape.cpus_per_node
        and cluster.memory_free[row] >= shape.memory_per_node_bytes
        and cluster.members("partition", job.partition)[row]
        and all(cluster.members("feature", feature)[row] for feature in job.features)
    )


def could_ever_fit(cluster: Cluster, job: JobSpec) -> bool:
    """Whether any shape would fit if every node were idle and usable."""
    for shape in job.shapes:
        alive = cluster.members("partition", job.partition).copy()

        def keep(
            reason: str, condition: NDArray[np.bool_], alive: NDArray[np.bool_] = alive
        ) -> None:
            np.logical_and(alive, condition, out=alive)

        _keep_static(cluster, job, shape, keep)
        rows = np.flatnonzero(alive)
        if len(rows) >= shape.node_count and required_rows(cluster, job, rows) is not None:
            return True
    return False


def rows_to_keep(cluster: Cluster, job: JobSpec, shape: Shape) -> NDArray[np.int64]:
    """The nodes that will soonest have room for a shape: those with the most free GPUs now.

    The nodes that the job requires come first. Empty when too few nodes could ever hold it.
    """
    alive = cluster.members("partition", job.partition) & cluster.usable[: len(cluster)]

    def keep(reason: str, condition: NDArray[np.bool_]) -> None:
        np.logical_and(alive, condition, out=alive)

    _keep_static(cluster, job, shape, keep)
    rows = np.flatnonzero(alive)
    required = required_rows(cluster, job, rows)
    if len(rows) < shape.node_count or required is None:
        return rows[:0]
    soonest = POPCOUNT[cluster.free_mask[rows]]
    soonest[np.isin(rows, required)] = MAX_GPUS + 1
    return rows[first_largest(soonest, shape.node_count)]


def required_rows(
    cluster: Cluster, job: JobSpec, rows: NDArray[np.int64]
) -> NDArray[np.int64] | None:
    """The rows of the job's node list; None when one of them is not among `rows`, ascending."""
    required = [cluster.row.get(name, -1) for name in job.required_nodes]
    return np.array(required, dtype=np.int64) if np.isin(required, rows).all() else None


def first_largest(keys: NDArray[_Number], count: int) -> NDArray[np.int64]:
    """Positions of the largest keys, ties to the lower position, in ascending position."""
    if len(keys) <= count:
        return np.arange(len(keys))
    threshold = np.partition(keys, len(keys) - count)[len(keys) - count]
    above = np.flatnonzero(keys > threshold)
    ties = np.flatnonzero(keys == threshold)[: count - len(above)]
    return np.sort(np.concatenate((above, ties)))


class _Keep(Protocol):
    def __call__(self, reason: str, condition: NDArray[np.bool_]) -> None: ...


def _keep_static(cluster: Cluster, job: JobSpec, shape: Shape, keep: _Keep) -> None:
    """The conditions that no other job's end can change."""
    count = len(cluster)
    if shape.node_count < len(job.required_nodes):
        keep("the job's node list is longer than its node count", np.zeros(count, dtype=np.bool_))
    if shape.node_count == len(job.required_nodes):
        keep("not in the job's node list", _named(cluster, job.required_nodes))
    if job.excluded_nodes:
        keep("excluded by the job", ~_named(cluster, job.excluded_nodes))
    for feature in job.features:
        keep(f"lacks feature {feature}", cluster.members("feature", feature))
    keep("has too few GPUs", cluster.gpu_count[:count] >= shape.gpus_per_node)
    keep("has too few CPUs", cluster.cpu_count[:count] >= shape.cpus_per_node)
    keep("has too little memory", cluster.memory_bytes[:count] >= shape.memory_per_node_bytes)


def _named(cluster: Cluster, names: Sequence[NodeName]) -> NDArray[np.bool_]:
    named = np.zeros(len(cluster), dtype=np.bool_)
    named[[cluster.row[name] for name in names if name in cluster.row]] = True
    return named
