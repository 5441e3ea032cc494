"""Where the devices of a described node sit: PCI addresses, common ancestors, NVLink lanes.

`nvidia-smi topo -m` shows one symbol a pair. NVML and sysfs answer with the facts behind it,
so this makes up facts that lead back to the same symbols.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from roost_engine.domain.topology import Level, LinkMatrix
from roost_probe.testing.errors import DescriptionError
from roost_probe.testing.matrix import TopoText
from roost_probe.testing.state import MAX_LANES

# Beyond this many lanes a GPU cannot be wired to its peers directly: 18 is the most that a GPU
# has (Hopper and Blackwell data sheets), so the lanes must lead to an NVSwitch.
MOST_DIRECT_LANES = 18
SWITCHES = 4  # as in DGX H100; the probe's answers do not depend on it
SWITCH_BUS_IDS = tuple(f"00000000:{0xA0 + i:02X}:00.0" for i in range(SWITCHES))


@dataclass(frozen=True, slots=True)
class PciPlace:
    """One device on the PCI tree."""

    address: str  # sysfs form, "0000:17:00.0"
    path: tuple[str, ...]  # below /sys/devices, the device itself last
    numa_node: int


@dataclass(frozen=True, slots=True)
class Lane:
    """One NVLink lane of a GPU: to another GPU of the node, or to a switch."""

    peer: int | None = None
    switch_bus_id: str | None = None


@dataclass(frozen=True, slots=True)
class Layout:
    """PCI places, common ancestors and NVLink lanes of all devices of a node."""

    gpus: tuple[PciPlace, ...]
    nics: tuple[PciPlace, ...]
    levels: tuple[tuple[Level, ...], ...]  # [gpu, gpu]
    lanes: tuple[tuple[Lane, ...], ...]  # [gpu][lane]


def lay_out(topology: TopoText, nvswitch: bool | None = None) -> Layout:
    """Place the devices of a matrix.

    Args:
        topology: the parsed `nvidia-smi topo -m` text.
        nvswitch: whether NVLink goes through switches; None: where there are too many lanes for
            anything else.

    Raises:
        DescriptionError: more lanes than a GPU has, or two separate NVSwitch fabrics.
    """
    levels = _closed_levels(topology)
    places = _places(topology, levels)
    gpu_count = topology.links.gpu_count
    gpu_levels = tuple(tuple(row[:gpu_count]) for row in levels[:gpu_count])
    lanes = _lanes(topology.links, nvswitch)
    return Layout(tuple(places[:gpu_count]), tuple(places[gpu_count:]), gpu_levels, lanes)


def _closed_levels(topology: TopoText) -> list[list[Level]]:
    """Return the levels of all pairs of devices, those that NVLink hides in the text inferred.

    If a NIC shares a switch with two GPUs, the two GPUs share it with each other.
    """
    gpu_count, nic_count = topology.links.gpu_count, len(topology.nic_names)
    size = gpu_count + nic_count
    levels = [[Level.INTERNAL] * size for _ in range(size)]
    hidden = set[tuple[int, int]]()
    for a, row in enumerate(topology.links.links):
        for b, link in enumerate(row):
            if link is None:
                continue
            levels[a][b] = link.level
            if link.nvlink_count:
                hidden.add((a, b))
    for nic in range(nic_count):
        for gpu in range(gpu_count):
            levels[gpu_count + nic][gpu] = levels[gpu][gpu_count + nic] = topology.nic_levels[nic][
                gpu
            ]
        for other in range(nic_count):
            if other != nic:
                levels[gpu_count + nic][gpu_count + other] = topology.nic_nic_levels[nic][other]
    for a, b in sorted(hidden):
        for via in range(size):
            if via in (a, b) or (a, via) in hidden or (via, b) in hidden:
                continue
            near, far = sorted((levels[a][via], levels[via][b]))
            # On a tree the two longest sides of a triangle are equal.
            levels[a][b] = min(levels[a][b], far) if near == far else far
    return levels


def _clusters(members: Sequence[int], levels: list[list[Level]], within: Level) -> list[list[int]]:
    """Split devices into groups whose members are chained by pairs no farther than `within`."""
    left, groups = list(members), list[list[int]]()
    while left:
        group, fresh = [left[0]], [left.pop(0)]
        while fresh:
            at = fresh.pop()
            near = [d for d in left if levels[at][d] <= within]
            left = [d for d in left if d not in near]
            group += near
            fresh += near
        groups.append(sorted(group))
    return groups


def _places(topology: TopoText, levels: list[list[Level]]) -> list[PciPlace]:
    gpu_count = topology.links.gpu_count
    # NVML numbers GPUs by bus id, so GPU bus ids rise with the index; NICs come after.
    addresses = [f"0000:{0x10 + 4 * i:02x}:00.0" for i in range(gpu_count)]
    addresses += [f"0000:{0xB0 + i:02x}:00.0" for i in range(len(levels) - gpu_count)]
    places = dict[int, PciPlace]()
    bridges, roots, used = _Names(), 0, set[int]()
    for numa_members in _clusters(range(len(levels)), levels, Level.NUMA_NODE):
        numa = _numa_node(topology, [d for d in numa_members if d < gpu_count], used)
        for host_members in _clusters(numa_members, levels, Level.HOST_BRIDGE):
            root = (f"pci0000:{roots:02x}",)
            roots += 1
            for port_members in _clusters(host_members, levels, Level.MULTIPLE_SWITCHES):
                upper = (*root, bridges.take(), bridges.take())
                for switch_members in _clusters(port_members, levels, Level.SINGLE_SWITCH):
                    switch = (*upper, bridges.take(), bridges.take())
                    for d in switch_members:
                        path = (*switch, bridges.take(), addresses[d])
                        places[d] = PciPlace(addresses[d], path, numa)
    return [places[d] for d in range(len(levels))]


class _Names:
    """Hands out addresses for bridges that no device has."""

    def __init__(self) -> None:
        self._taken = 0

    def take(self) -> str:
        name = f"0000:{0xD0 + self._taken // 32:02x}:{self._taken % 32:02x}.0"
        self._taken += 1
        return name


def _numa_node(topology: TopoText, gpus: Sequence[int], used: set[int]) -> int:
    stated = [topology.numa_nodes[gpu][0] for gpu in gpus if topology.numa_nodes[gpu]]
    # Two groups that the text says are a system apart must not share a NUMA node.
    candidates: list[int] = [*stated, *range(len(used) + 1)]
    node = next(n for n in candidates if n not in used)
    used.add(node)
    return node


def _lanes(links: LinkMatrix, nvswitch: bool | None) -> tuple[tuple[Lane, ...], ...]:
    counts = [[link.nvlink_count if link else 0 for link in row] for row in links.links]
    switched = nvswitch if nvswitch is not None else max(map(sum, counts)) > MOST_DIRECT_LANES
    if switched:
        return _switch_lanes(counts)
    for gpu, row in enumerate(counts):
        if sum(row) > MAX_LANES:
            raise DescriptionError(f"GPU{gpu} has {sum(row)} NVLink lanes; at most {MAX_LANES}")
    return tuple(
        tuple(Lane(peer=peer) for peer, count in enumerate(row) for _ in range(count))
        for row in counts
    )


def _switch_lanes(counts: list[list[int]]) -> tuple[tuple[Lane, ...], ...]:
    """Return each GPU's lanes to switches; a pair has as many as its GPU with fewer lanes."""
    mine = [max(row) for row in counts]
    for a, row in enumerate(counts):
        for b, count in enumerate(row):
            if a != b and count != min(mine[a], mine[b]):
                raise DescriptionError(
                    f"GPU{a} and GPU{b} have {count} NVLink lanes, but behind NVSwitch they would "
                    f"have {min(mine[a], mine[b])}; set `nvswitch: false` if wired directly"
                )
    return tuple(
        tuple(Lane(switch_bus_id=SWITCH_BUS_IDS[i % SWITCHES]) for i in range(count))
        for count in mine
    )
