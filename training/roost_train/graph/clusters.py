"""Clusters and traces drawn at random, so that a graph model does not overfit one topology."""

from collections.abc import Mapping

import numpy as np

from roost_engine.domain.model import NodeName
from roost_sim.clusters.cluster_spec import ClusterSpec, NetworkTier, NodeKind, SimNode, TierSpec
from roost_sim.clusters.link_shapes import SHAPES
from roost_sim.traces.fitted_traces import HELIOS
from roost_sim.traces.generator import generate
from roost_sim.traces.trace import Trace

_SHAPE_NAMES = ("a100x8", "h100x8", "bridges8", "pcie8", "cube8", "pcie4", "a100x4", "bridges4")
_GBIT = 1e9 / 8
_MOST_RACKS = 8


def draw_cluster(rng: np.random.Generator) -> ClusterSpec:
    """Draw a cluster: up to three kinds of nodes, mixed, in racks of 2 to 6, in up to 3 pods."""
    shapes = rng.choice(_SHAPE_NAMES, size=int(rng.integers(1, 4)), replace=False).tolist()
    kinds = [NodeKind(name=shape, links=SHAPES[shape]) for shape in shapes]
    rack_count, pod_count = int(rng.integers(2, _MOST_RACKS + 1)), int(rng.integers(1, 4))
    is_mixed = bool(rng.random() < 0.5)  # kinds mix inside a rack
    nodes = list[SimNode]()
    for rack in range(rack_count):
        of_rack = int(rng.integers(len(kinds)))
        pod = f"p{rack % pod_count}" if pod_count > 1 else ""
        for _ in range(int(rng.integers(2, 7))):
            kind = kinds[int(rng.integers(len(kinds))) if is_mixed else of_rack]
            nodes.append(SimNode(NodeName(f"n{len(nodes):05d}"), kind, f"r{rack}", pod))
    return ClusterSpec(
        name=f"drawn-{len(nodes)}",
        source="drawn at random for training",
        nodes=tuple(nodes),
        tiers=draw_tiers(rng),
    )


def draw_tiers(rng: np.random.Generator) -> Mapping[NetworkTier, TierSpec]:
    """Draw a network: 25 to 400 Gbit/s a node, racks and pods oversubscribed up to 8 to 1."""
    port = float(rng.choice((25, 50, 100, 200, 400))) * _GBIT
    rack, pod = (float(rng.choice((1, 2, 4, 8))) for _ in range(2))

    def tier(bandwidth: float, latency_s: float, oversubscription: float = 1.0) -> TierSpec:
        return TierSpec(
            bandwidth_bytes_per_s=bandwidth,
            latency_s=latency_s,
            oversubscription=oversubscription,
        )

    return {
        NetworkTier.NODE: tier(20e9, 3e-6),
        NetworkTier.RACK: tier(port, 3e-6),
        NetworkTier.POD: tier(port, 5e-6, rack),
        NetworkTier.CORE: tier(port, 8e-6, pod),
    }


def draw_trace(rng: np.random.Generator, cluster: ClusterSpec, job_count: int) -> Trace:
    """Draw jobs like those of Helios, March to July, for a cluster at a load of 0.7 to 1.3."""
    largest = max(cluster.gpu_count // 3, 1)
    trace = generate(HELIOS, job_count, int(rng.integers(1 << 31)), max_gpu_count=largest)
    return trace.at_load(float(rng.uniform(0.7, 1.3)), cluster.gpu_count)
