"""The NVML process: deadlines, a driver that hangs or dies, and a new child with back-off."""

import os
import signal

import pytest
from tests.probes.conftest import FakeNodeFactory, ProcessFactory

from roost_probe.errors import DriverFault

pytestmark = pytest.mark.nvml


class ManualClock:
    def __init__(self) -> None:
        self.now_s = 1000.0

    def __call__(self) -> float:
        return self.now_s


async def test_a_missing_library_is_a_fault_that_names_the_cure(
    nvml_process: ProcessFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("LD_LIBRARY_PATH", raising=False)
    process = nvml_process()

    with pytest.raises(DriverFault, match=r"libnvidia-ml.so.1 was not found; install"):
        await process.facts()
    assert process.start_count == 1


async def test_a_driver_that_loads_later_is_found(
    fake_node: FakeNodeFactory, nvml_process: ProcessFactory
) -> None:
    node, process = fake_node("bridges4"), nvml_process()
    node.driver.fail_init()
    with pytest.raises(DriverFault, match="kernel module is not loaded"):
        await process.facts()

    node.driver.clear_faults()

    assert len((await process.facts()).gpus) == 4


async def test_a_hanging_driver_costs_one_child_and_its_deadline(
    fake_node: FakeNodeFactory, nvml_process: ProcessFactory
) -> None:
    clock = ManualClock()
    node, process = fake_node("bridges4"), nvml_process(load_timeout_s=0.3, clock=clock)
    await process.facts()
    hung_pid = process.pid
    node.driver.hang("nvmlDeviceGetPowerUsage", gpu=2)

    with pytest.raises(DriverFault, match=r"NVML did not answer within 0.3 s"):
        await process.load()
    with pytest.raises(DriverFault, match=r"NVML did not answer within 0.3 s"):
        await process.load()  # at once: the back-off has not passed
    assert process.start_count == 1
    assert hung_pid is not None
    with pytest.raises(ProcessLookupError):
        os.kill(hung_pid, 0)

    node.driver.clear_faults()
    clock.now_s += 60.0
    assert len((await process.facts()).gpus) == 4
    assert process.start_count == 2


async def test_a_segfault_in_the_driver_is_named_and_survived(
    fake_node: FakeNodeFactory, nvml_process: ProcessFactory
) -> None:
    clock = ManualClock()
    node, process = fake_node("bridges4"), nvml_process(clock=clock)
    node.driver.crash("nvmlDeviceGetUtilizationRates")

    with pytest.raises(DriverFault, match=r"the NVML process died \(SIGSEGV\)"):
        await process.load()

    node.driver.clear_faults()
    clock.now_s += 60.0
    assert len((await process.load()).gpus) == 4


async def test_a_killed_child_is_replaced(
    fake_node: FakeNodeFactory, nvml_process: ProcessFactory
) -> None:
    clock = ManualClock()
    fake_node("bridges4")
    process = nvml_process(clock=clock)
    await process.load()
    assert process.pid is not None
    os.kill(process.pid, signal.SIGKILL)

    with pytest.raises(DriverFault, match="the NVML process"):
        await process.load()
    clock.now_s += 60.0

    assert len((await process.load()).gpus) == 4
