"""Link constants: what one link inside a node carries in one direction, by GPU generation.

All figures are bytes per second that an all-reduce gets through one link in one direction, which is
less than the line rate. `source` says of each generation what was measured and what is derived; the
same table with the checks is in docs/simulator/links.md.

NCCL's constants are those by which NCCL itself compares paths (its topology header, releases 2.10
to 2.28). They agree with the measurements that NVIDIA and others have published (link_check).
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from roost_engine.domain.topology import Level

_GB = 1e9
_INTEL_DETOUR = 6 / 5  # NCCL: traffic between PCIe root ports of a CPU costs a fifth more


@dataclass(frozen=True, slots=True, kw_only=True)
class Generation:
    """The links of one generation of GPUs, and of the hosts of its time.

    Attributes:
        name: of the generation.
        lane_bytes_per_s: of one NVLink lane; 0 without NVLink.
        most_lanes: NVLink lanes of one GPU; more between all pairs means a switch.
        pcie_bytes_per_s: of a path of each PCIe level.
        source: of the figures.
    """

    name: str
    lane_bytes_per_s: float
    most_lanes: int
    pcie_bytes_per_s: Mapping[Level, float]
    source: str


def _pcie(switch: float, socket: float) -> Mapping[Level, float]:
    """Bandwidths of all levels, in GB/s: below one switch, and between sockets."""
    host = switch / _INTEL_DETOUR
    return {
        Level.INTERNAL: switch * _GB,
        Level.SINGLE_SWITCH: switch * _GB,
        Level.MULTIPLE_SWITCHES: switch * _GB,
        Level.HOST_BRIDGE: host * _GB,
        Level.NUMA_NODE: host * _GB,
        Level.SYSTEM: min(host, socket) * _GB,
    }


_GEN3, _GEN4, _GEN5 = 12.0, 24.0, 48.0  # x16: NCCL for gen 3, derived: doubled with each generation

PASCAL = Generation(
    name="pascal",
    lane_bytes_per_s=18 * _GB,
    most_lanes=4,
    pcie_bytes_per_s=_pcie(_GEN3, 6.0),
    source="lane: NCCL, 17.3 measured (Tartan); PCIe 3: NCCL; sockets: NCCL for Broadwell, 5.6 "
    "to 7.6 measured (Tartan); host bridge: derived",
)
VOLTA = Generation(
    name="volta",
    lane_bytes_per_s=20 * _GB,
    most_lanes=6,
    pcie_bytes_per_s=_pcie(_GEN3, 9.0),
    source="lane: NCCL, 21.7 measured (TACCL); PCIe 3: NCCL; sockets: NCCL for Skylake, 10.1 "
    "measured (MAPA); host bridge: derived",
)
TURING = Generation(
    name="turing",
    lane_bytes_per_s=20 * _GB,
    most_lanes=2,
    pcie_bytes_per_s=_pcie(_GEN3, 9.0),
    source="as volta, derived",
)
AMPERE = Generation(
    name="ampere",
    lane_bytes_per_s=20 * _GB,
    most_lanes=12,
    pcie_bytes_per_s=_pcie(_GEN4, 16.0),
    source="lane: NCCL, 19.6 measured (superbenchmark); PCIe 4: derived, host bridge 20 measured "
    "(nccl-tests 178); sockets: NCCL for EPYC",
)
AMPERE_BRIDGED = Generation(
    name="ampere-ga10x",
    lane_bytes_per_s=12 * _GB,
    most_lanes=4,
    pcie_bytes_per_s=_pcie(_GEN4, 16.0),
    source="lane: NCCL for compute capability 8.6, not checked; PCIe 4: as ampere",
)
ADA = Generation(
    name="ada",
    lane_bytes_per_s=0.0,
    most_lanes=0,
    pcie_bytes_per_s=_pcie(_GEN4, 16.0),
    source="no NVLink; PCIe 4: as ampere",
)
HOPPER = Generation(
    name="hopper",
    lane_bytes_per_s=20.6 * _GB,
    most_lanes=18,
    pcie_bytes_per_s=_pcie(_GEN5, 32.0),
    source="lane: NCCL, 20.6 measured with rings (nccl-tests 212); PCIe 5: derived; sockets: NCCL "
    "for EPYC of 2024",
)
BLACKWELL = Generation(
    name="blackwell",
    lane_bytes_per_s=40.1 * _GB,
    most_lanes=18,
    pcie_bytes_per_s=_pcie(_GEN5, 32.0),
    source="lane: NCCL, not checked; PCIe 5 and sockets: as hopper, 28 to 35 measured (nccl 1639)",
)
UNKNOWN = Generation(
    name="unknown",
    lane_bytes_per_s=20 * _GB,
    most_lanes=18,
    pcie_bytes_per_s=_pcie(_GEN3, 9.0),
    source="our choice for a GPU model that is not listed: as volta",
)
GENERATIONS = (
    PASCAL, VOLTA, TURING, AMPERE, AMPERE_BRIDGED, ADA, HOPPER, BLACKWELL, UNKNOWN,
)  # fmt: skip

# The first match counts: an RTX A6000 Ada is no RTX A6000, and an A100 no A10.
_PATTERNS = (
    (ADA, r"ada(gen|\b)|l4\b|l40s?\b|rtx40\d\d"),
    (PASCAL, r"p100|p40\b|p4\b|gtx10\d\d|gp100"),
    (VOLTA, r"v100|gv100|titanv\b"),
    (TURING, r"t4\b|rtx20\d\d|titanrtx|quadrortx|rtx[5-8]000\b"),
    (AMPERE, r"a100|a800|a30\b"),
    (AMPERE_BRIDGED, r"a40\b|a10g?\b|a16\b|a2\b|a[4-6]\d00\b|rtx30\d\d"),
    (HOPPER, r"h100|h200|h800|h20\b"),
    (BLACKWELL, r"b100|b200|b300|rtx50\d\d|rtxpro"),
)


def generation_of(gpu_model: str) -> Generation:
    """Return the generation of a GPU model such as `v100`, `A100-SXM4-40GB` or `rtx_3090`."""
    name = re.sub(r"[\s_]|nvidia|tesla|geforce", "", gpu_model.lower())
    name = re.sub(r"ti\b", "", name)
    for generation, pattern in _PATTERNS:
        if re.search(pattern, name):
            return generation
    return UNKNOWN
