"""A cluster to simulate: nodes in racks in pods, and the bandwidth of the network between them.

Bandwidths are bytes per second in one direction. Every node has one port to its rack's leaf
switch (the sum of its NICs), every rack an uplink, every pod an uplink. The bandwidth of an uplink
is the sum of the ports or uplinks below it, divided by the tier's oversubscription.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import IntEnum

from roost_engine.domain.model import NodeName, NodeSpec
from roost_engine.domain.topology import LinkMatrix
from roost_sim.errors import ClusterError


class NetworkTier(IntEnum):
    """How far apart the nodes of a placement are. Higher is farther."""

    NODE = 0  # one node
    RACK = 1  # one leaf switch
    POD = 2  # several racks; in a cluster without pods, any racks
    CORE = 3  # several pods


@dataclass(frozen=True, slots=True, kw_only=True)
class TierSpec:
    """Bandwidth and latency of one tier.

    Attributes:
        bandwidth_bytes_per_s: NODE: of one GPU to the others; other tiers: of one node's port.
        latency_s: of one message.
        oversubscription: bandwidth below an uplink over that of the uplink; the rack's uplink for
            POD, the pod's for CORE. 1 for the tiers below.
    """

    bandwidth_bytes_per_s: float
    latency_s: float = 0.0
    oversubscription: float = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeKind:
    """A kind of node: GPUs and their links, CPUs and memory."""

    name: str
    links: LinkMatrix
    gpu_model: str = ""
    cpu_count: int = 64
    memory_bytes: int = 512 << 30

    @property
    def gpu_count(self) -> int:
        """GPUs of one node."""
        return self.links.gpu_count


@dataclass(frozen=True, slots=True)
class SimNode:
    """One node, with its rack and pod."""

    name: NodeName
    kind: NodeKind
    rack: str
    pod: str = ""


@dataclass(frozen=True, slots=True)
class ClusterSpec:
    """A whole cluster.

    Attributes:
        name: of the preset or the file.
        source: where its numbers come from.
        nodes: in a fixed order, with unique names.
        tiers: one entry for every NetworkTier.
    """

    name: str
    source: str
    nodes: tuple[SimNode, ...]
    tiers: Mapping[NetworkTier, TierSpec]
    _node_of: Mapping[NodeName, SimNode] = field(init=False, repr=False, compare=False)
    _rack_sizes: Mapping[str, int] = field(init=False, repr=False, compare=False)
    _pod_sizes: Mapping[str, int] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        node_of = {node.name: node for node in self.nodes}
        if len(node_of) != len(self.nodes):
            raise ValueError(f"{self.name}: a node name stands twice")
        pod_of: dict[str, str] = {}
        if any(pod_of.setdefault(node.rack, node.pod) != node.pod for node in self.nodes):
            raise ValueError(f"{self.name}: a rack stands in two pods")
        missing = [tier.name for tier in NetworkTier if tier not in self.tiers]
        if missing:
            raise ValueError(f"{self.name}: no figures for tier {missing[0]}")
        object.__setattr__(self, "_node_of", node_of)
        object.__setattr__(self, "_rack_sizes", _count(node.rack for node in self.nodes))
        object.__setattr__(self, "_pod_sizes", _count(node.pod for node in self.nodes))

    @property
    def gpu_count(self) -> int:
        """GPUs of all nodes."""
        return sum(node.kind.gpu_count for node in self.nodes)

    @property
    def largest_node_gpu_count(self) -> int:
        """GPUs of the largest node; 0 without nodes."""
        return max((node.kind.gpu_count for node in self.nodes), default=0)

    def every_rack(self, step: int) -> "ClusterSpec":
        """Return the first rack and each `step`-th after it: a smaller cluster of the same kind.

        Raises:
            ClusterError: the step is 0.
        """
        if step == 1:
            return self
        if not step:
            raise ClusterError([f"{self.name}/0: want a part of 1 or more"])
        racks = set(list(dict.fromkeys(node.rack for node in self.nodes))[::step])
        nodes = tuple(node for node in self.nodes if node.rack in racks)
        source = f"every rack number 1 + {step} n of {self.name}: {self.source}"
        return replace(self, name=f"{self.name}/{step}", source=source, nodes=nodes)

    def node(self, name: NodeName) -> SimNode:
        """Return the node of a name.

        Raises:
            KeyError: no node has this name.
        """
        return self._node_of[name]

    def network_tier(self, names: Iterable[NodeName]) -> NetworkTier:
        """Return the tier that some nodes span.

        Raises:
            KeyError: one of the nodes is unknown.
            ValueError: no node is given.
        """
        nodes = [self._node_of[name] for name in names]
        if not nodes:
            raise ValueError("a placement has a node")
        first = nodes[0]
        if any(node.pod != first.pod for node in nodes):
            return NetworkTier.CORE
        if any(node.rack != first.rack for node in nodes):
            return NetworkTier.POD
        return NetworkTier.NODE if all(node is first for node in nodes) else NetworkTier.RACK

    def port_bytes_per_s(self) -> float:
        """Bandwidth of one node's port."""
        return self.tiers[NetworkTier.RACK].bandwidth_bytes_per_s

    def rack_uplink_bytes_per_s(self, rack: str) -> float:
        """Return the bandwidth of a rack's uplink.

        Raises:
            KeyError: no such rack.
        """
        up = self.tiers[NetworkTier.POD]
        return self._rack_sizes[rack] * up.bandwidth_bytes_per_s / up.oversubscription

    def pod_uplink_bytes_per_s(self, pod: str) -> float:
        """Return the bandwidth of a pod's uplink.

        Raises:
            KeyError: no such pod.
        """
        up = self.tiers[NetworkTier.CORE]
        return self._pod_sizes[pod] * up.bandwidth_bytes_per_s / up.oversubscription

    def congested(self, divisor: float) -> "ClusterSpec":
        """Return the cluster with bandwidth divided by `divisor` on every tier above the nodes.

        Raises:
            ValueError: less than 1.
        """
        if not divisor >= 1:
            raise ValueError(f"want to divide by 1 or more, got {divisor:g}")
        tiers = {
            tier: replace(spec, bandwidth_bytes_per_s=spec.bandwidth_bytes_per_s / divisor)
            if tier > NetworkTier.NODE
            else spec
            for tier, spec in self.tiers.items()
        }
        return replace(self, tiers=tiers)

    def node_specs(self, partition: str) -> tuple[NodeSpec, ...]:
        """Return the nodes as the engine's node specs, all in one partition.

        A rack in a pod is named POD/RACK there.
        """
        return tuple(
            NodeSpec(
                name=node.name,
                gpu_count=node.kind.gpu_count,
                cpu_count=node.kind.cpu_count,
                memory_bytes=node.kind.memory_bytes,
                partitions=(partition,),
                rack=f"{node.pod}/{node.rack}" if node.pod else node.rack,
                features=(node.kind.gpu_model,) if node.kind.gpu_model else (),
            )
            for node in self.nodes
        )


def make_racks(kind: NodeKind, racks: Mapping[str, int], first: int = 0) -> tuple[SimNode, ...]:
    """Make nodes n00000, n00001, … of one kind, rack after rack.

    Args:
        kind: of all nodes.
        racks: number of nodes in each rack.
        first: number of the first node.
    """
    rack_of = [rack for rack, count in racks.items() for _ in range(count)]
    return tuple(
        SimNode(NodeName(f"n{number:05d}"), kind, rack)
        for number, rack in enumerate(rack_of, start=first)
    )


def _count(names: Iterable[str]) -> dict[str, int]:
    counts: dict[str, int] = {}
    for name in names:
        counts[name] = counts.get(name, 0) + 1
    return counts
