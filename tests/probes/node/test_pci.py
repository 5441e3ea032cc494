"""How far apart two PCI devices sit."""

from pathlib import Path

import pytest

from roost_probe.node.pci import Level, PciTree

SWITCH = "pci0000:00/0000:00:01.0/0000:01:00.0"  # bridge, root port, upstream port
# Two devices below one switch, one below a switch under that switch, one at another root port.
A = f"{SWITCH}/0000:02:00.0/0000:03:00.0"
B = f"{SWITCH}/0000:02:01.0/0000:04:00.0"
BRIDGED = f"{SWITCH}/0000:02:01.0/0000:04:00.0/0000:05:00.0"  # behind a bridge of its own
DEEP = f"{SWITCH}/0000:02:02.0/0000:05:00.0/0000:06:00.0/0000:07:00.0"
ROOT = "pci0000:00/0000:00:02.0/0000:08:00.0"
OTHER_BRIDGE = "pci0000:40/0000:40:01.0/0000:41:00.0"


def write(root: Path, path: str, numa_node: int) -> str:
    """Write a device; return its address."""
    folder = root / "devices" / path
    folder.mkdir(parents=True)
    (folder / "numa_node").write_text(f"{numa_node}\n")
    links = root / "bus/pci/devices"
    links.mkdir(parents=True, exist_ok=True)
    (links / folder.name).symlink_to(folder)
    return folder.name


def level(root: Path, a: str, b: str, numa_nodes: tuple[int, int] = (0, 0)) -> Level:
    tree = PciTree(root)
    one, other = (
        tree.find(write(root, path, node)) for path, node in zip((a, b), numa_nodes, strict=True)
    )
    assert one is not None
    assert other is not None
    assert tree.level(one, other) is tree.level(other, one)
    return tree.level(one, other)


@pytest.mark.parametrize(
    ("a", "b", "expected"),
    [
        (A, B, Level.SINGLE_SWITCH),
        (A, BRIDGED, Level.MULTIPLE_SWITCHES),
        (A, DEEP, Level.MULTIPLE_SWITCHES),
        (A, ROOT, Level.HOST_BRIDGE),
        (A, OTHER_BRIDGE, Level.NUMA_NODE),
    ],
)
def test_the_level_is_that_of_the_common_ancestor(
    a: str, b: str, expected: Level, tmp_path: Path
) -> None:
    assert level(tmp_path, a, b) is expected


def test_devices_of_two_numa_nodes_are_across_the_system(tmp_path: Path) -> None:
    assert level(tmp_path, A, OTHER_BRIDGE, (0, 1)) is Level.SYSTEM


@pytest.mark.parametrize(("count", "expected"), [(1, Level.NUMA_NODE), (2, Level.SYSTEM)])
def test_where_firmware_states_no_numa_node_their_number_decides(
    count: int, expected: Level, tmp_path: Path
) -> None:
    for node in range(count):
        (tmp_path / f"devices/system/node/node{node}").mkdir(parents=True)
    assert level(tmp_path, A, OTHER_BRIDGE, (-1, 0)) is expected


def test_an_entry_below_a_device_leads_to_the_device(tmp_path: Path) -> None:
    write(tmp_path, A, 1)
    entry = tmp_path / "devices" / A / "infiniband" / "mlx5_0"
    entry.mkdir(parents=True)
    place = PciTree(tmp_path).locate(entry)
    assert place is not None
    assert (place.address, place.numa_node, len(place.hops)) == ("0000:03:00.0", 1, 5)


def test_devices_without_a_pci_place_are_not_found(tmp_path: Path) -> None:
    (tmp_path / "devices/virtual/net/lo").mkdir(parents=True)
    tree = PciTree(tmp_path)
    assert tree.locate(tmp_path / "devices/virtual/net/lo") is None
    assert tree.find("0000:99:00.0") is None
