"""The GPUs that one job could be scattered over now, node by node."""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from roost_engine.cluster.cluster import Cluster
from roost_engine.cluster.node_sets import NodeSet, node_array
from roost_engine.domain.model import JobSpec, Shape
from roost_engine.placement.eligibility import POPCOUNT, Capacity, capacity_for, required_set


@dataclass(frozen=True, slots=True, eq=False)
class FreeGpus:
    """What a placement rule chooses from.

    Attributes:
        cluster: to be read only.
        job: who asks.
        wanted: how many GPUs to take; no more than are free.
        rows: int64 [node], ascending: nodes with at least one GPU for it.
        masks: int64 [node], those GPUs.
        counts: int64 [node], how many they are.
    """

    cluster: Cluster
    job: JobSpec
    wanted: int
    rows: NDArray[np.int64]
    masks: NDArray[np.int64]
    counts: NDArray[np.int64]

    @property
    def racks(self) -> NDArray[np.int64]:
        """int64 [node], the rack of each."""
        return self.cluster.rack_id[self.rows]

    def rack_counts(self) -> NDArray[np.int64]:
        """int64 [rack], free GPUs of each rack of the cluster."""
        racks = self.cluster.rack_id[: len(self.cluster)]
        counts = np.zeros(int(racks.max(initial=-1)) + 1, dtype=np.int64)
        np.add.at(counts, self.racks, self.counts)
        return counts

    def without(self, taken: NDArray[np.int64]) -> "FreeGpus":
        """What is left to choose, and to choose from, after some are taken: int64 [node]."""
        masks = self.masks & ~taken
        rest = masks != 0
        return replace(
            self,
            wanted=self.wanted - int(POPCOUNT[taken].sum()),
            rows=self.rows[rest],
            masks=masks[rest],
            counts=POPCOUNT[masks[rest]],
        )


def exact_shape(job: JobSpec) -> Shape:
    """The shape that stands for the job's totals: the preferred of those that round up least."""
    return min(job.shapes, key=lambda shape: shape.gpu_count)


def one_gpu_of(shape: Shape) -> Shape:
    """What each GPU of a shape asks for, as tasks of one GPU, parts rounded up."""
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
    """Look for enough GPUs anywhere.

    Args:
        cluster: the nodes.
        job: whose partition, features and node lists count; of its shapes only the totals.
        reserved: nodes kept free for a job that is served before this one.

    Returns:
        The GPUs, None where they are too few; and which nodes have capacity for one.
    """
    shape = exact_shape(job)
    capacity = capacity_for(cluster, job, one_gpu_of(shape), reserved)
    rows, masks = node_array(capacity.nodes), _affordable(cluster, capacity.nodes, shape)
    counts = POPCOUNT[masks]
    if int(counts.sum()) < shape.gpu_count or required_set(cluster, job, capacity.nodes) is None:
        return None, capacity
    return FreeGpus(cluster, job, shape.gpu_count, rows, masks, counts), capacity


def _affordable(cluster: Cluster, among: NodeSet, shape: Shape) -> NDArray[np.int64]:
    """The free GPUs of each node for which it also has CPUs and memory, the lowest of them."""
    rows = node_array(among)
    masks = cluster.free_mask[rows]
    counts = limit = POPCOUNT[masks]
    most, size = int(counts.max(initial=0)), shape.gpus_per_node
    for free, per_node in (
        (cluster.cpu_free, shape.cpus_per_node),
        (cluster.memory_free, shape.memory_per_node_bytes),
    ):
        if among & ~free.at_least[-(-most * per_node // size)]:  # some could not give all GPUs
            limit = np.minimum(limit, free.of(rows) * size // per_node)
    return masks if limit is counts else lowest_of(masks, limit)


def lowest_of(masks: NDArray[np.int64], counts: NDArray[np.int64]) -> NDArray[np.int64]:
    """The lowest so many GPUs of each mask.

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
