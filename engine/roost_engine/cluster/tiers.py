"""How close together a job's GPUs are: on one node, in one rack, across racks.

A tier is 0, 1 or 2, as placement.candidates numbers them. Closer is smaller.
"""

from collections.abc import Iterable

import numpy as np

from roost_engine.cluster.cluster import Cluster
from roost_engine.domain.model import JobSpec, NodeShare, Shape
from roost_engine.domain.tier import Tier

_SIZES, _CLOSEST, _USABLE = "largest node and rack", "closest tier", "usable GPUs"


def tier_of(cluster: Cluster, shares: Iterable[NodeShare]) -> Tier | None:
    """Return the tier of what a job holds; None for nothing, or where a node is unknown."""
    nodes = dict.fromkeys(cluster.index_of.get(share.node) for share in shares)
    if not nodes or None in nodes:
        return None
    if len(nodes) == 1:
        return Tier.NODE
    racks = {cluster.rack_of[node] for node in nodes if node is not None}
    return Tier.RACK if len(racks) == 1 else Tier.CLUSTER


def closest_tier(cluster: Cluster, job: JobSpec) -> Tier:
    """Return the closest tier that the nodes could ever give a job in any of its shapes.

    Partitions, features and the GPUs in use are ignored: a job that waits for a tier which these
    rule out waits no longer than any other.
    """
    key = _CLOSEST, job.shapes
    known = cluster.memo.get(key)
    if not isinstance(known, Tier):
        known = min(_closest_tier(cluster, shape) for shape in job.shapes)
        cluster.memo[key] = known
    return known


def largest_sizes(cluster: Cluster) -> tuple[int, int]:
    """Return the number of GPUs of the largest node and of the largest rack."""
    known = cluster.memo.get(_SIZES)
    if not isinstance(known, tuple):
        counts = cluster.gpu_count[: len(cluster)]
        racks = np.zeros(len(cluster) + 1, dtype=np.int64)
        np.add.at(racks, cluster.racks.ids[: len(cluster)], counts)
        known = int(counts.max(initial=0)), int(racks.max(initial=0))
        cluster.memo[_SIZES] = known
    node_gpus, rack_gpus = known
    return node_gpus, rack_gpus


def usable_gpus(cluster: Cluster) -> int:
    """Return the number of GPUs, free or held, on the nodes that Slurm would use."""
    known = cluster.memo.get(_USABLE)
    if not isinstance(known, int):
        count = len(cluster)
        known = int(cluster.gpu_count[:count][cluster.usable[:count]].sum())
        cluster.memo[_USABLE] = known
    return known


def _closest_tier(cluster: Cluster, shape: Shape) -> Tier:
    large_enough = cluster.gpu_count[: len(cluster)] >= shape.gpus_per_node
    if shape.node_count == 1:
        return Tier.NODE if large_enough.any() else Tier.CLUSTER
    in_rack = np.bincount(cluster.racks.ids[: len(cluster)][large_enough])
    return Tier.RACK if (in_rack >= shape.node_count).any() else Tier.CLUSTER
