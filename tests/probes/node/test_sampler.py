"""Samples carry what can be true, and only that."""

import math

import pytest

from roost_probe.driver.readings import DriverLoad, GpuLoad
from roost_probe.node.sampler import Sampler, silent_sample


def test_absent_stays_absent_and_is_not_zero() -> None:
    sample = Sampler().sample(
        DriverLoad(at_s=0.0, gpus=(GpuLoad(power_w=50.0), GpuLoad(), GpuLoad(power_w=0.0)))
    )

    assert sample.gpu_count == 3
    assert sample.power_w.present_mask == 0b101
    assert list(sample.power_w.values) == [50.0, 0.0]
    assert sample.sm_frac.present_mask == 0


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("sm_frac", math.nan),
        ("sm_frac", 2.55),
        ("memory_activity_frac", -0.01),
        ("power_w", math.inf),
        ("power_w", 4_294_967.295),  # 0xffffffff mW
        ("temperature_c", 9223372036854775794.0),  # a sentinel seen in the field
        ("temperature_c", -3.0),
        ("sm_clock_hz", 1e15),
        ("memory_used_bytes", 1 << 63),
        ("ecc_uncorrected_count", (1 << 64) - 1),
        ("pcie_tx_bytes_per_s", 1e16),
        ("throttle_reasons", -1),
    ],
)
def test_drops_what_cannot_be_true(field: str, value: float) -> None:
    sound, broken = GpuLoad(**{field: 0}), GpuLoad(**{field: value})  # type: ignore[arg-type]

    column = getattr(Sampler().sample(DriverLoad(at_s=0.0, gpus=(broken, sound))), field)

    assert column.present_mask == 0b10
    assert list(column.values) == [0]


def test_rates_come_from_two_counters() -> None:
    sampler = Sampler()

    first = sampler.sample(DriverLoad(at_s=10.0, gpus=(GpuLoad(nvlink_tx_bytes=1000),)))
    second = sampler.sample(DriverLoad(at_s=12.0, gpus=(GpuLoad(nvlink_tx_bytes=9000),)))

    assert first.nvlink_tx_bytes_per_s.present_mask == 0
    assert list(second.nvlink_tx_bytes_per_s.values) == [4000.0]


def test_a_counter_that_went_back_gives_no_rate() -> None:
    sampler = Sampler()
    sampler.sample(DriverLoad(at_s=10.0, gpus=(GpuLoad(pcie_rx_bytes=10**12),)))

    sample = sampler.sample(DriverLoad(at_s=11.0, gpus=(GpuLoad(pcie_rx_bytes=5),)))

    assert sample.pcie_rx_bytes_per_s.present_mask == 0


def test_a_counter_at_the_end_of_its_range_is_absent_and_not_idle() -> None:
    sampler = Sampler()
    for at_s in (10.0, 11.0):
        load = DriverLoad(at_s=at_s, gpus=(GpuLoad(nvlink_tx_bytes=(1 << 64) - 1),))
        assert sampler.sample(load).nvlink_tx_bytes_per_s.present_mask == 0


def test_a_counter_that_paused_gives_no_rate() -> None:
    sampler = Sampler()
    sampler.sample(DriverLoad(at_s=10.0, gpus=(GpuLoad(pcie_rx_bytes=1),)))
    sampler.sample(DriverLoad(at_s=11.0, gpus=(GpuLoad(),)))

    sample = sampler.sample(DriverLoad(at_s=12.0, gpus=(GpuLoad(pcie_rx_bytes=100),)))

    assert sample.pcie_rx_bytes_per_s.present_mask == 0


def test_lost_gpus_and_xids_are_marked() -> None:
    sample = Sampler().sample(
        DriverLoad(at_s=0.0, gpus=(GpuLoad(), GpuLoad(lost=True)), xids=((1, 79), (9, 31)))
    )

    assert sample.lost_mask == 0b10
    assert [(event.gpu_index, event.code) for event in sample.xid_events] == [(1, 79)]


def test_a_silent_sample_says_nothing_about_any_gpu() -> None:
    sample = silent_sample(8)

    assert sample.gpu_count == 8
    assert all(not field.message_type for field, _ in sample.ListFields())
