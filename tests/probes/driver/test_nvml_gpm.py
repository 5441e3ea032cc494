"""PCIe rates from the performance monitor, through the real binding on the fake driver."""

import pynvml
import pytest
from tests.probes.conftest import FakeNodeFactory, ProcessFactory

from roost_probe.testing.description import Fault, FaultSpec, GpuSettings

pytestmark = pytest.mark.nvml


async def test_pcie_rates_come_from_the_monitor_where_counters_have_32_bits(
    fake_node: FakeNodeFactory, nvml_process: ProcessFactory
) -> None:
    node, process = fake_node("bridges4"), nvml_process()
    node.driver.set(1, GpuSettings(pcie_tx_bytes_per_s=12e9, pcie_rx_bytes_per_s=50e9))

    first = (await process.load()).gpus[1]
    second = (await process.load()).gpus[1]

    assert (first.pcie_tx_bytes, first.pcie_tx_bytes_per_s) == (None, None)
    assert second.pcie_tx_bytes is None  # 50 GB/s wrap 32 bits twelve times a second
    assert second.pcie_tx_bytes_per_s == pytest.approx(12e9, rel=0.01)
    assert second.pcie_rx_bytes_per_s == pytest.approx(50e9, rel=0.01)


async def test_where_there_is_a_monitor_the_counters_are_not_read(
    fake_node: FakeNodeFactory, nvml_process: ProcessFactory
) -> None:
    node, process = fake_node("bridges4"), nvml_process()
    counters = (pynvml.NVML_FI_DEV_PCIE_COUNT_TX_BYTES, pynvml.NVML_FI_DEV_PCIE_COUNT_RX_BYTES)
    for counter in counters:
        node.driver.inject(FaultSpec(kind=Fault.CRASH, call=f"field/{counter}"))

    await process.load()

    assert (await process.load()).gpus[1].pcie_tx_bytes_per_s is not None


async def test_without_a_monitor_pcie_rates_are_absent(
    fake_node: FakeNodeFactory, nvml_process: ProcessFactory
) -> None:
    node, process = fake_node("bridges4"), nvml_process()
    node.driver.set(2, GpuSettings(pcie_rx_bytes_per_s=1e9))
    node.driver.hide("pcie", gpu=2)

    await process.load()
    hidden, other = (await process.load()).gpus[2:4]

    assert (hidden.pcie_rx_bytes, hidden.pcie_rx_bytes_per_s) == (None, None)
    assert hidden.power_w is not None
    assert other.pcie_rx_bytes_per_s == 0.0


async def test_a_monitor_that_a_user_may_not_read_costs_no_other_quantity(
    fake_node: FakeNodeFactory, nvml_process: ProcessFactory
) -> None:
    node, process = fake_node("bridges4"), nvml_process()
    node.driver.inject(
        FaultSpec(kind=Fault.ERROR, call="nvmlGpmSampleGet", code=4)
    )  # no permission

    await process.load()
    gpu = (await process.load()).gpus[0]

    assert gpu.pcie_tx_bytes_per_s is None
    assert gpu.power_w is not None


async def test_a_failed_reading_is_not_the_begin_of_a_rate(
    fake_node: FakeNodeFactory, nvml_process: ProcessFactory
) -> None:
    node, process = fake_node("bridges4"), nvml_process()
    node.driver.set(0, GpuSettings(pcie_tx_bytes_per_s=1e9))
    node.driver.inject(FaultSpec(kind=Fault.ERROR, call="nvmlGpmSampleGet", code=999))
    await process.load()
    node.driver.clear_faults()

    assert (await process.load()).gpus[0].pcie_tx_bytes_per_s is None
    assert (await process.load()).gpus[0].pcie_tx_bytes_per_s == pytest.approx(1e9, rel=0.05)


async def test_a_gpu_that_comes_back_has_rates_again(
    fake_node: FakeNodeFactory, nvml_process: ProcessFactory
) -> None:
    node, process = fake_node("bridges4"), nvml_process()
    node.driver.set(0, GpuSettings(pcie_tx_bytes_per_s=1e9))
    await process.load()
    node.driver.lose(0)
    assert (await process.load()).gpus[0].lost

    node.driver.restore(0)
    await process.facts()  # opens the driver again
    await process.load()

    assert (await process.load()).gpus[0].pcie_tx_bytes_per_s == pytest.approx(1e9, rel=0.05)
