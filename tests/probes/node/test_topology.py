"""Links from lanes and ancestors."""

from pathlib import Path

from tests.probes.node.test_nic import add_device, add_nic

from roost_probe.driver.readings import DriverFacts, GpuFacts, LaneEnd, LaneFacts
from roost_probe.node.pci import Level
from roost_probe.node.topology import MOST_NICS, Topology


def gpu(index: int, lanes: list[LaneFacts], level: int | None = 40) -> GpuFacts:
    return GpuFacts(
        uuid=f"GPU-{index}",
        pci_bus_id=f"0000:1{index}:00.0",
        lanes=tuple(lanes),
        levels=(level, level),
    )


def to_gpu(index: int, count: int) -> list[LaneFacts]:
    return [LaneFacts(remote=LaneEnd.GPU, remote_bus_id=f"0000:1{index}:00.0")] * count


def to_other(remote: LaneEnd, bus_id: str | None, count: int) -> list[LaneFacts]:
    return [LaneFacts(remote=remote, remote_bus_id=bus_id)] * count


def link_of(tmp_path: Path, *gpus: GpuFacts) -> tuple[str, bool]:
    topology = Topology.of(DriverFacts(gpus=gpus), tmp_path)
    return topology.links[0].symbol, topology.links[0].nvswitch


def test_no_more_nics_are_reported_than_a_sample_can_have(tmp_path: Path) -> None:
    for number in range(MOST_NICS + 1):
        device = add_device(tmp_path, f"pci0000:10/0000:{number:02x}:00.0")
        add_nic(tmp_path, "net", f"eth{number}", device)
    topology = Topology.of(DriverFacts(), tmp_path)
    assert len(topology.nics) == len(topology.nic_levels) == MOST_NICS
    assert topology.problems == ("65 NICs; only the first 64 by PCI address are read",)


def test_direct_lanes_are_counted(tmp_path: Path) -> None:
    assert link_of(tmp_path, gpu(0, to_gpu(1, 4)), gpu(1, to_gpu(0, 4))) == ("NV4", False)


def test_a_lane_that_is_down_on_one_side_does_not_count(tmp_path: Path) -> None:
    assert link_of(tmp_path, gpu(0, to_gpu(1, 4)), gpu(1, to_gpu(0, 3))) == ("NV3", False)


def test_behind_a_switch_a_pair_has_the_lesser_number_of_lanes(tmp_path: Path) -> None:
    switch = "0000:a0:00.0"
    a, b = to_other(LaneEnd.SWITCH, switch, 18), to_other(LaneEnd.SWITCH, switch, 16)

    assert link_of(tmp_path, gpu(0, a), gpu(1, b)) == ("NV16", True)


def test_a_switch_that_a_virtual_machine_hides_is_still_one(tmp_path: Path) -> None:
    lanes = to_other(LaneEnd.UNKNOWN, None, 12)

    assert link_of(tmp_path, gpu(0, lanes), gpu(1, lanes)) == ("NV12", True)


def test_lanes_to_a_processor_link_no_gpus(tmp_path: Path) -> None:
    lanes = to_other(LaneEnd.OTHER, "0004:04:00.0", 3)

    assert link_of(tmp_path, gpu(0, lanes), gpu(1, lanes)) == ("NODE", False)


def test_an_unknown_distance_counts_as_the_worst_and_is_reported(tmp_path: Path) -> None:
    topology = Topology.of(DriverFacts(gpus=(gpu(0, [], None), gpu(1, [], None))), tmp_path)

    assert topology.links[0].level is Level.SYSTEM
    assert topology.problems == ("distance of GPUs 0 and 1 unknown; taken to be SYS",)


def test_one_side_is_enough_to_know_a_distance(tmp_path: Path) -> None:
    assert link_of(tmp_path, gpu(0, [], None), gpu(1, [], 10)) == ("PIX", False)
