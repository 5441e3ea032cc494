"""NICs and distances from a sysfs made for the purpose."""

from pathlib import Path

import pytest

from roost_probe.node.nic import find_nics
from roost_probe.node.pci import Level, PciTree

GPU = "pci0000:10/0000:10:01.0/0000:11:00.0/0000:12:00.0/0000:13:00.0"


def add_device(root: Path, path: str, numa_node: int = 0) -> Path:
    folder = root / "devices" / path
    folder.mkdir(parents=True)
    (folder / "numa_node").write_text(f"{numa_node}\n")
    links = root / "bus/pci/devices"
    links.mkdir(parents=True, exist_ok=True)
    (links / folder.name).symlink_to(folder)
    return folder


def add_nic(root: Path, kind: str, name: str, device: Path) -> None:
    entry = device / kind / name
    entry.mkdir(parents=True)
    (entry / "device").symlink_to(device)
    (root / "class" / kind).mkdir(parents=True, exist_ok=True)
    (root / "class" / kind / name).symlink_to(entry)


@pytest.mark.parametrize(
    ("nic_path", "numa_node", "level"),
    [
        ("pci0000:10/0000:10:01.0/0000:11:00.0/0000:12:08.0/0000:14:00.0", 0, Level.SINGLE_SWITCH),
        (
            "pci0000:10/0000:10:01.0/0000:11:00.0/0000:12:10.0/0000:15:00.0/0000:16:00.0/0000:17:00.0",
            0,
            Level.MULTIPLE_SWITCHES,
        ),
        ("pci0000:10/0000:10:02.0/0000:14:00.0", 0, Level.HOST_BRIDGE),
        ("pci0000:20/0000:20:01.0/0000:21:00.0", 0, Level.NUMA_NODE),
        ("pci0000:80/0000:80:01.0/0000:81:00.0", 1, Level.SYSTEM),
    ],
)
def test_distance_follows_the_pci_path(
    nic_path: str, numa_node: int, level: Level, tmp_path: Path
) -> None:
    add_device(tmp_path, GPU)
    add_nic(tmp_path, "infiniband", "mlx5_0", add_device(tmp_path, nic_path, numa_node))

    (nic,) = find_nics(tmp_path, ["0000:13:00.0"])

    assert nic.gpu_levels == (level,)
    assert nic.place.numa_node == numa_node


def test_one_adapter_with_two_faces_appears_once_by_its_infiniband_name(tmp_path: Path) -> None:
    device = add_device(tmp_path, "pci0000:10/0000:10:02.0/0000:14:00.0")
    add_nic(tmp_path, "net", "ib0", device)
    add_nic(tmp_path, "infiniband", "mlx5_0", device)

    assert [nic.name for nic in find_nics(tmp_path, [])] == ["mlx5_0"]


def test_virtual_functions_and_devices_off_the_bus_are_left_out(tmp_path: Path) -> None:
    function = add_device(tmp_path, "pci0000:10/0000:10:02.0/0000:14:00.1")
    (function / "physfn").mkdir()
    add_nic(tmp_path, "net", "eth0v1", function)
    add_nic(tmp_path, "net", "bond0", add_device(tmp_path, "virtual/net/x"))
    (tmp_path / "class/net/lo").mkdir()

    assert find_nics(tmp_path, []) == ()


def test_a_net_device_below_a_virtio_device_is_found_at_its_pci_place(tmp_path: Path) -> None:
    device = add_device(tmp_path, "pci0000:00/0000:00:03.0", numa_node=-1)
    inner = device / "virtio1"
    inner.mkdir()
    add_nic(tmp_path, "net", "eth0", inner)

    (nic,) = find_nics(tmp_path, [])

    assert (nic.name, nic.place.address, nic.place.numa_node) == ("eth0", "0000:00:03.0", None)


def test_a_gpu_that_sysfs_does_not_know_leaves_its_own_distance_unknown(tmp_path: Path) -> None:
    add_nic(tmp_path, "net", "eth0", add_device(tmp_path, "pci0000:00/0000:00:03.0"))
    add_device(tmp_path, "pci0000:00/0000:00:04.0")

    (nic,) = find_nics(tmp_path, ["0000:99:00.0", "", "0000:00:04.0"])

    assert nic.gpu_levels[:2] == (None, None)
    assert nic.gpu_levels[2] is not None


def test_without_numa_information_other_host_bridges_are_near_on_one_node_only(
    tmp_path: Path,
) -> None:
    add_device(tmp_path, "pci0000:00/0000:00:01.0", numa_node=-1)
    add_device(tmp_path, "pci0000:40/0000:40:01.0", numa_node=-1)
    tree = PciTree(tmp_path)
    a, b = tree.find("0000:00:01.0"), tree.find("0000:40:01.0")
    assert a is not None
    assert b is not None

    (tmp_path / "devices/system/node/node0").mkdir(parents=True)
    assert tree.level(a, b) is Level.NUMA_NODE
    (tmp_path / "devices/system/node/node1").mkdir()
    assert tree.level(a, b) is Level.SYSTEM


def test_a_machine_without_sysfs_has_no_nics(tmp_path: Path) -> None:
    assert find_nics(tmp_path / "nowhere", ["0000:13:00.0"]) == ()
