"""Which nodes may take a job: now, ever, and soonest.

One function a question, each answered for all nodes at once.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from roost_engine.cluster.cluster import Cluster
from roost_engine.cluster.link_table import MAX_GPUS, popcounts
from roost_engine.cluster.node_sets import NO_ROWS, RowSet, row_set, row_set_where
from roost_engine.domain.model import JobSpec, NodeName, Shape

KEPT_FREE = "kept free for a job that waits longer"
POPCOUNT = popcounts(MAX_GPUS)
_SHORTAGES = ("too few free GPUs", "too few free CPUs", "too little free memory")
_MEMO_LIMIT = 256  # of demands; each costs a bit a node
_Number = TypeVar("_Number", np.float32, np.float64, np.int64)


class Chance(NamedTuple):
    """What would have to be so for a job that found no room to find some.

    Attributes:
        shape: in which it would run.
        rows: nodes that have room for its part.
        wanted: how many of them must not be kept for others.
        same_gpus: whether these must have the same GPUs free.
    """

    shape: Shape
    rows: RowSet
    wanted: int
    same_gpus: bool = False

    def is_void(self, cluster: Cluster) -> bool:
        """Whether so many nodes have nothing in common, also of those kept for others."""
        if not self.same_gpus:
            return False
        shape = self.shape
        return not cluster.sets_in_common.reach(shape.gpus_per_node, shape.node_count)


class Room(NamedTuple):
    """The rows with room for one node's part of a shape.

    Attributes:
        rows: those that may be used; nodes kept for others are not among them.
        held_back: those that have room and are kept free for a job that is served before this one.
        row_count: of `rows`.
        usable: of the shape, whatever is free.
        enough: the rows with enough free GPUs, CPUs and memory.
    """

    rows: RowSet
    held_back: RowSet
    row_count: int
    usable: "UsableRows"
    enough: tuple[RowSet, RowSet, RowSet]

    def chances(self, shape: Shape) -> tuple[Chance, ...]:
        """What could give room to a shape that found none."""
        if self.row_count >= shape.node_count:  # enough nodes, but they have nothing in common
            return (Chance(shape, self.held_back, 1),) if self.held_back else ()
        rows = self.rows | self.held_back
        if rows.bit_count() < shape.node_count:
            return ()
        return (Chance(shape, rows, shape.node_count),)

    def exclusions(self) -> tuple[tuple[str, int], ...]:
        """Why the other nodes have none: (reason, number of nodes)."""
        found, left = list(self.usable.exclusions), self.usable.rows
        for reason, enough in zip(_SHORTAGES, self.enough, strict=True):
            if lacking := (left & ~enough).bit_count():
                found.append((reason, lacking))
            left &= enough
        if self.held_back:
            found.append((KEPT_FREE, self.held_back.bit_count()))
        return tuple(found)


def room_for(cluster: Cluster, job: JobSpec, shape: Shape, kept: RowSet = NO_ROWS) -> Room:
    """Find the rows with room for one node's part of a shape.

    Args:
        cluster: the nodes.
        job: whose partition, features and node lists count.
        shape: what is asked of each node.
        kept: nodes kept free for a job that is served before this one.
    """
    usable = _usable_rows(cluster, job, shape)
    gpus = cluster.gpu_free.at_least[shape.gpus_per_node]
    cpus = cluster.cpu_free.at_least[shape.cpus_per_node]
    memory = cluster.memory_free.at_least[shape.memory_per_node_bytes]
    room = usable.rows & gpus & cpus & memory
    free = room & ~kept
    return Room(free, room & kept, free.bit_count(), usable, (gpus, cpus, memory))


def rows_with_room(cluster: Cluster, job: JobSpec, shape: Shape) -> RowSet:
    """As room_for(), for whoever keeps no nodes and asks no more."""
    return (
        _usable_rows(cluster, job, shape).rows
        & cluster.gpu_free.at_least[shape.gpus_per_node]
        & cluster.cpu_free.at_least[shape.cpus_per_node]
        & cluster.memory_free.at_least[shape.memory_per_node_bytes]
    )


def chances_in(
    cluster: Cluster, job: JobSpec, rows: RowSet, same_gpus: bool = False
) -> list[Chance]:
    """In which shapes a job that found no room may find some, now that some nodes have more.

    Args:
        cluster: the nodes.
        job: who asks.
        rows: the nodes that have more room.
        same_gpus: whether each node of a gang must give the same ones.
    """
    found: list[Chance] = []
    for shape in job.shapes:
        size, count = shape.gpus_per_node, shape.node_count
        enough_gpus = cluster.gpu_free.at_least[size]
        if not enough_gpus & rows or enough_gpus.bit_count() < count:
            continue
        room = rows_with_room(cluster, job, shape)
        if room & rows and room.bit_count() >= count:
            found.append(Chance(shape, room, count, same_gpus and count > 1))
    return found


def could_ever_fit(cluster: Cluster, job: JobSpec) -> bool:
    """Whether any shape would fit if every node were idle and usable."""
    return any(_usable_rows(cluster, job, shape).could_ever_fit for shape in job.shapes)


def why_never(cluster: Cluster, job: JobSpec) -> str:
    """Why no shape of a job could ever be placed, in words: of the last one."""
    _, exclusions = _fitting(cluster, job, job.shapes[-1])
    if exclusions:
        return ", ".join(f"{count} {reason}" for reason, count in exclusions)
    return "too few nodes" if cluster.members("partition", job.partition).any() else "no nodes"


def usable_rows(cluster: Cluster, job: JobSpec, shape: Shape) -> tuple[RowSet, RowSet | None]:
    """The rows that a shape could use if they were idle, and which the job requires of them."""
    rows = _usable_rows(cluster, job, shape).rows
    return rows, required_rows(cluster, job, rows)


def required_rows(cluster: Cluster, job: JobSpec, rows: RowSet) -> RowSet | None:
    """The rows of the job's node list; None when one of them is not among `rows`."""
    if not job.required_nodes:
        return NO_ROWS
    if not all(name in cluster.row for name in job.required_nodes):
        return None
    required = row_set(cluster.row[name] for name in job.required_nodes)
    return None if required & ~rows else required


def first_largest(keys: NDArray[_Number], count: int) -> NDArray[np.int64]:
    """Positions of the largest keys, ties to the lower position, in ascending position."""
    if len(keys) <= count:
        return np.arange(len(keys))
    threshold = np.partition(keys, len(keys) - count)[len(keys) - count]
    above = np.flatnonzero(keys > threshold)
    ties = np.flatnonzero(keys == threshold)[: count - len(above)]
    return np.sort(np.concatenate((above, ties)))


@dataclass(frozen=True, slots=True, eq=False)
class UsableRows:
    """The rows that a shape could use if they were idle, and why the others are none.

    Attributes:
        could_ever_fit: whether they, and those that Slurm would not use now, suffice.
    """

    rows: RowSet
    exclusions: tuple[tuple[str, int], ...]
    could_ever_fit: bool


def _usable_rows(cluster: Cluster, job: JobSpec, shape: Shape) -> UsableRows:
    """Worked out once for each demand, until Slurm says something new of any node."""
    # The numbers of the shape one by one: to hash a dataclass takes as long as all the rest.
    key = (
        shape.node_count,
        shape.gpus_per_node,
        shape.cpus_per_node,
        shape.memory_per_node_bytes,
        job.partition,
        job.features,
        job.required_nodes,
        job.excluded_nodes,
    )
    found = cluster.memo.get(key)
    if found is None:
        if len(cluster.memo) >= _MEMO_LIMIT:
            cluster.memo.clear()
        found = cluster.memo[key] = _find_usable_rows(cluster, job, shape)
    assert isinstance(found, UsableRows)
    return found


def _find_usable_rows(cluster: Cluster, job: JobSpec, shape: Shape) -> UsableRows:
    fitting, exclusions = _fitting(cluster, job, shape)
    rows = row_set_where(fitting)
    enough = rows.bit_count() >= shape.node_count and required_rows(cluster, job, rows) is not None
    usable = rows & row_set_where(cluster.usable[: len(cluster)])
    if removed := (rows & ~usable).bit_count():
        exclusions.append(("not usable by Slurm's word", removed))
    return UsableRows(usable, tuple(exclusions), enough)


def _fitting(
    cluster: Cluster, job: JobSpec, shape: Shape
) -> tuple[NDArray[np.bool_], list[tuple[str, int]]]:
    """Which rows an idle and usable cluster could offer: bool [row]; and why not the others."""
    count = len(cluster)
    alive = cluster.members("partition", job.partition)
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
