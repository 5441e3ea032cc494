"""Which nodes may take a job: now, ever, and soonest.

One function a question, each answered for all nodes at once.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from roostd.core.cluster import Cluster
from roostd.core.links import MAX_GPUS, popcounts
from roostd.core.model import JobSpec, NodeName, Shape

KEPT_FREE = "kept free for a job that waits longer"
POPCOUNT = popcounts(MAX_GPUS)
_NO_ROWS = np.zeros(0, dtype=np.int64)
_MEMO_LIMIT = 256  # of demands; each costs 8 bytes a node
_Number = TypeVar("_Number", np.float32, np.float64, np.int64)


def eligible_rows(
    cluster: Cluster, job: JobSpec, shape: Shape, kept: NDArray[np.bool_] | None = None
) -> tuple[NDArray[np.int64], tuple[tuple[str, int], ...]]:
    """The rows with room for one node's part of a shape, and why the others have none.

    Args:
        cluster: the nodes.
        job: whose partition, features and node lists count.
        shape: what is asked of each node.
        kept: bool [row], nodes kept free for a job that is served before this one.
    """
    usable = _usable_rows(cluster, job, shape)
    rows, exclusions = usable.rows, list(usable.exclusions)
    wants = (
        ("too few free GPUs", cluster.gpu_free, shape.gpus_per_node),
        ("too few free CPUs", cluster.cpu_free, shape.cpus_per_node),
        ("too little free memory", cluster.memory_free, shape.memory_per_node_bytes),
    )
    for reason, free, wanted in wants:
        enough = free[rows] >= wanted
        if lacking := len(rows) - int(np.count_nonzero(enough)):
            exclusions.append((reason, lacking))
            rows = rows[enough]
    if kept is not None and (kept_count := int(np.count_nonzero(kept[rows]))):
        exclusions.append((KEPT_FREE, kept_count))
        rows = rows[~kept[rows]]
    return rows, tuple(exclusions)


def has_room(cluster: Cluster, job: JobSpec, shape: Shape, row: int) -> bool:
    """Whether one node has room for its part of a shape, kept nodes and node lists aside."""
    return bool(
        cluster.gpu_free[row] >= shape.gpus_per_node
        and cluster.usable[row]
        and cluster.cpu_free[row] >= shape.cpus_per_node
        and cluster.memory_free[row] >= shape.memory_per_node_bytes
        and cluster.members("partition", job.partition)[row]
        and all(cluster.members("feature", feature)[row] for feature in job.features)
    )


def could_ever_fit(cluster: Cluster, job: JobSpec) -> bool:
    """Whether any shape would fit if every node were idle and usable."""
    return any(_usable_rows(cluster, job, shape).could_ever_fit for shape in job.shapes)


def rows_to_keep(cluster: Cluster, job: JobSpec, shape: Shape) -> NDArray[np.int64]:
    """The nodes that will soonest have room for a shape: those with the most free GPUs now.

    The nodes that the job requires come first. Empty when too few nodes could ever hold it.
    """
    rows, required = usable_rows(cluster, job, shape)
    if len(rows) < shape.node_count or required is None:
        return rows[:0]
    busy = MAX_GPUS - cluster.gpu_free[rows]
    if len(required):
        busy[np.isin(rows, required)] = -1
    return rows[np.argsort(busy, kind="stable")[: shape.node_count]]


def usable_rows(
    cluster: Cluster, job: JobSpec, shape: Shape
) -> tuple[NDArray[np.int64], NDArray[np.int64] | None]:
    """The rows that a shape could use if they were idle, and which the job requires of them."""
    rows = _usable_rows(cluster, job, shape).rows
    return rows, required_rows(cluster, job, rows)


def required_rows(
    cluster: Cluster, job: JobSpec, rows: NDArray[np.int64]
) -> NDArray[np.int64] | None:
    """The rows of the job's node list; None when one of them is not among `rows`, ascending."""
    if not job.required_nodes:
        return _NO_ROWS
    required = np.array([cluster.row.get(name, -1) for name in job.required_nodes], dtype=np.int64)
    return required if np.isin(required, rows).all() else None


def first_largest(keys: NDArray[_Number], count: int) -> NDArray[np.int64]:
    """Positions of the largest keys, ties to the lower position, in ascending position."""
    if len(keys) <= count:
        return np.arange(len(keys))
    threshold = np.partition(keys, len(keys) - count)[len(keys) - count]
    above = np.flatnonzero(keys > threshold)
    ties = np.flatnonzero(keys == threshold)[: count - len(above)]
    return np.sort(np.concatenate((above, ties)))


@dataclass(frozen=True, slots=True, eq=False)
class _UsableRows:
    """The rows that a shape could use if they were idle, and why the others are none.

    Attributes:
        could_ever_fit: whether they, and those that Slurm would not use now, suffice.
    """

    rows: NDArray[np.int64]
    exclusions: tuple[tuple[str, int], ...]
    could_ever_fit: bool


def _usable_rows(cluster: Cluster, job: JobSpec, shape: Shape) -> _UsableRows:
    """Worked out once for each demand, until Slurm says something new of any node."""
    key = shape, job.partition, job.features, job.required_nodes, job.excluded_nodes
    found = cluster.memo.get(key)
    if found is None:
        if len(cluster.memo) >= _MEMO_LIMIT:
            cluster.memo.clear()
        found = cluster.memo[key] = _find_usable_rows(cluster, job, shape)
    assert isinstance(found, _UsableRows)
    return found


def _find_usable_rows(cluster: Cluster, job: JobSpec, shape: Shape) -> _UsableRows:
    fitting, exclusions = _fitting(cluster, job, shape)
    rows = np.flatnonzero(fitting)
    enough = len(rows) >= shape.node_count and required_rows(cluster, job, rows) is not None
    usable = rows[cluster.usable[rows]]
    if removed := len(rows) - len(usable):
        exclusions.append(("not usable by Slurm's word", removed))
    return _UsableRows(usable, tuple(exclusions), enough)


def _fitting(
    cluster: Cluster, job: JobSpec, shape: Shape
) -> tuple[NDArray[np.bool_], list[tuple[str, int]]]:
    """Which rows an idle and usable cluster could offer: bool [row]; and why not the others."""
    count = len(cluster)
    alive = cluster.members("partition", job.partition).copy()
    exclusions: list[tuple[str, int]] = []

    def keep(reason: str, condition: NDArray[np.bool_]) -> None:
        before = int(np.count_nonzero(alive))
        np.logical_and(alive, condition, out=alive)
        if removed := before - int(np.count_nonzero(alive)):
            exclusions.append((reason, removed))

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
    return alive, exclusions


def _named(cluster: Cluster, names: Sequence[NodeName]) -> NDArray[np.bool_]:
    named = np.zeros(len(cluster), dtype=np.bool_)
    named[[cluster.row[name] for name in names if name in cluster.row]] = True
    return named
