"""Network cards, from sysfs: InfiniBand devices, and net devices that are not also InfiniBand."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from roost_probe.node.pci import Level, PciPath, PciTree

_GBIT_PER_S = re.compile(r"(\d+(?:\.\d+)?) Gb/sec")


@dataclass(frozen=True, slots=True)
class Nic:
    """One network card."""

    name: str
    place: PciPath
    gpu_levels: tuple[Level | None, ...]  # [gpu]; None where the GPU's place is unknown
    entry: Path  # its folder below /sys/class
    bytes_per_s: float | None = None  # sum of its ports, one direction; None: unknown, or no link


def find_nics(root: Path, gpu_addresses: Sequence[str]) -> tuple[Nic, ...]:
    """Find the node's NICs and their distance to each GPU.

    Args:
        root: where sysfs is mounted.
        gpu_addresses: [gpu] PCI addresses in sysfs form.

    Returns:
        NICs by PCI address. An adapter that is both an InfiniBand and a net device appears once,
        under its InfiniBand name, which is the one NCCL wants. Virtual functions, bonds and
        other devices without a PCI place of their own are left out.
    """
    tree = PciTree(root)
    gpus = [tree.find(address) for address in gpu_addresses]
    nics = dict[str, Nic]()
    for entry, place in _devices(root, tree):
        if place.address in nics:
            continue
        levels = tuple(None if gpu is None else tree.level(place, gpu) for gpu in gpus)
        nics[place.address] = Nic(entry.name, place, levels, entry, _speed_bytes_per_s(entry))
    return tuple(nics[address] for address in sorted(nics))


def _speed_bytes_per_s(entry: Path) -> float | None:
    """Return a card's speed: "200 Gb/sec (4X HDR)" a port, or Mbit/s of a net device."""
    try:
        ports = sorted((entry / "ports").iterdir()) if (entry / "ports").is_dir() else []
        if ports:
            found = [_GBIT_PER_S.match((port / "rate").read_text()) for port in ports]
            bits_per_s = sum(float(match[1]) * 1e9 for match in found if match is not None)
        else:
            bits_per_s = float((entry / "speed").read_text()) * 1e6
    except (OSError, ValueError):  # a net device without a link cannot be asked
        return None
    return bits_per_s / 8 if bits_per_s > 0 else None


def _devices(root: Path, tree: PciTree) -> Iterator[tuple[Path, PciPath]]:
    for kind in ("infiniband", "net"):
        folder = root / "class" / kind
        entries = sorted(folder.iterdir()) if folder.is_dir() else []
        for entry in entries:
            device = entry / "device"
            if not device.exists() or (device / "physfn").exists():
                continue
            place = tree.locate(device)
            if place is not None:
                yield entry, place
