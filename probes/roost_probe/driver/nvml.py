"""The driver, read through nvidia-ml-py. Runs in a process of its own: see nvml_process.

Only this module, nvml_gpm, nvml_processes and nvml_xids import pynvml (which PyPI calls
nvidia-ml-py; the package named pynvml is something else) and know NVML's units.
"""

import time
from collections.abc import Callable, Collection
from enum import StrEnum
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

import pynvml

from roost_probe.driver.cpu_list import format_cpu_list
from roost_probe.driver.job_memory import JobBytes, by_job
from roost_probe.driver.nvml_gpm import GpmRates, has_monitor
from roost_probe.driver.nvml_processes import used_bytes_by_process
from roost_probe.driver.nvml_xids import XidEvents, address
from roost_probe.driver.readings import (
    DriverFacts,
    DriverLoad,
    GpuFacts,
    GpuLoad,
    JobMemory,
    LaneEnd,
    LaneFacts,
)
from roost_probe.errors import DriverFault

T = TypeVar("T")
Handle: TypeAlias = Any  # a ctypes pointer; pynvml ships no types

_ALL_LANES = 0xFFFFFFFF  # scopeId of a field value: the sum over a GPU's lanes
_AFFINITY_WORDS = 32  # 2,048 CPUs
_PROC = Path("/proc")
_LISTINGS = 2  # of processes: one that has ended meanwhile is not in the second list
_CURES = {
    pynvml.NVML_ERROR_LIBRARY_NOT_FOUND: (
        "libnvidia-ml.so.1 was not found; install the NVIDIA driver on this node"
    ),
    pynvml.NVML_ERROR_DRIVER_NOT_LOADED: (
        "the NVIDIA kernel module is not loaded; try `modprobe nvidia`, then see dmesg"
    ),
    pynvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH: (
        "the driver's library and kernel module differ in version; reload the module or reboot"
    ),
    pynvml.NVML_ERROR_NO_PERMISSION: (
        "no permission to use the driver; the probe needs read and write access to /dev/nvidia*"
    ),
}
_LANE_ENDS = {
    pynvml.NVML_NVLINK_DEVICE_TYPE_GPU: LaneEnd.GPU,
    pynvml.NVML_NVLINK_DEVICE_TYPE_IBMNPU: LaneEnd.OTHER,
    pynvml.NVML_NVLINK_DEVICE_TYPE_SWITCH: LaneEnd.SWITCH,
}


class PcieSource(StrEnum):
    """Where PCIe rates come from."""

    COUNTERS = "counters"  # the performance monitor or 64-bit counters; absent on GPUs without
    BLOCKING = "blocking"  # nvmlDeviceGetPcieThroughput: watches 20 ms, twice a GPU
    OFF = "off"


class _GpuLost(Exception):
    """The GPU that was asked is gone or needs a reset."""


class Nvml:
    """Reads GPUs. Opens the driver when first asked, and again after a GPU was lost.

    Args:
        pcie: where PCIe rates come from.
    """

    def __init__(self, pcie: PcieSource = PcieSource.COUNTERS) -> None:
        self._pcie = pcie
        self._handles: list[Handle | None] | None = None
        self._xids: XidEvents | None = None
        self._monitors = dict[int | None, GpmRates]()  # by the handle's address
        self._any_lost = False

    def facts(self) -> DriverFacts:
        """Read what does not change.

        Raises:
            DriverFault: NVML cannot be used.
        """
        if self._any_lost:
            self.close()  # a GPU that was reset answers only to a new initialisation
        handles = self._open()
        problems = list[str]()
        gpus = list[GpuFacts]()
        for index, handle in enumerate(handles):
            try:
                gpus.append(self._gpu_facts(handle))
            except _GpuLost:
                self._any_lost = True
                problems.append(f"GPU {index} is lost: see dmesg for its XID; it needs a reset")
                gpus.append(GpuFacts())
        version = _attempt(pynvml.nvmlSystemGetDriverVersion)
        return DriverFacts(driver_version=version, gpus=tuple(gpus), problems=tuple(problems))

    def load(self) -> DriverLoad:
        """Read what changes.

        Raises:
            DriverFault: NVML cannot be used.
        """
        gpus = list[GpuLoad]()
        for handle in self._open():
            try:
                gpus.append(self._gpu_load(handle))
            except _GpuLost:
                self._any_lost = True
                gpus.append(GpuLoad(lost=True))
        xids = self._xids.read() if self._xids is not None else ()
        return DriverLoad(at_s=time.monotonic(), gpus=tuple(gpus), xids=xids)

    def jobs(self, gpus: Collection[int]) -> JobMemory:
        """Read what Slurm jobs use of the memory of some GPUs.

        Raises:
            DriverFault: NVML cannot be used.
        """
        return JobMemory(
            gpus=tuple(
                self._jobs_on(handle) if index in gpus else None
                for index, handle in enumerate(self._open())
            )
        )

    def close(self) -> None:
        """Close the driver."""
        if self._handles is None:
            return
        if self._xids is not None:
            _attempt(self._xids.close)
        for monitor in self._monitors.values():
            _attempt(monitor.close)
        _attempt(pynvml.nvmlShutdown)
        self._handles, self._xids, self._any_lost = None, None, False
        self._monitors = {}

    def _open(self) -> list[Handle | None]:
        if self._handles is not None:
            return self._handles
        try:
            pynvml.nvmlInit()
            count = pynvml.nvmlDeviceGetCount()
        except pynvml.NVMLError as error:
            cure = _CURES.get(error.value, "see dmesg and nvidia-smi")
            raise DriverFault(f"NVML failed to start ({error}): {cure}") from error
        self._handles = [
            _attempt(pynvml.nvmlDeviceGetHandleByIndex, index) for index in range(count)
        ]
        self._any_lost = None in self._handles
        self._xids = XidEvents(self._handles)
        if self._pcie is PcieSource.COUNTERS:
            self._monitors = {
                address(handle): GpmRates(handle)
                for handle in self._handles
                if handle is not None and _attempt(has_monitor, handle)
            }
        return self._handles

    def _gpu_facts(self, handle: Handle | None) -> GpuFacts:
        if handle is None:
            raise _GpuLost
        pci = _optional(pynvml.nvmlDeviceGetPciInfo, handle)
        memory = _memory(handle)
        return GpuFacts(
            uuid=_optional(pynvml.nvmlDeviceGetUUID, handle) or "",
            pci_bus_id=_sysfs_address(pci) or "",
            model=_optional(pynvml.nvmlDeviceGetName, handle) or "",
            memory_bytes=int(memory.total) if memory is not None else None,
            minor_number=_optional(pynvml.nvmlDeviceGetMinorNumber, handle),
            numa_nodes=_numa_nodes(handle),
            cpu_affinity=_cpu_affinity(handle),
            mig_enabled=_mig_enabled(handle),
            lanes=_lanes(handle),
            levels=tuple(
                None
                if other is None or other is handle
                else _attempt(pynvml.nvmlDeviceGetTopologyCommonAncestor, handle, other)
                for other in self._handles or ()
            ),
        )

    def _gpu_load(self, handle: Handle | None) -> GpuLoad:
        if handle is None:
            raise _GpuLost
        utilization = _optional(pynvml.nvmlDeviceGetUtilizationRates, handle)
        memory = _memory(handle)
        power_mw = _optional(pynvml.nvmlDeviceGetPowerUsage, handle)
        clock_mhz = _optional(pynvml.nvmlDeviceGetClockInfo, handle, pynvml.NVML_CLOCK_SM)
        return GpuLoad(
            mig_enabled=_mig_enabled(handle),
            sm_frac=utilization.gpu / 100 if utilization is not None else None,
            memory_activity_frac=utilization.memory / 100 if utilization is not None else None,
            memory_used_bytes=int(memory.used) if memory is not None else None,
            power_w=power_mw / 1000 if power_mw is not None else None,
            temperature_c=_temperature_c(handle),
            sm_clock_hz=clock_mhz * 1e6 if clock_mhz is not None else None,
            throttle_reasons=_throttle_reasons(handle),
            ecc_uncorrected_count=_optional(
                pynvml.nvmlDeviceGetTotalEccErrors,
                handle,
                pynvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED,
                pynvml.NVML_VOLATILE_ECC,
            ),
            **self._traffic(handle),
        )

    def _jobs_on(self, handle: Handle | None) -> JobBytes | None:
        if handle is None:
            return None
        for _ in range(_LISTINGS):
            listed_s = time.clock_gettime(time.CLOCK_BOOTTIME)
            try:
                used_bytes = used_bytes_by_process(handle)
            except pynvml.NVMLError:
                return None  # a lost GPU shows in its load
            found = by_job(used_bytes, listed_s, _PROC)
            if found is not None or None in used_bytes.values():
                return found
        return None

    def _traffic(self, handle: Handle) -> dict[str, Any]:
        fields = [
            ("nvlink_tx_bytes", (pynvml.NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_TX, _ALL_LANES), 1024),
            ("nvlink_rx_bytes", (pynvml.NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_RX, _ALL_LANES), 1024),
        ]
        monitor = self._monitors.get(address(handle))
        if self._pcie is PcieSource.COUNTERS and monitor is None:
            fields += [
                ("pcie_tx_bytes", (pynvml.NVML_FI_DEV_PCIE_COUNT_TX_BYTES, 0), 1),
                ("pcie_rx_bytes", (pynvml.NVML_FI_DEV_PCIE_COUNT_RX_BYTES, 0), 1),
            ]
        asked = [field for _, field, _ in fields]
        answers = _optional(pynvml.nvmlDeviceGetFieldValues, handle, asked) or ()
        traffic: dict[str, Any] = {
            name: count * unit_bytes
            for (name, _, unit_bytes), answer in zip(fields, answers, strict=False)
            if (count := _counter(answer)) is not None
        }
        if monitor is not None:
            traffic |= _optional(monitor.read) or {}
        if self._pcie is PcieSource.BLOCKING:
            for name, direction in (
                ("pcie_tx_bytes_per_s", pynvml.NVML_PCIE_UTIL_TX_BYTES),
                ("pcie_rx_bytes_per_s", pynvml.NVML_PCIE_UTIL_RX_BYTES),
            ):
                rate = _optional(pynvml.nvmlDeviceGetPcieThroughput, handle, direction)
                traffic[name] = rate * 1000.0 if rate is not None else None
        return traffic


def _optional(call: Callable[..., T], *arguments: Any) -> T | None:
    """Ask for something that this driver or GPU may not know."""
    try:
        return call(*arguments)
    except pynvml.NVMLError as error:
        if error.value in (pynvml.NVML_ERROR_GPU_IS_LOST, pynvml.NVML_ERROR_RESET_REQUIRED):
            raise _GpuLost from error
        return None


def _attempt(call: Callable[..., T], *arguments: Any) -> T | None:
    """Return a call's answer, or None after any error of NVML.

    A lost GPU is no reason to stop here: which one is lost shows when each is read by itself.
    """
    try:
        return call(*arguments)
    except pynvml.NVMLError:
        return None


def _sysfs_address(pci: Any) -> str | None:
    """Return a PCI address as sysfs writes it: NVML's 00000000:17:00.0 is 0000:17:00.0 there."""
    if pci is None:
        return None
    text = pci.busId.decode() if isinstance(pci.busId, bytes) else str(pci.busId)
    domain, _, rest = text.lower().partition(":")
    return f"{int(domain, 16):04x}:{rest}" if rest else None


def _mig_enabled(handle: Handle) -> bool | None:
    modes = _optional(pynvml.nvmlDeviceGetMigMode, handle)  # the present one, the next one
    return modes[0] == pynvml.NVML_DEVICE_MIG_ENABLE if modes is not None else None


def _memory(handle: Handle) -> Any:
    # Version 2 leaves out what the driver reserves for itself; drivers before 510 have only 1.
    newer = _optional(pynvml.nvmlDeviceGetMemoryInfo, handle, pynvml.nvmlMemory_v2)
    return newer if newer is not None else _optional(pynvml.nvmlDeviceGetMemoryInfo, handle)


def _temperature_c(handle: Handle) -> float | None:
    # The first is new in driver 565, the second deprecated since.
    newer = _optional(pynvml.nvmlDeviceGetTemperatureV, handle, pynvml.NVML_TEMPERATURE_GPU)
    if newer is None:
        newer = _optional(pynvml.nvmlDeviceGetTemperature, handle, pynvml.NVML_TEMPERATURE_GPU)
    return float(newer) if newer is not None else None


def _throttle_reasons(handle: Handle) -> int | None:
    newer = _optional(pynvml.nvmlDeviceGetCurrentClocksEventReasons, handle)  # driver 535
    if newer is not None:
        return int(newer)
    older = _optional(pynvml.nvmlDeviceGetCurrentClocksThrottleReasons, handle)
    return int(older) if older is not None else None


def _counter(answer: Any) -> int | None:
    # A counter of 32 bits wraps within a second at PCIe and NVLink rates, so it is not used; of an
    # H200 the PCIe counters are such ones.
    if answer.nvmlReturn or answer.valueType != pynvml.NVML_VALUE_TYPE_UNSIGNED_LONG_LONG:
        return None
    return int(answer.value.ullVal)


def _numa_nodes(handle: Handle) -> tuple[int, ...]:
    # Not nvmlDeviceGetNumaNodeId: that is the NUMA node formed by the GPU's own memory, if any.
    words = _optional(
        pynvml.nvmlDeviceGetMemoryAffinity, handle, 4, pynvml.NVML_AFFINITY_SCOPE_NODE
    )
    return tuple(_bits(words)) if words is not None else ()


def _cpu_affinity(handle: Handle) -> str | None:
    words = _optional(pynvml.nvmlDeviceGetCpuAffinity, handle, _AFFINITY_WORDS)
    return (format_cpu_list(_bits(words)) or None) if words is not None else None


def _bits(words: Any) -> list[int]:
    return [
        64 * position + bit
        for position, word in enumerate(words)
        if word
        for bit in range(64)
        if word >> bit & 1
    ]


def _lanes(handle: Handle) -> tuple[LaneFacts, ...]:
    lanes = list[LaneFacts]()
    for number in range(pynvml.NVML_NVLINK_MAX_LINKS):
        active = _optional(pynvml.nvmlDeviceGetNvLinkState, handle, number)
        if active is None:
            break  # no such lane, nor any above it
        if active != pynvml.NVML_FEATURE_ENABLED:
            continue
        pci = _optional(pynvml.nvmlDeviceGetNvLinkRemotePciInfo, handle, number)
        device = _optional(pynvml.nvmlDeviceGetNvLinkRemoteDeviceType, handle, number)
        lanes.append(
            LaneFacts(
                remote=_LANE_ENDS.get(device, LaneEnd.UNKNOWN),
                remote_bus_id=_sysfs_address(pci),
            )
        )
    return tuple(lanes)
