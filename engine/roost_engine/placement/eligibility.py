"""Which nodes may take a job: which have capacity now, and which could ever have it.

Each question is answered for all nodes at once.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from roost_engine.cluster.cluster import Cluster
from roost_engine.cluster.link_table import mask_of
from roost_engine.cluster.node_sets import (
    EVERY_NODE,
    NO_NODES,
    NodeSet,
    node_array,
    node_set,
    node_set_where,
)
from roost_engine.domain.actions import Exclusions
from roost_engine.domain.model import JobSpec, NodeName, Shape
from roost_engine.domain.value import value

RESERVED = "kept free for a job that waits longer"
_SHORTAGES = (  # in the order of Capacity.enough
    "too few free GPUs",
    "too few free CPUs",
    "too little free memory",
    "the only GPU indices that it can have are taken",
)
_MEMO_LIMIT = 256  # demands; each costs a bit a node
_Number = TypeVar("_Number", np.float32, np.float64, np.int64)


@value()
class Hint:
    """A feasibility hint: when it is worth searching again for a job without capacity.

    Attributes:
        shape: in which the job would run.
        nodes: the nodes that have capacity for a part of it.
        wanted: how many of these must not be reserved for other jobs.
        same_gpus: whether these must have the same GPUs free.
    """

    shape: Shape
    nodes: NodeSet
    wanted: int
    same_gpus: bool = False

    def is_void(self, cluster: Cluster) -> bool:
        """Return whether no index set is free on enough nodes, reserved nodes included."""
        if not self.same_gpus:
            return False
        shape = self.shape
        return not cluster.sets_in_common.reach(shape.gpus_per_node, shape.node_count)


@value(eq=False)
class Capacity:
    """The nodes with capacity for one node's part of a shape.

    Attributes:
        nodes: the nodes that may be used; none of them is reserved for another job.
        reserved: the nodes that have capacity and are reserved for a job that is served earlier.
        node_count: of `nodes`.
        usable: the nodes that the shape could use if they were idle.
        enough: the nodes with enough free GPUs, with enough free CPUs, with enough free memory,
            with the job's fixed indices free.
    """

    nodes: NodeSet
    reserved: NodeSet
    node_count: int
    usable: "UsableNodes"
    enough: tuple[NodeSet, NodeSet, NodeSet, NodeSet]

    def hints(self, shape: Shape) -> tuple[Hint, ...]:
        """Return what could make a failed search for the shape succeed."""
        if self.node_count >= shape.node_count:
            # Enough nodes, but they have no index set in common. With a reserved one they may.
            return (Hint(shape, self.reserved, 1),) if self.reserved else ()
        nodes = self.nodes | self.reserved
        if nodes.bit_count() < shape.node_count:
            return ()
        return (Hint(shape, nodes, shape.node_count),)

    def exclusions(self) -> Exclusions:
        """Return why the other nodes have no capacity: (reason, number of nodes)."""
        found, left = list(self.usable.exclusions), self.usable.nodes
        for reason, enough in zip(_SHORTAGES, self.enough, strict=True):
            if lacking := (left & ~enough).bit_count():
                found.append((reason, lacking))
            left &= enough
        if self.reserved:
            found.append((RESERVED, self.reserved.bit_count()))
        return tuple(found)


def capacity_for(
    cluster: Cluster, job: JobSpec, shape: Shape, reserved: NodeSet = NO_NODES
) -> Capacity:
    """Find the nodes with capacity for one node's part of a shape.

    Args:
        cluster: the nodes.
        job: its partition, features and node lists count.
        shape: what is asked of each node.
        reserved: nodes reserved for a job that is served before this one.
    """
    usable = _usable_nodes(cluster, job, shape)
    gpus = cluster.gpu_free.at_least[shape.gpus_per_node]
    cpus = cluster.cpu_free.at_least[shape.cpus_per_node]
    memory = cluster.memory_free.at_least[shape.memory_per_node_bytes]
    fixed = nodes_with_indices(cluster, job, shape) if job.fixed_indices else EVERY_NODE
    found = usable.nodes & gpus & cpus & memory & fixed
    free = found & ~reserved
    return Capacity(free, found & reserved, free.bit_count(), usable, (gpus, cpus, memory, fixed))


def nodes_with_capacity(cluster: Cluster, job: JobSpec, shape: Shape) -> NodeSet:
    """Return the nodes of capacity_for() where nothing is reserved."""
    nodes = (
        _usable_nodes(cluster, job, shape).nodes
        & cluster.gpu_free.at_least[shape.gpus_per_node]
        & cluster.cpu_free.at_least[shape.cpus_per_node]
        & cluster.memory_free.at_least[shape.memory_per_node_bytes]
    )
    return nodes & nodes_with_indices(cluster, job, shape) if job.fixed_indices else nodes


def nodes_with_indices(cluster: Cluster, job: JobSpec, shape: Shape) -> NodeSet:
    """Return the nodes on which the fixed indices of a job are free; none for another GPU count."""
    nodes = NO_NODES
    if shape.gpus_per_node == len(job.fixed_indices):
        mask = mask_of(job.fixed_indices)
        for group in cluster.groups:
            if group.free & mask == mask:
                nodes |= group.nodes
    return nodes


def hints_in(
    cluster: Cluster,
    job: JobSpec,
    nodes: NodeSet,
    same_gpus: bool = False,
    shapes: Sequence[Shape] | None = None,
) -> list[Hint]:
    """Return in which shapes a job without capacity may have some, now that nodes were freed.

    Args:
        cluster: the nodes.
        job: the job without capacity.
        nodes: the nodes that have more capacity than at the last search.
        same_gpus: whether each node of a gang must give the same GPU indices.
        shapes: in place of the job's.
    """
    found: list[Hint] = []
    for shape in shapes or job.shapes:
        size, count = shape.gpus_per_node, shape.node_count
        enough_gpus = cluster.gpu_free.at_least[size]
        if not enough_gpus & nodes or enough_gpus.bit_count() < count:
            continue
        able = nodes_with_capacity(cluster, job, shape)
        if able & nodes and able.bit_count() >= count:
            found.append(Hint(shape, able, count, same_gpus and count > 1))
    return found


def could_ever_fit(cluster: Cluster, job: JobSpec) -> bool:
    """Return whether any shape would fit if every node were idle and usable."""
    return any(shape_could_ever_fit(cluster, job, shape) for shape in job.shapes)


def shape_could_ever_fit(cluster: Cluster, job: JobSpec, shape: Shape) -> bool:
    """Return whether a shape of a job would fit if every node were idle and usable."""
    return _usable_nodes(cluster, job, shape).could_ever_fit


def gpus_that_could_hold(cluster: Cluster, job: JobSpec, shape: Shape) -> int:
    """Return how many GPUs the nodes have that could ever hold a part of a shape of a job."""
    return _usable_nodes(cluster, job, shape).fitting_gpu_count


def larger_nodes(cluster: Cluster, job: JobSpec, shape: Shape) -> Sequence[NodeSet]:
    """Return the larger of the nodes that a shape could use; see UsableNodes."""
    return _usable_nodes(cluster, job, shape).larger


def why_never(cluster: Cluster, job: JobSpec) -> str:
    """Say why the last shape of a job could never be placed."""
    _, exclusions = _fitting(cluster, job, job.shapes[-1])
    if exclusions:
        return ", ".join(f"{count} {reason}" for reason, count in exclusions)
    return "too few nodes" if cluster.members("partition", job.partition).any() else "no nodes"


def usable_nodes(cluster: Cluster, job: JobSpec, shape: Shape) -> tuple[NodeSet, NodeSet | None]:
    """Return the nodes that a shape could use if they were idle, and the required ones of them."""
    nodes = _usable_nodes(cluster, job, shape).nodes
    return nodes, required_set(cluster, job, nodes)


def required_set(cluster: Cluster, job: JobSpec, nodes: NodeSet) -> NodeSet | None:
    """Return the nodes of the job's node list; None when one of them is not among `nodes`."""
    if not job.required_nodes:
        return NO_NODES
    if not all(name in cluster.index_of for name in job.required_nodes):
        return None
    required = node_set(cluster.index_of[name] for name in job.required_nodes)
    return None if required & ~nodes else required


def first_largest(keys: NDArray[_Number], count: int) -> NDArray[np.int64]:
    """Return the positions of the largest keys, ascending; ties go to the lower position."""
    if len(keys) <= count:
        return np.arange(len(keys))
    threshold = np.partition(keys, len(keys) - count)[len(keys) - count]
    above = np.flatnonzero(keys > threshold)
    ties = np.flatnonzero(keys == threshold)[: count - len(above)]
    return np.sort(np.concatenate((above, ties)))


@dataclass(frozen=True, slots=True, eq=False)
class UsableNodes:
    """The nodes that a shape could use if they were idle, and why the others cannot be used.

    Attributes:
        could_ever_fit: whether these and the nodes that Slurm would not use now suffice.
        fitting_gpu_count: GPUs of these and of the nodes that Slurm would not use now.
        larger: those of `nodes` that have more GPUs than the smallest, then those that have more
            than the next size, and so on: of nodes with 4, 8 and 16 GPUs {8, 16}, {16}.
    """

    nodes: NodeSet
    exclusions: Exclusions
    could_ever_fit: bool
    fitting_gpu_count: int
    larger: Sequence[NodeSet]


def _usable_nodes(cluster: Cluster, job: JobSpec, shape: Shape) -> UsableNodes:
    """Return the usable nodes, found once for each demand until Slurm reports a changed node."""
    # The numbers of the shape one by one: hashing a dataclass takes as long as all the rest.
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
        found = cluster.memo[key] = _find_usable_nodes(cluster, job, shape)
    assert isinstance(found, UsableNodes)
    return found


def _find_usable_nodes(cluster: Cluster, job: JobSpec, shape: Shape) -> UsableNodes:
    fitting, exclusions = _fitting(cluster, job, shape)
    nodes = node_set_where(fitting)
    enough = nodes.bit_count() >= shape.node_count and required_set(cluster, job, nodes) is not None
    usable = nodes & node_set_where(cluster.usable[: len(cluster)])
    if removed := (nodes & ~usable).bit_count():
        exclusions.append(("not usable by Slurm's word", removed))
    sizes = cluster.gpu_count[: len(cluster)]
    fitting_gpu_count = int(sizes[fitting].sum())
    steps = np.unique(sizes[node_array(usable)])[:-1].tolist()
    larger = tuple([usable & node_set_where(sizes > step) for step in steps])
    return UsableNodes(usable, tuple(exclusions), enough, fitting_gpu_count, larger)


def _fitting(
    cluster: Cluster, job: JobSpec, shape: Shape
) -> tuple[NDArray[np.bool_], list[tuple[str, int]]]:
    """Return what an idle and usable cluster could offer, bool [node]; and why not the others."""
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
    named[[cluster.index_of[name] for name in names if name in cluster.index_of]] = True
    return named
