"""XIDs by the real binding over the fake driver, in its process."""

import pytest
from tests.probes.conftest import FakeNodeFactory, ProcessFactory

from roost_probe.testing.description import Fault, FaultSpec

pytestmark = pytest.mark.nvml


async def test_xid_events_arrive_once(
    fake_node: FakeNodeFactory, nvml_process: ProcessFactory
) -> None:
    node, process = fake_node("bridges4"), nvml_process()
    await process.load()
    node.driver.raise_xid(2, 79)
    node.driver.raise_xid(0, 31)

    assert (await process.load()).xids == ((2, 79), (0, 31))
    assert (await process.load()).xids == ()


async def test_a_driver_without_events_reports_none(
    fake_node: FakeNodeFactory, nvml_process: ProcessFactory
) -> None:
    node, process = fake_node("bridges4"), nvml_process()
    node.driver.inject(FaultSpec(kind=Fault.ERROR, call="nvmlEventSetCreate", code=3))
    await process.load()
    node.driver.raise_xid(2, 79)

    assert (await process.load()).xids == ()
