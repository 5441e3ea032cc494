"""The real binding over the fake driver, in its process, with everything that breaks."""

from pathlib import Path

import pytest
from tests.probes.conftest import FakeNodeFactory, ProcessFactory

from roost_probe.driver.readings import LaneEnd
from roost_probe.testing.description import Fault, FaultSpec, GpuSettings
from roost_probe.testing.fake_driver import QUANTITY_CALLS
from roost_probe.testing.library import build_library

pytestmark = pytest.mark.nvml


async def test_reads_what_does_not_change(
    fake_node: FakeNodeFactory, nvml_process: ProcessFactory
) -> None:
    fake_node("{topology: cube8, model: Tesla V100-SXM2-32GB, load: {memory_bytes: 34359738368}}")

    facts = await nvml_process().facts()

    assert facts.driver_version == "580.95.05"
    assert facts.problems == ()
    assert len({gpu.uuid for gpu in facts.gpus}) == 8
    gpu = facts.gpus[5]
    assert gpu.uuid.startswith("GPU-")
    assert gpu.pci_bus_id == "0000:24:00.0"
    assert gpu.model == "Tesla V100-SXM2-32GB"
    assert gpu.memory_bytes == 32 * 2**30
    assert gpu.numa_nodes == (1,)
    assert gpu.cpu_affinity == "20-39,60-79"
    assert gpu.mig_enabled is False
    assert len(gpu.lanes) == 6
    assert {lane.remote for lane in gpu.lanes} == {LaneEnd.GPU}


async def test_converts_every_unit_once(
    fake_node: FakeNodeFactory, nvml_process: ProcessFactory
) -> None:
    node = fake_node("bridges4")
    node.driver.set(
        2,
        GpuSettings(
            sm_frac=0.87,
            memory_activity_frac=0.4,
            memory_used_bytes=7 * 2**30,
            power_w=251.5,
            temperature_c=61,
            sm_clock_hz=1.41e9,
            throttle_reasons=0x24,
            ecc_uncorrected_count=3,
        ),
    )

    gpu = (await nvml_process().load()).gpus[2]

    assert (gpu.sm_frac, gpu.memory_activity_frac) == (0.87, 0.4)
    assert gpu.memory_used_bytes == 7 * 2**30  # without what the driver reserves
    assert (gpu.power_w, gpu.temperature_c, gpu.sm_clock_hz) == (251.5, 61.0, 1.41e9)
    assert (gpu.throttle_reasons, gpu.ecc_uncorrected_count) == (0x24, 3)
    assert gpu.lost is False


async def test_sees_changes_while_it_runs(
    fake_node: FakeNodeFactory, nvml_process: ProcessFactory
) -> None:
    node, process = fake_node("bridges8"), nvml_process()
    before = (await process.load()).gpus[3].sm_frac

    node.driver.set(3, GpuSettings(sm_frac=0.9))

    assert (before, (await process.load()).gpus[3].sm_frac) == (0.0, 0.9)
    assert process.start_count == 1


async def test_counters_grow_with_their_rate(
    fake_node: FakeNodeFactory, nvml_process: ProcessFactory
) -> None:
    node, process = fake_node("bridges4"), nvml_process()
    node.driver.set(1, GpuSettings(nvlink_tx_bytes_per_s=40e9))
    first = second = await process.load()
    while second.at_s - first.at_s < 0.2:  # long against the time that one sweep takes
        second = await process.load()
    elapsed_s = second.at_s - first.at_s
    a, b = first.gpus[1], second.gpus[1]

    assert a.nvlink_tx_bytes is not None
    assert b.nvlink_tx_bytes is not None
    # The clock is read once a sweep, a little after the counters.
    assert (b.nvlink_tx_bytes - a.nvlink_tx_bytes) / elapsed_s == pytest.approx(40e9, rel=0.8)


async def test_blocking_pcie_rates_are_only_read_when_asked_for(
    fake_node: FakeNodeFactory, nvml_process: ProcessFactory
) -> None:
    node = fake_node("bridges4")
    node.driver.set(0, GpuSettings(pcie_tx_bytes_per_s=3e9))

    blocking = (await nvml_process("blocking").load()).gpus[0]
    off = (await nvml_process("off").load()).gpus[0]

    assert (blocking.pcie_tx_bytes_per_s, blocking.pcie_tx_bytes) == (3e9, None)
    assert (off.pcie_tx_bytes_per_s, off.pcie_tx_bytes) == (None, None)


@pytest.mark.parametrize("quantity", sorted(QUANTITY_CALLS))
async def test_a_quantity_that_the_driver_lacks_is_absent(
    quantity: str, fake_node: FakeNodeFactory, nvml_process: ProcessFactory
) -> None:
    fields = {
        "utilization": ("sm_frac", "memory_activity_frac"),
        "memory": ("memory_used_bytes",),
        "power": ("power_w",),
        "temperature": ("temperature_c",),
        "pcie": ("pcie_tx_bytes_per_s", "pcie_rx_bytes_per_s"),
        "nvlink": ("nvlink_tx_bytes", "nvlink_rx_bytes"),
        "sm_clock": ("sm_clock_hz",),
        "throttle_reasons": ("throttle_reasons",),
        "ecc": ("ecc_uncorrected_count",),
        "minor_number": ("minor_number",),
        "mig": ("mig_enabled",),
        "cpu_affinity": ("cpu_affinity",),
    }.get(quantity, ())
    node, process = fake_node("bridges4"), nvml_process()
    node.driver.hide(quantity, gpu=1)

    await process.load()  # rates need two
    facts, load = await process.facts(), await process.load()

    for name in fields:
        readings = facts.gpus if hasattr(facts.gpus[0], name) else load.gpus
        assert getattr(readings[1], name) is None
        assert getattr(readings[0], name) is not None
    if quantity == "numa":
        assert (facts.gpus[1].numa_nodes, facts.gpus[0].numa_nodes) == ((), (0,))


async def test_a_gpu_without_nvlink_has_no_lanes(
    fake_node: FakeNodeFactory, nvml_process: ProcessFactory
) -> None:
    fake_node("pcie8")
    process = nvml_process()

    assert (await process.facts()).gpus[0].lanes == ()
    assert (await process.load()).gpus[0].nvlink_tx_bytes is None


async def test_minor_numbers_and_mig_are_per_gpu(
    fake_node: FakeNodeFactory, nvml_process: ProcessFactory
) -> None:
    fake_node("{topology: bridges4, minor_numbers: [2, 0, 3, 1], gpus: {1: {mig_enabled: true}}}")

    gpus = (await nvml_process().facts()).gpus

    assert [gpu.minor_number for gpu in gpus] == [2, 0, 3, 1]
    assert [gpu.mig_enabled for gpu in gpus] == [False, True, False, False]


async def test_an_old_driver_without_newer_functions_is_read_all_the_same(
    fake_node: FakeNodeFactory,
    nvml_process: ProcessFactory,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    fake_node("{topology: bridges4, load: {memory_reserved_bytes: 1024, memory_used_bytes: 512}}")
    build_library(
        tmp_path / "old",
        omit=(
            "nvmlDeviceGetTemperatureV",
            "nvmlDeviceGetMemoryInfo_v2",
            "nvmlDeviceGetCurrentClocksEventReasons",
            "nvmlDeviceGetMemoryAffinity",
            "nvmlEventSetCreate",
        ),
    )
    monkeypatch.setenv("LD_LIBRARY_PATH", str(tmp_path / "old"))
    process = nvml_process()

    facts, load = await process.facts(), await process.load()

    assert load.gpus[0].temperature_c == 34.0
    assert load.gpus[0].memory_used_bytes == 1536  # the old call counts the reserve
    assert load.gpus[0].throttle_reasons == 1
    assert facts.gpus[0].numa_nodes == ()
    assert load.xids == ()


async def test_a_gpu_lost_between_two_readings_leaves_the_others_readable(
    fake_node: FakeNodeFactory, nvml_process: ProcessFactory
) -> None:
    node, process = fake_node("bridges8"), nvml_process()
    await process.facts()
    node.driver.lose(5)

    load, facts = await process.load(), await process.facts()

    assert [gpu.lost for gpu in load.gpus] == [i == 5 for i in range(8)]
    assert load.gpus[5].power_w is None
    assert load.gpus[4].power_w == 55.0
    assert facts.problems == ("GPU 5 is lost: see dmesg for its XID; it needs a reset",)
    node.driver.restore(5)
    assert (await process.facts()).gpus[5].uuid.startswith("GPU-")
    assert (await process.load()).gpus[5].lost is False


@pytest.mark.parametrize("call", ["nvmlEventSetCreate", "nvmlSystemGetDriverVersion"])
async def test_a_lost_gpu_in_the_answer_of_the_whole_driver_hides_no_other(
    fake_node: FakeNodeFactory, nvml_process: ProcessFactory, call: str
) -> None:
    lost = 15  # NVML_ERROR_GPU_IS_LOST
    fake_node(f"{{topology: bridges4, faults: [{{kind: error, call: {call}, code: {lost}}}]}}")

    facts = await nvml_process().facts()

    assert ([gpu.uuid != "" for gpu in facts.gpus], facts.problems) == ([True] * 4, ())


async def test_faults_of_a_description_are_injected(
    fake_node: FakeNodeFactory, nvml_process: ProcessFactory
) -> None:
    node = fake_node("{topology: bridges4, faults: [{kind: lost, gpu: 1}]}")
    node.driver.inject(FaultSpec(kind=Fault.ABSENT, quantity="power", gpu=0))

    gpus = (await nvml_process().load()).gpus

    assert [gpu.lost for gpu in gpus] == [False, True, False, False]
    assert gpus[0].power_w is None
