"""Rates and speeds of network cards from a sysfs made for the purpose."""

from pathlib import Path

import pytest
from tests.probes.node.test_nic import add_device, add_nic

from roost_probe.node.nic import Nic, find_nics
from roost_probe.node.nic_counters import NicCounters
from roost_proto.v1 import telemetry_pb2


def write(file: Path, text: object) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(f"{text}\n")


def add_infiniband(root: Path, bus: str = "10", rate: str = "200 Gb/sec (4X HDR)") -> Path:
    name = f"mlx5_{bus}"
    add_nic(root, "infiniband", name, add_device(root, f"pci0000:{bus}/0000:{bus}:00.0"))
    entry = root / "class/infiniband" / name
    write(entry / "ports/1/rate", rate)
    count(entry, 0, 0)
    return entry


def count(entry: Path, sent: object, received: object) -> None:
    write(entry / "ports/1/counters/port_xmit_data", sent)
    write(entry / "ports/1/counters/port_rcv_data", received)


def add_ethernet(root: Path, speed_mbit_per_s: object) -> Path:
    add_nic(root, "net", "eth0", add_device(root, "pci0000:20/0000:20:00.0"))
    entry = root / "class/net/eth0"
    write(entry / "speed", speed_mbit_per_s)
    write(entry / "statistics/tx_bytes", 0)
    write(entry / "statistics/rx_bytes", 0)
    return entry


class Reader:
    """Reads the cards of a root again and again."""

    def __init__(self, root: Path) -> None:
        self.counters, self.nics = NicCounters(), find_nics(root, [])

    def rates(self, at_s: float) -> tuple[dict[int, float], dict[int, float]]:
        sample = telemetry_pb2.Sample()
        self.counters.add_to(sample, self.nics, at_s)
        return _unpacked(sample.nic_tx_bytes_per_s), _unpacked(sample.nic_rx_bytes_per_s)


def _unpacked(column: telemetry_pb2.FloatColumn) -> dict[int, float]:
    positions = [bit for bit in range(64) if column.present_mask >> bit & 1]
    return dict(zip(positions, column.values, strict=True))


def nic_of(root: Path) -> Nic:
    (nic,) = find_nics(root, [])
    return nic


def test_infiniband_counts_words_of_four_bytes(tmp_path: Path) -> None:
    entry = add_infiniband(tmp_path)
    reader = Reader(tmp_path)
    assert reader.rates(10.0) == ({}, {})
    count(entry, 1000, 3000)
    assert reader.rates(12.0) == ({0: 2000.0}, {0: 6000.0})


def test_net_devices_count_bytes_and_the_second_card_has_the_second_bit(tmp_path: Path) -> None:
    add_infiniband(tmp_path)
    entry = add_ethernet(tmp_path, 25_000)
    reader = Reader(tmp_path)
    reader.rates(0.0)
    write(entry / "statistics/tx_bytes", 500)
    assert reader.rates(1.0) == ({0: 0.0, 1: 500.0}, {0: 0.0, 1: 0.0})


@pytest.mark.parametrize("broken", ["", "N/A (no PMA)"])
def test_a_card_that_cannot_be_read_is_absent(tmp_path: Path, broken: str) -> None:
    entry = add_infiniband(tmp_path)
    add_ethernet(tmp_path, 1000)
    reader = Reader(tmp_path)
    reader.rates(0.0)
    count(entry, broken, 0)
    assert reader.rates(1.0) == ({1: 0.0}, {1: 0.0})
    count(entry, 400, 0)
    assert 0 not in reader.rates(2.0)[0], "two counts make a rate"


def test_a_counter_that_went_back_gives_no_rate(tmp_path: Path) -> None:
    entry = add_infiniband(tmp_path)
    count(entry, 1000, 1000)
    reader = Reader(tmp_path)
    reader.rates(0.0)
    count(entry, 0, 1000)
    assert reader.rates(1.0) == ({}, {0: 0.0})


@pytest.mark.parametrize(
    ("rate", "bytes_per_s"),
    [
        ("200 Gb/sec (4X HDR)", 25e9),
        ("2.5 Gb/sec (1X SDR)", 0.3125e9),
        ("0 Gb/sec", None),
        ("?", None),
    ],
)
def test_the_speed_of_an_infiniband_port(
    tmp_path: Path, rate: str, bytes_per_s: float | None
) -> None:
    add_infiniband(tmp_path, rate=rate)
    assert nic_of(tmp_path).bytes_per_s == bytes_per_s


@pytest.mark.parametrize(("told", "bytes_per_s"), [(25_000, 3.125e9), (-1, None), ("", None)])
def test_the_speed_of_a_net_device(tmp_path: Path, told: object, bytes_per_s: float | None) -> None:
    add_ethernet(tmp_path, told)
    assert nic_of(tmp_path).bytes_per_s == bytes_per_s


@pytest.mark.parametrize("full", [(1 << 32) - 1, (1 << 64) - 1])
def test_a_port_whose_counter_stands_at_its_end_is_absent_and_not_idle(
    tmp_path: Path, full: int
) -> None:
    entry = add_infiniband(tmp_path)
    reader = Reader(tmp_path)
    count(entry, full - 500, 0)
    reader.rates(10.0)
    for at_s in (12.0, 14.0):
        count(entry, full, 1000)
        assert reader.rates(at_s) == ({}, {})
    count(entry, 0, 1000)  # it was reset
    assert reader.rates(16.0) == ({}, {})
    count(entry, 500, 1000)
    assert reader.rates(18.0) == ({0: 1000.0}, {0: 0.0})


@pytest.mark.parametrize("bits", [32, 64])
def test_a_counter_that_wraps_gives_one_absent_rate(tmp_path: Path, bits: int) -> None:
    entry = add_infiniband(tmp_path)
    reader = Reader(tmp_path)
    count(entry, (1 << bits) - 10, 0)
    reader.rates(10.0)
    count(entry, 90, 100)
    assert reader.rates(12.0) == ({}, {0: 200.0})
    count(entry, 190, 200)
    assert reader.rates(14.0) == ({0: 200.0}, {0: 200.0})
