"""The ring network: time of a step's all-reduce on a hierarchy of rings, and the exposed part.

Dally's model (Sharma et al., arXiv 2401.16492), in closed form; its simulator steps through
messages. In each dimension of n members a ring moves 2(n-1)/n of the bytes and waits 2(n-1) times
for the latency, once a layer; the next outer dimension has n times fewer bytes. The sum is linear
in the bytes, so it depends on the number of layers and not on their sizes. Communication is hidden
as far as it fits into the backward pass. The layers that finish last cannot be hidden, which is not
modelled: a barely hidden step is up to a tenth too fast (docs/simulator/speed.md).
"""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import TypeAlias

from roost_engine.domain.model import NodeShare
from roost_sim.clusters.cluster_spec import ClusterSpec, NetworkTier, TierSpec

SLOT_GPUS = 4  # GPUs joined without latency inside a machine of Dally's simulator
_BACKWARD_FRAC = 2 / 3  # of a step's compute: a backward pass costs two forward passes

_Path: TypeAlias = tuple[str | int, ...]  # (pod, rack, node, slot), outermost first
GpuCounts: TypeAlias = Mapping[_Path, int]  # GPUs in each slot that a job uses
Rings: TypeAlias = tuple[tuple[int, int], ...]  # (members, index of the dimension), inside out


@dataclass(frozen=True, slots=True, kw_only=True)
class StepModel:
    """Compute and gradients of one step of a model.

    Attributes:
        name: of the model.
        family: the same as `name`; families are excluded as a whole.
        source: of the figures.
        compute_s: compute of one step, for any number of GPUs.
        gradient_bytes: bytes reduced in each step.
        layer_count: all-reduces in each step.
    """

    name: str
    family: str
    source: str
    compute_s: float
    gradient_bytes: float
    layer_count: int


@dataclass(frozen=True, slots=True)
class RingNetwork:
    """The dimensions of a cluster's network that a job may span.

    Attributes:
        dimensions: GPUs of a slot, slots of a machine, machines of a rack, racks of a pod, pods.
        compute_scale: multiplies compute. 1: as published, far above what GPUs do.
    """

    dimensions: tuple[TierSpec, ...]
    compute_scale: float = 1.0

    @classmethod
    def of(cls, cluster: ClusterSpec, compute_scale: float = 1.0) -> "RingNetwork":
        """Make the network of a cluster; a slot has the bandwidth of a node and no latency."""
        node = cluster.tiers[NetworkTier.NODE]
        slot = TierSpec(bandwidth_bytes_per_s=node.bandwidth_bytes_per_s)
        tiers = (
            cluster.tiers[tier]
            for tier in (NetworkTier.NODE, NetworkTier.RACK, NetworkTier.POD, NetworkTier.CORE)
        )
        return cls((slot, *tiers), compute_scale)

    def reduce_s(self, model: StepModel, rings: Rings) -> float:
        """Return the seconds of communication of one step, hidden or not."""
        total_s, left_bytes = 0.0, model.gradient_bytes
        for members, index in rings:
            link, hops = self.dimensions[index], 2 * (members - 1)
            total_s += hops / members * left_bytes / link.bandwidth_bytes_per_s
            total_s += model.layer_count * hops * link.latency_s
            left_bytes /= members
        return total_s

    def efficiency(self, model: StepModel, rings: Rings) -> float:
        """Return compute over compute and exposed communication of a step, above 0, at most 1."""
        compute_s = model.compute_s * self.compute_scale
        exposed_s = max(self.reduce_s(model, rings) - _BACKWARD_FRAC * compute_s, 0.0)
        return compute_s / (compute_s + exposed_s)


def gpu_counts(cluster: ClusterSpec, shares: tuple[NodeShare, ...]) -> GpuCounts:
    """Count the GPUs of a placement by slot; four consecutive indices are a slot."""
    counts = defaultdict[_Path, int](int)
    for share in shares:
        node = cluster.node(share.node)
        for gpu in share.gpu_indices:
            counts[node.pod, node.rack, node.name, gpu // SLOT_GPUS] += 1
    return counts


def rings_of(counts: GpuCounts) -> Rings:
    """Return the rings of a placement, without rings of one member.

    A level at which a job is uneven becomes one flat ring of all GPUs below each of its parents,
    as in Dally's simulator. The rings above such a level remain, which is our reading of it.

    Example: 4 GPUs on each of two machines of a rack are ((4, 0), (2, 2)): rings of 4 in the slots,
    one of 2 machines. 3 on one and 1 on the other are ((4, 2),).
    """
    rings = list[tuple[int, int]]()
    below, totals = set(counts.values()), dict(counts)
    if len(below) == 1:
        rings.append((below.pop(), 0))
    for index in range(1, 5):
        parents = defaultdict[_Path, list[int]](list)
        for path, total in totals.items():
            parents[path[:-1]].append(total)
        widths = {len(children) for children in parents.values()}
        is_even = bool(rings) and len(widths) == 1 and len(set(totals.values())) == 1
        totals = {path: sum(children) for path, children in parents.items()}
        rings = [*rings, (widths.pop(), index)] if is_even else [(max(totals.values()), index)]
    return tuple(ring for ring in rings if ring[0] > 1)


def spread_evenly(gpu_count: int, node_count: int, rack_count: int) -> GpuCounts:
    """Count the GPUs of a job spread over nodes and racks as evenly as possible, slot by slot."""
    counts = dict[_Path, int]()
    edges = [gpu_count * node // node_count for node in range(node_count + 1)]
    for node, (begin, end) in enumerate(pairwise(edges)):
        for gpu in range(end - begin):
            path = ("", node * rack_count // node_count, node, gpu // SLOT_GPUS)
            counts[path] = counts.get(path, 0) + 1
    return counts
