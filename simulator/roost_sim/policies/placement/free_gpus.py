"""The free GPUs from which a placement rule chooses, node by node."""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from roost_engine.cluster.cluster import Cluster
from roost_engine.cluster.link_table import POPCOUNT
from roost_engine.cluster.node_sets import NodeSet, node_array
from roost_engine.domain.model import JobSpec, Shape
from roost_engine.placement.eligibility import Capacity, capacity_for, required_set


@dataclass(frozen=True, slots=True, eq=False)
class FreeGpus:
    """The free GPUs that one job could take, on any nodes.

    Attributes:
        cluster: read-only.
        job: the waiting job.
        wanted: how many GPUs to take; no more than are free.
        nodes: int64 [node], ascending node indices: nodes with at least one GPU for the job.
        masks: int64 [node], bit masks of those GPUs.
        counts: int64 [node], the number of those GPUs.
    """

    cluster: Cluster
    job: JobSpec
    wanted: int
    nodes: NDArray[np.int64]
    masks: NDArray[np.int64]
    counts: NDArray[np.int64]

    @property
    def racks(self) -> NDArray[np.int64]:
        """int64 [node], the rack of each."""
        return self.cluster.racks.ids[self.nodes]

    def rack_counts(self) -> NDArray[np.int64]:
        """int64 [rack], free GPUs of each rack of the cluster."""
        racks = self.cluster.racks.ids[: len(self.cluster)]
        counts = np.zeros(int(racks.max(initial=-1)) + 1, dtype=np.int64)
        np.add.at(counts, self.racks, self.counts)
        return counts

    def without(self, taken: NDArray[np.int64]) -> "FreeGpus":
        """Return the GPUs left to choose from after `taken`, int64 [node], were taken."""
        masks = self.masks & ~taken
        rest = masks != 0
        return replace(
            self,
            wanted=self.wanted - int(POPCOUNT[taken].sum()),
            nodes=self.nodes[rest],
            masks=masks[rest],
            counts=POPCOUNT[masks[rest]],
        )


def exact_shape(job: JobSpec) -> Shape:
    """Return the shape with the job's totals: the preferred one of those with the fewest GPUs."""
    return min(job.shapes, key=lambda shape: shape.gpu_count)


def one_gpu_of(shape: Shape) -> Shape:
    """Return the shape as tasks of one GPU each, with CPUs and memory a GPU rounded up."""
    size = shape.gpus_per_node
    return Shape(
        node_count=shape.gpu_count,
        gpus_per_node=1,
        cpus_per_node=-(-shape.cpus_per_node // size),
        memory_per_node_bytes=-(-shape.memory_per_node_bytes // size),
    )


def find_free_gpus(
    cluster: Cluster, job: JobSpec, reserved: NodeSet
) -> tuple[FreeGpus | None, Capacity]:
    """Find the free GPUs that a job could take, on any nodes.

    Args:
        cluster: the nodes.
        job: its partition, features and node lists apply; of its shapes only the totals.
        reserved: nodes reserved for a job that is served before this one.

    Returns:
        The GPUs, None if they are too few; and the nodes with capacity for one GPU.
    """
    shape = exact_shape(job)
    capacity = capacity_for(cluster, job, one_gpu_of(shape), reserved)
    nodes, masks = node_array(capacity.nodes), _affordable(cluster, capacity.nodes, shape)
    counts = POPCOUNT[masks]
    if int(counts.sum()) < shape.gpu_count or required_set(cluster, job, capacity.nodes) is None:
        return None, capacity
    return FreeGpus(cluster, job, shape.gpu_count, nodes, masks, counts), capacity


def _affordable(cluster: Cluster, among: NodeSet, shape: Shape) -> NDArray[np.int64]:
    """The lowest free GPUs of each node, as many as it has CPUs and memory for."""
    nodes = node_array(among)
    masks = cluster.free_mask[nodes]
    counts = limit = POPCOUNT[masks]
    most, size = int(counts.max(initial=0)), shape.gpus_per_node
    for free, per_node in (
        (cluster.cpu_free, shape.cpus_per_node),
        (cluster.memory_free, shape.memory_per_node_bytes),
    ):
        if among & ~free.at_least[-(-most * per_node // size)]:  # some nodes have too little
            limit = np.minimum(limit, free.of(nodes) * size // per_node)
    return masks if limit is counts else lowest_of(masks, limit)


def lowest_of(masks: NDArray[np.int64], counts: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return masks of the lowest `counts` GPUs of each mask; 3 of 0b101101 are 0b001101.

    Args:
        masks: int64 [node].
        counts: int64 [node], each at most the number of GPUs in its mask.
    """
    chosen = np.where(counts > 0, masks, 0)
    parts = np.flatnonzero((counts > 0) & (counts < POPCOUNT[masks]))
    rest, wanted = masks[parts], counts[parts]
    for taken in range(int(wanted.max(initial=0))):
        rest = np.where(wanted > taken, rest & (rest - 1), rest)  # without its lowest GPU
    chosen[parts] ^= rest
    return chosen
