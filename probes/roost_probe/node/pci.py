"""How far apart two PCI devices sit, by their paths in sysfs."""

from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path


class Level(IntEnum):
    """Common ancestor of two devices; the numbers of roost_proto's AncestorLevel."""

    INTERNAL = 1
    SINGLE_SWITCH = 2
    MULTIPLE_SWITCHES = 3
    HOST_BRIDGE = 4
    NUMA_NODE = 5
    SYSTEM = 6


SYMBOLS = {
    Level.INTERNAL: "PIX",
    Level.SINGLE_SWITCH: "PIX",
    Level.MULTIPLE_SWITCHES: "PXB",
    Level.HOST_BRIDGE: "PHB",
    Level.NUMA_NODE: "NODE",
    Level.SYSTEM: "SYS",
}


@dataclass(frozen=True, slots=True)
class PciPath:
    """A device's path from its host bridge down."""

    hops: tuple[str, ...]  # "pci0000:00", "0000:00:01.0", ..., the device
    numa_node: int | None

    @property
    def address(self) -> str:
        """The device itself, "0000:17:00.0"."""
        return self.hops[-1]


class PciTree:
    """The PCI devices below a /sys.

    Args:
        root: where sysfs is mounted; tests bring their own.
    """

    def __init__(self, root: Path = Path("/sys")) -> None:
        self._root = root

    def find(self, address: str) -> PciPath | None:
        """Return the device with that address, in sysfs form; None if it is not there."""
        link = self._root / "bus/pci/devices" / address
        return self.locate(link) if link.exists() else None

    def locate(self, entry: Path) -> PciPath | None:
        """Return the device that a sysfs entry leads to: the last PCI device on its path."""
        parts = entry.resolve().parts
        start = next((i for i, part in enumerate(parts) if part.startswith("pci")), None)
        if start is None:
            return None
        end = max((i for i, p in enumerate(parts) if i > start and _is_address(p)), default=None)
        if end is None:
            return None
        folder = Path(*parts[: end + 1])
        return PciPath(tuple(parts[start : end + 1]), _numa_node(folder))

    def level(self, a: PciPath, b: PciPath) -> Level:
        """Return how far apart two devices sit, as `nvidia-smi topo -m` counts."""
        shared = 0
        for one, other in zip(a.hops, b.hops, strict=False):
            if one != other:
                break
            shared += 1
        if shared == 0:
            return Level.NUMA_NODE if self._same_numa_node(a, b) else Level.SYSTEM
        if shared == 1:
            return Level.HOST_BRIDGE
        # Below the common bridge one switch is one downstream port and the device.
        below = max(len(a.hops), len(b.hops)) - shared
        return Level.SINGLE_SWITCH if below <= 2 else Level.MULTIPLE_SWITCHES

    def _same_numa_node(self, a: PciPath, b: PciPath) -> bool:
        if a.numa_node is not None and b.numa_node is not None:
            return a.numa_node == b.numa_node
        # Firmware that states no node (-1) is common on machines that have only one.
        return len(list((self._root / "devices/system/node").glob("node[0-9]*"))) <= 1


def _is_address(part: str) -> bool:
    domain, _, rest = part.partition(":")
    return len(domain) >= 4 and rest.count(":") == 1 and rest[-2:-1] == "."


def _numa_node(folder: Path) -> int | None:
    try:
        node = int((folder / "numa_node").read_text())
    except (OSError, ValueError):
        return None
    return node if node >= 0 else None
