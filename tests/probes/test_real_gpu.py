"""The same asserts on the fake driver and on the one of this machine: the fake tells no lies.

Run where a GPU is: `pytest -m gpu tests/probes`. None is required by ROOST_REQUIRE_REAL: the fake
driver stands for it wherever there is none.
"""

import asyncio
import ctypes
import json
import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.probes.conftest import FakeNodeFactory, ProcessFactory

from roost_probe.cli import main
from roost_probe.driver.readings import GpuFacts, GpuLoad
from roost_probe.errors import DriverFault
from roost_probe.node.sampler import Sampler
from roost_probe.node.topology import Topology

_FAKE = """
topology: nvswitch8
model: NVIDIA H200
load:
  sm_frac: 0.5
  memory_activity_frac: 0.2
  memory_bytes: 85899345920
  memory_used_bytes: 1073741824
  power_w: 210
  temperature_c: 50
  sm_clock_hz: 1.4e9
  pcie_tx_bytes_per_s: 2e9
  pcie_rx_bytes_per_s: 1e9
"""


_MONITORED = ("H100", "H200", "H20", "GH200", "B100", "B200", "B300")  # Hopper and later


def _real_driver() -> str | None:
    """Return why there is no driver here, None where there is one."""
    if not Path("/dev/nvidiactl").exists():
        return "no NVIDIA driver: /dev/nvidiactl is missing"
    try:
        ctypes.CDLL("libnvidia-ml.so.1")
    except OSError as error:
        return f"no NVIDIA driver: {error}"
    return None


@pytest.fixture(
    params=[
        pytest.param("fake", marks=pytest.mark.nvml),
        pytest.param("real", marks=pytest.mark.gpu),
    ]
)
def sysfs(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The sysfs beside the driver that processes started from here see."""
    if request.param == "fake":
        make: FakeNodeFactory = request.getfixturevalue("fake_node")
        yield make(_FAKE).sysfs
        return
    if (reason := _real_driver()) is not None:
        pytest.skip(reason)
    monkeypatch.delenv("ROOST_FAKE_NVML_STATE", raising=False)
    yield Path("/sys")


@pytest.mark.usefixtures("sysfs")
async def test_every_gpu_says_what_it_is(nvml_process: ProcessFactory) -> None:
    facts = await nvml_process().facts()

    assert re.fullmatch(r"\d+(\.\d+)+", facts.driver_version or "")
    assert facts.problems == ()
    assert facts.gpus
    assert len({gpu.uuid for gpu in facts.gpus}) == len(facts.gpus)
    for gpu in facts.gpus:
        _check_facts(gpu)


def _check_facts(gpu: GpuFacts) -> None:
    assert re.fullmatch(r"GPU-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", gpu.uuid)
    assert re.fullmatch(r"[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.0", gpu.pci_bus_id)
    assert gpu.model
    assert gpu.memory_bytes is not None
    assert 2**30 < gpu.memory_bytes < 2**42
    assert gpu.minor_number is not None
    assert 0 <= gpu.minor_number < 256
    assert gpu.mig_enabled in (None, False, True)


@pytest.mark.usefixtures("sysfs")
async def test_every_gpu_says_how_busy_it_is(nvml_process: ProcessFactory) -> None:
    process = nvml_process()
    facts, load = await process.facts(), await process.load()

    assert len(load.gpus) == len(facts.gpus)
    for gpu, fact in zip(load.gpus, facts.gpus, strict=True):
        _check_load(gpu, fact)


def _check_load(gpu: GpuLoad, facts: GpuFacts) -> None:
    assert gpu.lost is False
    assert gpu.sm_frac is not None
    assert gpu.memory_activity_frac is not None
    assert 0 <= gpu.sm_frac <= 1
    assert 0 <= gpu.memory_activity_frac <= 1
    assert gpu.memory_used_bytes is not None
    assert facts.memory_bytes is not None
    assert 0 <= gpu.memory_used_bytes <= facts.memory_bytes
    assert gpu.power_w is not None
    assert 5 < gpu.power_w < 2000
    assert gpu.temperature_c is not None
    assert 5 < gpu.temperature_c < 110
    assert gpu.sm_clock_hz is not None
    assert 1e8 < gpu.sm_clock_hz < 1e10
    assert gpu.throttle_reasons is not None


@pytest.mark.usefixtures("sysfs")
async def test_counters_never_go_back_and_their_rates_can_be_true(
    nvml_process: ProcessFactory,
) -> None:
    process, sampler = nvml_process(), Sampler()
    facts, first = await process.facts(), await process.load()
    sampler.sample(first)
    await asyncio.sleep(0.5)
    second = await process.load()

    sample = sampler.sample(second)

    for before, after in zip(first.gpus, second.gpus, strict=True):
        for name in ("pcie_tx_bytes", "pcie_rx_bytes", "nvlink_tx_bytes", "nvlink_rx_bytes"):
            assert (getattr(before, name) is None) == (getattr(after, name) is None)
            assert (getattr(before, name) or 0) <= (getattr(after, name) or 0)
    for column in (sample.pcie_tx_bytes_per_s, sample.pcie_rx_bytes_per_s):
        has_monitor = [any(name in gpu.model for name in _MONITORED) for gpu in facts.gpus]
        assert [bool(column.present_mask >> i & 1) for i in range(len(facts.gpus))] == has_monitor
        assert all(0 <= rate < 2e12 for rate in column.values)


async def test_links_are_those_of_a_matrix(sysfs: Path, nvml_process: ProcessFactory) -> None:
    topology = Topology.of(await nvml_process().facts(), sysfs)

    count = len(topology.gpus)
    assert topology.problems == ()
    assert len(topology.links) == count * (count - 1) // 2


def test_the_command_prints_the_gpus(sysfs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--print-topology", "--json", "--sysfs-root", str(sysfs)]) == 0

    topology = json.loads(capsys.readouterr().out)
    assert topology["problems"] == []
    assert [gpu["index"] for gpu in topology["gpus"]] == list(range(len(topology["gpus"])))


@pytest.mark.usefixtures("sysfs")
async def test_a_driver_that_is_too_slow_for_the_deadline_loses_its_process(
    nvml_process: ProcessFactory,
) -> None:
    clock = [0.0]
    process = nvml_process(load_timeout_s=1e-6, clock=lambda: clock[0])
    await process.facts()
    first = process.pid

    with pytest.raises(DriverFault, match="did not answer within 1e-06 s"):
        await process.load()

    assert first is not None
    assert not _is_running(first)
    clock[0] = 1e6
    assert (await process.facts()).gpus
    assert process.start_count == 2


def _is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True
