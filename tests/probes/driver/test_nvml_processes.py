"""Process lists of the real binding over the fake driver, in its process."""

import os

import pytest
from tests.probes.conftest import FakeNodeFactory, ProcessFactory

from roost_probe.testing.description import Fault, FaultSpec

pytestmark = pytest.mark.nvml

MPS_LIST = "nvmlDeviceGetMPSComputeRunningProcesses_v3"


async def test_reads_only_the_gpus_that_are_asked_for(
    fake_node: FakeNodeFactory, nvml_process: ProcessFactory
) -> None:
    node, process = fake_node("bridges4"), nvml_process()
    me, mine = os.getpid(), os.getuid()  # of no job
    node.driver.set_processes(1, {me: 3 << 30})
    node.driver.set_processes(2, {me: 5 << 30}, mps_clients=[me])  # in both lists

    assert (await process.jobs([1, 2, 3])).gpus == (
        None,
        ((0, 3 << 30, mine),),
        ((0, 5 << 30, mine),),
        (),
    )


@pytest.mark.parametrize(
    "code",
    [pytest.param(3, id="not supported"), pytest.param(13, id="an old driver"), 999],
)
async def test_a_driver_without_a_list_of_mps_clients(
    code: int, fake_node: FakeNodeFactory, nvml_process: ProcessFactory
) -> None:
    node, process = fake_node("bridges4"), nvml_process()
    node.driver.set_processes(0, {os.getpid(): 1 << 30})
    node.driver.inject(FaultSpec(kind=Fault.ERROR, call=MPS_LIST, code=code))

    (first, *_) = (await process.jobs([0])).gpus

    assert first == (None if code == 999 else ((0, 1 << 30, os.getuid()),))


async def test_what_the_driver_does_not_say_is_absent(
    fake_node: FakeNodeFactory, nvml_process: ProcessFactory
) -> None:
    node, process = fake_node("bridges4"), nvml_process()
    me = os.getpid()
    node.driver.set_processes(0, {me: 1 << 30, 1: None})
    node.driver.set_processes(1, {2**22 + 1: 1 << 30})  # ended: beyond the kernel's largest
    node.driver.set_processes(2, dict.fromkeys(range(1, 300), 1))
    node.driver.lose(3)

    assert (await process.jobs(range(4))).gpus == (None,) * 4
    node.driver.hide("processes")
    node.driver.set_processes(0, {me: 1 << 30})
    assert (await process.jobs([0])).gpus == (None,) * 4
    assert process.start_count == 1
