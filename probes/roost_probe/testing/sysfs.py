"""A /sys with the PCI tree and the NICs of a described node."""

from collections.abc import Sequence
from pathlib import Path

from roost_probe.testing.layout import Layout, PciPlace


def write_sysfs(root: Path, layout: Layout, nic_names: Sequence[str]) -> None:
    """Write what roost_probe.node.nic reads: bus/pci/devices, class/infiniband, class/net.

    A NIC called eth* or en* becomes a net device, any other an InfiniBand device.
    """
    (root / "bus/pci/devices").mkdir(parents=True, exist_ok=True)
    for nodes in {p.numa_node for p in (*layout.gpus, *layout.nics)}:
        (root / f"devices/system/node/node{nodes}").mkdir(parents=True, exist_ok=True)
    for place in (*layout.gpus, *layout.nics):
        _write_device(root, place)
    for name, place in zip(nic_names, layout.nics, strict=True):
        is_net = name.startswith(("eth", "en"))
        _write_class(root, "net" if is_net else "infiniband", name, place)


def _write_device(root: Path, place: PciPlace) -> None:
    folder = root.joinpath("devices", *place.path)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "numa_node").write_text(f"{place.numa_node}\n")
    link = root / "bus/pci/devices" / place.address
    if not link.is_symlink():
        link.symlink_to(Path("../../..").joinpath("devices", *place.path))


def _write_class(root: Path, kind: str, name: str, place: PciPlace) -> None:
    device = root.joinpath("devices", *place.path)
    entry = device / kind / name
    entry.mkdir(parents=True, exist_ok=True)
    if not (entry / "device").is_symlink():
        (entry / "device").symlink_to("../..")
    (root / "class" / kind).mkdir(parents=True, exist_ok=True)
    link = root / "class" / kind / name
    if not link.is_symlink():
        link.symlink_to(Path("../..").joinpath("devices", *place.path, kind, name))
