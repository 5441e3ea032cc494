"""Network cards, from sysfs: InfiniBand devices, and Ethernet ports that are none of those."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from roost_probe.pci import Level, PciPath, PciTree


@dataclass(frozen=True, slots=True)
class Nic:
    """One network card."""

    name: str
    place: PciPath
    gpu_levels: tuple[Level, ...]  # [gpu]; empty where a GPU's place is unknown


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
    for name, place in _devices(root, tree):
        if place.address in nics:
            continue
        levels = tuple(tree.level(place, gpu) for gpu in gpus if gpu is not None)
        nics[place.address] = Nic(name, place, levels if len(levels) == len(gpus) else ())
    return tuple(nics[address] for address in sorted(nics))


def _devices(root: Path, tree: PciTree) -> Iterator[tuple[str, PciPath]]:
    for kind in ("infiniband", "net"):
        folder = root / "class" / kind
        entries = sorted(folder.iterdir()) if folder.is_dir() else []
        for entry in entries:
            device = entry / "device"
            if not device.exists() or (device / "physfn").exists():
                continue
            place = tree.locate(device)
            if place is not None:
                yield entry.name, place
