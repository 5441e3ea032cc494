"""Presets: public clusters and those of papers, by their published constants.

A number that the source does not give is marked "ours" in the `source` of the preset and in
docs/simulator/clusters.md.
"""

from collections.abc import Callable, Mapping
from functools import cache

from roost_sim.clusters.cluster_spec import ClusterSpec, NetworkTier, NodeKind, TierSpec, make_racks
from roost_sim.clusters.link_shapes import SHAPES
from roost_sim.errors import ClusterError

_GB = 1e9
_GBIT = 1e9 / 8


def _tiers(node: TierSpec, rack: TierSpec, pod: TierSpec) -> Mapping[NetworkTier, TierSpec]:
    return {
        NetworkTier.NODE: node,
        NetworkTier.RACK: rack,
        NetworkTier.POD: pod,
        NetworkTier.CORE: pod,
    }


def _tier(bytes_per_s: float, latency_s: float, oversubscription: float = 1.0) -> TierSpec:
    return TierSpec(
        bandwidth_bytes_per_s=bytes_per_s, latency_s=latency_s, oversubscription=oversubscription
    )


def _philly() -> ClusterSpec:
    big = NodeKind(name="8gpu", links=SHAPES["pcie8"], gpu_model="p40")
    small = NodeKind(name="4gpu", links=SHAPES["pcie4"], gpu_model="p100")
    bigs = make_racks(big, {f"b{rack:02d}": 16 for rack in range(16)} | {"b16": 8})
    racks = {f"s{rack:02d}": 16 for rack in range(16)} | {"s16": 15}
    smalls = make_racks(small, racks, first=len(bigs))
    return ClusterSpec(
        name="philly",
        source="264 machines of 8 GPUs and 271 of 4 in the trace's machine list (17 smaller ones "
        "left out); InfiniBand of 100 Gbit/s in a rack, Ethernet above: Jeon et al., ATC 2019; "
        "ours: 16 nodes a rack, 10 Gbit/s Ethernet, PCIe links, GPU models",
        nodes=bigs + smalls,
        tiers=_tiers(_tier(12 * _GB, 5e-6), _tier(100 * _GBIT, 3e-6), _tier(10 * _GBIT, 50e-6)),
    )


def _venus() -> ClusterSpec:
    kind = NodeKind(name="8xV100", links=SHAPES["pcie8"], gpu_model="v100", cpu_count=48)
    return ClusterSpec(
        name="venus",
        source="133 nodes of 8 V100 in Helios Venus, InfiniBand: Hu et al., SC 2021; "
        "ours: 7 racks of 19, PCIe links, 56 Gbit/s, 2:1 above the racks",
        nodes=make_racks(kind, {f"r{rack}": 19 for rack in range(7)}),
        tiers=_tiers(_tier(12 * _GB, 5e-6), _tier(56 * _GBIT, 3e-6), _tier(56 * _GBIT, 5e-6, 2.0)),
    )


def _small() -> ClusterSpec:
    kind = NodeKind(name="8xA100-pairs", links=SHAPES["bridges8"], gpu_model="a100")
    return ClusterSpec(
        name="small",
        source="ours: 2 racks of 4 nodes of 8 GPUs with NVLink bridges, 100 Gbit/s, 4:1",
        nodes=make_racks(kind, {"r0": 4, "r1": 4}),
        tiers=_tiers(
            _tier(20 * _GB, 3e-6), _tier(100 * _GBIT, 3e-6), _tier(100 * _GBIT, 5e-6, 4.0)
        ),
    )


def _dgx_pod() -> ClusterSpec:
    kind = NodeKind(
        name="DGX-H100",
        links=SHAPES["h100x8"],
        gpu_model="h100",
        cpu_count=224,
        memory_bytes=2 << 40,
    )
    return ClusterSpec(
        name="dgx-pod",
        source="NVIDIA DGX SuperPOD reference architecture RA-11333 (2023): scalable units of 32 "
        "DGX H100, eight NDR 400 Gbit/s ports a node, no oversubscription; latencies ours",
        nodes=make_racks(kind, {f"su{unit}": 32 for unit in range(1, 5)}),
        tiers=_tiers(_tier(450 * _GB, 1e-6), _tier(3200 * _GBIT, 2e-6), _tier(3200 * _GBIT, 4e-6)),
    )


def _dally(machines_per_rack: int, gpu_count: int) -> ClusterSpec:
    kind = NodeKind(name="2x4", links=SHAPES["a100x8"])
    return ClusterSpec(
        name=f"dally-{gpu_count}",
        source="Sharma et al., arXiv 2401.16492, constants of its simulator: machines of 2 slots "
        "of 4 GPUs, 600 GB/s and 500 ns between slots; rack 200 GB/s and 5 us, core 400 GB/s "
        f"and 50 us; 4 racks of {machines_per_rack}",
        nodes=make_racks(kind, {f"r{rack}": machines_per_rack for rack in range(4)}),
        tiers=_tiers(_tier(600 * _GB, 500e-9), _tier(200 * _GB, 5e-6), _tier(400 * _GB, 50e-6)),
    )


def _topdrl() -> ClusterSpec:
    kind = NodeKind(name="4xP100", links=SHAPES["pcie4"], gpu_model="p100")
    return ClusterSpec(
        name="topdrl",
        source="environment of the same laboratory's earlier release (Proximity-DRL, 2024): 2 "
        "racks of 4 machines of 4 P100, tree edges of 1/40 below the machine, 1/4 machine to "
        "rack, 1/2 rack to core; ours: the edges read as the inverse of GB/s",
        nodes=make_racks(kind, {"r0": 4, "r1": 4}),
        tiers=_tiers(_tier(40 * _GB, 0.0), _tier(4 * _GB, 0.0), _tier(2 * _GB, 0.0)),
    )


def _dl2() -> ClusterSpec:
    kind = NodeKind(
        name="2x1080Ti",
        links=SHAPES["pcie2"],
        gpu_model="gtx1080ti",
        cpu_count=8,
        memory_bytes=48 << 30,
    )
    return ClusterSpec(
        name="dl2",
        source="Peng et al., DL2: simulation of 48 nodes (the code's small setting) with the "
        "testbed's machines: 8 CPUs, 2 GTX 1080 Ti, 48 GB, 50 GbE on one 100 GbE switch; "
        "latencies ours",
        nodes=make_racks(kind, {"switch": 48}),
        tiers=_tiers(_tier(12 * _GB, 5e-6), _tier(50 * _GBIT, 10e-6), _tier(50 * _GBIT, 10e-6)),
    )


_MAKERS: dict[str, Callable[[], ClusterSpec]] = {
    "philly": _philly,
    "venus": _venus,
    "small": _small,
    "dgx-pod": _dgx_pod,
    "dally-128": lambda: _dally(4, 128),
    "dally-256": lambda: _dally(8, 256),
    "topdrl": _topdrl,
    "dl2": _dl2,
}
PRESET_NAMES = tuple(_MAKERS)


@cache
def preset(name: str) -> ClusterSpec:
    """Return the preset of a name.

    Raises:
        ClusterError: no preset has this name; the message lists all presets.
    """
    if name not in _MAKERS:
        raise ClusterError([f"no preset {name!r}; there are {', '.join(PRESET_NAMES)}"])
    return _MAKERS[name]()
