"""How the GPUs of this node are linked, from what the driver reports of each."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from roost_probe.driver.readings import DriverFacts, GpuFacts, LaneEnd
from roost_probe.node.nic import Nic, find_nics
from roost_probe.node.pci import SYMBOLS, Level, PciTree

MOST_NICS = 64  # as many as a column's present_mask has bits; roostd refuses a Hello with more
_NVML_LEVELS = {
    0: Level.INTERNAL,
    10: Level.SINGLE_SWITCH,
    20: Level.MULTIPLE_SWITCHES,
    30: Level.HOST_BRIDGE,
    40: Level.NUMA_NODE,
    50: Level.SYSTEM,
}


@dataclass(frozen=True, slots=True)
class Link:
    """What connects one pair of GPUs, a < b."""

    a: int
    b: int
    level: Level
    nvlink_count: int
    nvswitch: bool

    @property
    def symbol(self) -> str:
        """As `nvidia-smi topo -m` prints it."""
        return f"NV{self.nvlink_count}" if self.nvlink_count else SYMBOLS[self.level]


@dataclass(frozen=True, slots=True)
class Topology:
    """One node: its GPUs, their links, its NICs, and what could not be found out."""

    driver_version: str | None
    gpus: tuple[GpuFacts, ...]
    links: tuple[Link, ...]  # every unordered pair once
    nics: tuple[Nic, ...]
    nic_levels: tuple[tuple[Level, ...], ...]  # [nic, nic]
    problems: tuple[str, ...]

    @classmethod
    def of(cls, facts: DriverFacts, sysfs_root: Path) -> "Topology":
        """Work out the links of what the driver reported, and add the NICs."""
        tree = PciTree(sysfs_root)
        problems = list(facts.problems)
        links = list[Link]()
        count = len(facts.gpus)
        for a in range(count):
            for b in range(a + 1, count):
                level = _level(facts.gpus, a, b, tree)
                if level is None:
                    level = Level.SYSTEM
                    if facts.gpus[a].uuid and facts.gpus[b].uuid:  # a lost GPU has its own problem
                        problems.append(f"distance of GPUs {a} and {b} unknown; taken to be SYS")
                lanes, nvswitch = _lanes(facts.gpus, a, b)
                links.append(Link(a, b, level, lanes, nvswitch))
        nics = find_nics(sysfs_root, [gpu.pci_bus_id for gpu in facts.gpus])
        if len(nics) > MOST_NICS:
            problems.append(f"{len(nics)} NICs; only the first {MOST_NICS} by PCI address are read")
            nics = nics[:MOST_NICS]
        nic_levels = tuple(
            tuple(Level.INTERNAL if n is m else tree.level(n.place, m.place) for m in nics)
            for n in nics
        )
        return cls(
            facts.driver_version, facts.gpus, tuple(links), nics, nic_levels, tuple(problems)
        )


def _level(gpus: Sequence[GpuFacts], a: int, b: int, tree: PciTree) -> Level | None:
    for one, other in ((a, b), (b, a)):
        stated = gpus[one].levels[other] if other < len(gpus[one].levels) else None
        if stated in _NVML_LEVELS:
            return _NVML_LEVELS[stated]
    # nvmlDeviceGetTopologyCommonAncestor is missing in some virtual machines.
    places = [tree.find(gpus[i].pci_bus_id) for i in (a, b) if gpus[i].pci_bus_id]
    if len(places) == 2 and places[0] is not None and places[1] is not None:
        return tree.level(places[0], places[1])
    return None


def _lanes(gpus: Sequence[GpuFacts], a: int, b: int) -> tuple[int, bool]:
    """Return the NVLink lanes of a pair, and whether they go through an NVSwitch.

    A switch offers all lanes of a GPU to each of its peers, so a pair has the smaller
    count of the two.
    """
    addresses = {gpu.pci_bus_id for gpu in gpus}
    direct = min(_lanes_to(gpus[a], gpus[b]), _lanes_to(gpus[b], gpus[a]))
    switched = min(_switch_lanes(gpus[a], addresses), _switch_lanes(gpus[b], addresses))
    return direct + switched, switched > 0


def _lanes_to(gpu: GpuFacts, peer: GpuFacts) -> int:
    return sum(lane.remote_bus_id == peer.pci_bus_id != "" for lane in gpu.lanes)


def _switch_lanes(gpu: GpuFacts, addresses: set[str]) -> int:
    # Virtual machines hide NVSwitches: a lane that leads to no GPU of the node leads to one.
    return sum(
        lane.remote is LaneEnd.SWITCH
        or (lane.remote is LaneEnd.UNKNOWN and lane.remote_bus_id not in addresses)
        for lane in gpu.lanes
    )
