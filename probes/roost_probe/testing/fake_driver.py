"""A node with fake GPUs: the fake driver, made from a description and changed while it runs."""

import hashlib
import os
import time
import uuid
from collections.abc import Collection, Mapping
from dataclasses import fields
from pathlib import Path
from typing import Self, TypeVar

from roost_engine.domain.topology import Level
from roost_probe.testing.description import (
    Fault,
    FaultSpec,
    GpuSettings,
    NodeDescription,
    load_topology,
    merge,
)
from roost_probe.testing.errors import DescriptionError
from roost_probe.testing.layout import Lane, Layout, lay_out
from roost_probe.testing.library import build_library
from roost_probe.testing.matrix import expand
from roost_probe.testing.state import (
    ANY_GPU,
    MAX_FAULTS,
    MAX_PROCESSES,
    MAX_XIDS,
    UNKNOWN_BYTES,
    Counter,
    FaultKind,
    GpuState,
    StateFile,
)
from roost_probe.testing.sysfs import write_sysfs

T = TypeVar("T")

ERROR_NOT_SUPPORTED = 3
ERROR_DRIVER_NOT_LOADED = 9
DEVICE_GPU, DEVICE_SWITCH = 0, 2

_NVML_LEVELS = {
    Level.INTERNAL: 0,
    Level.SINGLE_SWITCH: 10,
    Level.MULTIPLE_SWITCHES: 20,
    Level.HOST_BRIDGE: 30,
    Level.NUMA_NODE: 40,
    Level.SYSTEM: 50,
}

# The calls that a driver refuses when it does not support a quantity.
QUANTITY_CALLS = {
    "utilization": ("nvmlDeviceGetUtilizationRates",),
    "memory": ("nvmlDeviceGetMemoryInfo", "nvmlDeviceGetMemoryInfo_v2"),
    "power": ("nvmlDeviceGetPowerUsage",),
    "temperature": ("nvmlDeviceGetTemperature", "nvmlDeviceGetTemperatureV"),
    "pcie": (
        "nvmlDeviceGetPcieThroughput",
        "nvmlGpmQueryDeviceSupport",
        "nvmlGpmSampleGet",
        "field/197",
        "field/198",
    ),
    "nvlink": ("field/138", "field/139"),
    "sm_clock": ("nvmlDeviceGetClockInfo",),
    "throttle_reasons": (
        "nvmlDeviceGetCurrentClocksEventReasons",
        "nvmlDeviceGetCurrentClocksThrottleReasons",
    ),
    "ecc": ("nvmlDeviceGetTotalEccErrors",),
    "minor_number": ("nvmlDeviceGetMinorNumber",),
    "mig": ("nvmlDeviceGetMigMode",),
    "cpu_affinity": ("nvmlDeviceGetCpuAffinity",),
    "numa": ("nvmlDeviceGetMemoryAffinity",),
    "events": ("nvmlDeviceRegisterEvents",),
    "processes": ("nvmlDeviceGetComputeRunningProcesses_v3",),
}


class FakeDriver:
    """Writes the state that the fake libnvidia-ml.so.1 answers from.

    Several may be attached to one state file, in any process; the probe
    reads a value that any of them has set in its next call.
    """

    def __init__(self, file: StateFile) -> None:
        self._file = file
        self._state = file.driver

    @classmethod
    def create(
        cls, description: NodeDescription, state_path: Path, seed: str | None = None
    ) -> Self:
        """Make the state file of a node.

        Args:
            description: the node.
            state_path: the file; overwritten.
            seed: what UUIDs are made from; the path if not given. Name the node to make the
                UUIDs of several machines differ.

        Raises:
            DescriptionError: the topology cannot be wired, or a fault makes no sense.
        """
        driver = cls(StateFile.create(state_path))
        layout = lay_out(description.topology, description.nvswitch)
        driver._fill(description, layout, seed or str(state_path.resolve()))
        driver._file.publish()
        for fault in description.faults:
            driver.inject(fault)
        return driver

    @classmethod
    def of_topology(cls, name: str, state_path: Path, seed: str | None = None) -> Self:
        """Return an idle node with a sample topology, or one from a file."""
        return cls.create(NodeDescription(topology=load_topology(name)), state_path, seed)

    @classmethod
    def attach(cls, state_path: Path) -> Self:
        """Open the state of a node that exists.

        Raises:
            DescriptionError: there is none, or an incompatible one.
        """
        try:
            return cls(StateFile(state_path))
        except (OSError, ValueError) as error:
            raise DescriptionError(f"cannot open the driver state: {error}") from error

    @property
    def gpu_count(self) -> int:
        """How many GPUs the node has."""
        return self._state.gpu_count

    @property
    def call_count(self) -> int:
        """Calls that probes have made so far."""
        return self._state.calls

    def environment(self, library_folder: Path) -> dict[str, str]:
        """Return variables that make a process load this driver; builds a missing library."""
        build_library(library_folder)
        inherited = os.environ.get("LD_LIBRARY_PATH")
        folders = [str(library_folder), *([inherited] if inherited else [])]
        return {
            "ROOST_FAKE_NVML_STATE": str(self._file.path.resolve()),
            "LD_LIBRARY_PATH": ":".join(folders),
        }

    def set(self, gpu: int, settings: GpuSettings) -> None:
        """Change one GPU. Settings that are None stay."""
        state = self._gpu(gpu)
        for name, value in _to_nvml(settings).items():
            setattr(state, name, value)
        rates = {
            "pcie_tx": settings.pcie_tx_bytes_per_s,
            "pcie_rx": settings.pcie_rx_bytes_per_s,
            "nvlink_tx": settings.nvlink_tx_bytes_per_s,
            "nvlink_rx": settings.nvlink_rx_bytes_per_s,
        }
        with self._file.writing_counters(state):
            for name, rate in rates.items():
                if rate is not None:
                    _set_rate(getattr(state, name), rate)

    def set_processes(
        self, gpu: int, used_bytes: Mapping[int, int | None], mps_clients: Collection[int] = ()
    ) -> None:
        """Let these processes be on a GPU, in place of those before.

        Args:
            gpu: the GPU.
            used_bytes: by process id; None: the driver does not say.
            mps_clients: which of them are clients of an MPS server.
        """
        state = self._gpu(gpu)
        if len(used_bytes) > MAX_PROCESSES:
            raise DescriptionError(f"{len(used_bytes)} processes; at most {MAX_PROCESSES}")
        for slot, (pid, used) in zip(state.processes, used_bytes.items(), strict=False):
            slot.pid, slot.is_mps_client = pid, int(pid in mps_clients)
            slot.used_bytes = UNKNOWN_BYTES if used is None else used
        state.process_count = len(used_bytes)

    def inject(self, fault: FaultSpec) -> None:
        """Break something.

        Raises:
            DescriptionError: the fault lacks what its kind needs.
        """
        match fault.kind:
            case Fault.LOST:
                self.lose(_need(fault.gpu, fault, "gpu"))
            case Fault.XID:
                self.raise_xid(_need(fault.gpu, fault, "gpu"), _need(fault.code, fault, "code"))
            case Fault.INIT:
                self.fail_init(fault.code or ERROR_DRIVER_NOT_LOADED)
            case Fault.HANG:
                self._add(_need(fault.call, fault, "call"), fault.gpu, FaultKind.HANG)
            case Fault.CRASH:
                self._add(_need(fault.call, fault, "call"), fault.gpu, FaultKind.CRASH)
            case Fault.ERROR:
                code = _need(fault.code, fault, "code")
                self._add(_need(fault.call, fault, "call"), fault.gpu, FaultKind.RETURN, code)
            case Fault.ABSENT:
                self.hide(_need(fault.quantity, fault, "quantity"), fault.gpu)

    def lose(self, gpu: int) -> None:
        """Let a GPU fall off the bus: every call on it returns NVML_ERROR_GPU_IS_LOST."""
        self._gpu(gpu).lost = 1

    def restore(self, gpu: int) -> None:
        """Bring it back."""
        self._gpu(gpu).lost = 0

    def hang(self, call: str, gpu: int | None = None) -> None:
        """Let a call never return. Calls that hang already stay hanging when it is cleared."""
        self._add(call, gpu, FaultKind.HANG)

    def crash(self, call: str, gpu: int | None = None) -> None:
        """Let a call end its process with SIGSEGV."""
        self._add(call, gpu, FaultKind.CRASH)

    def hide(self, quantity: str, gpu: int | None = None) -> None:
        """Make the driver refuse a quantity (NVML_ERROR_NOT_SUPPORTED).

        Raises:
            DescriptionError: no such quantity.
        """
        if quantity not in QUANTITY_CALLS:
            raise DescriptionError(
                f"no quantity {quantity!r}; known are {', '.join(QUANTITY_CALLS)}"
            )
        for call in QUANTITY_CALLS[quantity]:
            self._add(call, gpu, FaultKind.RETURN, ERROR_NOT_SUPPORTED)

    def fail_init(self, code: int = ERROR_DRIVER_NOT_LOADED) -> None:
        """Let nvmlInit fail; 0 lets it succeed again."""
        self._state.init_error = code

    def raise_xid(self, gpu: int, code: int) -> None:
        """Report an XID event to every probe that listens."""
        self._gpu(gpu)
        slot = self._state.xids[self._state.xid_count % MAX_XIDS]
        slot.gpu, slot.code = gpu, code
        self._state.xid_count += 1

    def clear_faults(self) -> None:
        """Clear every injected fault."""
        self._state.fault_count = 0
        self._state.init_error = 0
        for gpu in range(self.gpu_count):
            self.restore(gpu)

    def close(self) -> None:
        """Unmap the state file; the file stays, as do drivers that other processes opened."""
        del self._state
        self._file.close()

    def _gpu(self, gpu: int) -> GpuState:
        if not 0 <= gpu < self.gpu_count:
            raise DescriptionError(f"gpu {gpu}: the node has GPUs 0 to {self.gpu_count - 1}")
        return self._state.gpus[gpu]

    def _add(self, call: str, gpu: int | None, kind: FaultKind, code: int = 0) -> None:
        count = self._state.fault_count
        if count == MAX_FAULTS:
            raise DescriptionError(f"more than {MAX_FAULTS} faults; clear some first")
        slot = self._state.faults[count]
        slot.call, slot.kind, slot.code = call.encode(), kind, code
        slot.gpu = ANY_GPU if gpu is None else gpu
        self._state.fault_count = count + 1

    def _fill(self, description: NodeDescription, layout: Layout, seed: str) -> None:
        state, topology = self._state, description.topology
        state.driver_version = description.driver_version.encode()
        state.gpu_count = len(layout.gpus)
        for index, place in enumerate(layout.gpus):
            gpu = state.gpus[index]
            gpu.name = description.model.encode()
            gpu.uuid = _gpu_uuid(seed, index).encode()
            gpu.bus_id = _nvml_bus_id(place.address).encode()
            gpu.bus = int(place.address.split(":")[1], 16)
            minors = description.minor_numbers
            gpu.minor_number = minors[index] if minors is not None else index
            gpu.memory_affinity = sum(1 << node for node in topology.numa_nodes[index])
            for cpu in expand(topology.cpu_affinities[index]):
                gpu.cpu_affinity[cpu // 64] |= 1 << cpu % 64
            for other, level in enumerate(layout.levels[index]):
                gpu.level[other] = _NVML_LEVELS[level]
            _wire(gpu, layout.lanes[index], layout)
            self.set(index, merge(description.load, description.gpus.get(index, GpuSettings())))


def make_sysfs(description: NodeDescription, root: Path) -> None:
    """Write the /sys of a described node below `root`, for `roost-probe --sysfs-root`."""
    write_sysfs(
        root,
        lay_out(description.topology, description.nvswitch),
        description.topology.nic_names,
    )


def _wire(gpu: GpuState, lanes: tuple[Lane, ...], layout: Layout) -> None:
    gpu.lane_count = len(lanes)
    for number, lane in enumerate(lanes):
        slot = gpu.lanes[number]
        slot.active = 1
        if lane.peer is None:
            slot.remote_type = DEVICE_SWITCH
            slot.remote_bus_id = (lane.switch_bus_id or "").encode()
        else:
            slot.remote_type = DEVICE_GPU
            slot.remote_bus_id = _nvml_bus_id(layout.gpus[lane.peer].address).encode()


def _nvml_bus_id(address: str) -> str:
    return f"0000{address.upper()}"  # NVML writes eight digits of domain, sysfs four


def _gpu_uuid(seed: str, index: int) -> str:
    digest = hashlib.sha256(f"{seed}/{index}".encode()).digest()
    return f"GPU-{uuid.UUID(bytes=digest[:16], version=4)}"


def _to_nvml(settings: GpuSettings) -> dict[str, int]:
    """The plain settings in NVML's units; rates are counters and not among them."""
    scale = {
        "sm_frac": ("sm_percent", 100.0),
        "memory_activity_frac": ("memory_percent", 100.0),
        "memory_bytes": ("memory_total_bytes", 1.0),
        "memory_used_bytes": ("memory_used_bytes", 1.0),
        "memory_reserved_bytes": ("memory_reserved_bytes", 1.0),
        "power_w": ("power_mw", 1e3),
        "temperature_c": ("temperature_c", 1.0),
        "sm_clock_hz": ("sm_clock_mhz", 1e-6),
        "throttle_reasons": ("throttle_reasons", 1.0),
        "ecc_uncorrected_count": ("ecc_uncorrected_count", 1.0),
        "minor_number": ("minor_number", 1.0),
        "mig_enabled": ("mig_mode", 1.0),
    }
    given = {f.name: getattr(settings, f.name) for f in fields(settings)}
    return {
        to: int(value) if factor == 1.0 else round(value * factor)
        for name, (to, factor) in scale.items()
        if (value := given[name]) is not None
    }


def _set_rate(counter: Counter, bytes_per_s: float) -> None:
    now_ns = time.monotonic_ns()
    if counter.since_ns:
        elapsed_s = max(0, now_ns - counter.since_ns) * 1e-9
        counter.base_bytes += int(elapsed_s * counter.bytes_per_s)
    counter.since_ns, counter.bytes_per_s = now_ns, bytes_per_s


def _need(value: T | None, fault: FaultSpec, name: str) -> T:
    if value is None:
        raise DescriptionError(f"fault {fault.kind}: {name} is missing")
    return value
