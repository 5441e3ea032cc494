"""The memory that the fake driver and its tests share, mirrored from fake_nvml.c."""

import ctypes
import mmap
import os
from collections.abc import Iterator
from contextlib import contextmanager
from enum import IntEnum
from pathlib import Path
from typing import Self

MAX_GPUS = 32
MAX_LANES = 36  # NVML_NVLINK_MAX_LINKS
MAX_FAULTS = 32
MAX_XIDS = 64
MAX_PROCESSES = 300
UNKNOWN_BYTES = (1 << 64) - 1  # NVML_VALUE_NOT_AVAILABLE
CPU_WORDS = 32
MAGIC = 0x524F4F53
ANY_GPU = -1
MIG_UNKNOWN = -1


class FaultKind(IntEnum):
    """What an injected fault does to a call."""

    RETURN = 1  # the call returns `code`
    HANG = 2  # the call never returns
    CRASH = 3  # the call dereferences a null pointer: SIGSEGV


class Counter(ctypes.Structure):
    """A byte counter that grows by itself from `since_ns` (CLOCK_MONOTONIC)."""

    base_bytes: int
    since_ns: int
    bytes_per_s: float
    _fields_ = (
        ("base_bytes", ctypes.c_uint64),
        ("since_ns", ctypes.c_uint64),
        ("bytes_per_s", ctypes.c_double),
    )


class Lane(ctypes.Structure):
    """One NVLink lane. remote_type: 0 GPU, 2 switch (NVML_NVLINK_DEVICE_TYPE_*)."""

    active: int
    remote_type: int
    remote_bus_id: bytes
    _fields_ = (
        ("active", ctypes.c_uint32),
        ("remote_type", ctypes.c_uint32),
        ("remote_bus_id", ctypes.c_char * 32),
    )


class ProcessState(ctypes.Structure):
    """One process on a GPU; used_bytes may be UNKNOWN_BYTES."""

    pid: int
    is_mps_client: int
    used_bytes: int
    _fields_ = (
        ("pid", ctypes.c_uint32),
        ("is_mps_client", ctypes.c_uint32),
        ("used_bytes", ctypes.c_uint64),
    )


class GpuState(ctypes.Structure):
    """One GPU, in the units of NVML."""

    uuid: bytes
    name: bytes
    bus_id: bytes
    domain: int
    bus: int
    device: int
    minor_number: int
    mig_mode: int
    lost: int
    memory_affinity: int
    cpu_affinity: ctypes.Array[ctypes.c_uint64]
    memory_total_bytes: int
    memory_used_bytes: int
    memory_reserved_bytes: int
    sm_percent: int
    memory_percent: int
    power_mw: int
    temperature_c: int
    sm_clock_mhz: int
    lane_count: int
    throttle_reasons: int
    ecc_uncorrected_count: int
    counter_version: int
    level: ctypes.Array[ctypes.c_uint32]
    lanes: ctypes.Array[Lane]
    process_count: int
    processes: ctypes.Array[ProcessState]
    _fields_ = (
        ("uuid", ctypes.c_char * 96),
        ("name", ctypes.c_char * 96),
        ("bus_id", ctypes.c_char * 32),
        ("domain", ctypes.c_uint32),
        ("bus", ctypes.c_uint32),
        ("device", ctypes.c_uint32),
        ("minor_number", ctypes.c_uint32),
        ("mig_mode", ctypes.c_int32),
        ("lost", ctypes.c_uint32),
        ("memory_affinity", ctypes.c_uint64),
        ("cpu_affinity", ctypes.c_uint64 * CPU_WORDS),
        ("memory_total_bytes", ctypes.c_uint64),
        ("memory_used_bytes", ctypes.c_uint64),
        ("memory_reserved_bytes", ctypes.c_uint64),
        ("sm_percent", ctypes.c_uint32),
        ("memory_percent", ctypes.c_uint32),
        ("power_mw", ctypes.c_uint32),
        ("temperature_c", ctypes.c_uint32),
        ("sm_clock_mhz", ctypes.c_uint32),
        ("lane_count", ctypes.c_uint32),
        ("throttle_reasons", ctypes.c_uint64),
        ("ecc_uncorrected_count", ctypes.c_uint64),
        ("counter_version", ctypes.c_uint64),
        ("pcie_tx", Counter),
        ("pcie_rx", Counter),
        ("nvlink_tx", Counter),
        ("nvlink_rx", Counter),
        ("level", ctypes.c_uint32 * MAX_GPUS),
        ("lanes", Lane * MAX_LANES),
        ("process_count", ctypes.c_uint32),
        ("pad", ctypes.c_uint32),
        ("processes", ProcessState * MAX_PROCESSES),
    )


class FaultState(ctypes.Structure):
    """One injected fault: a call by its exported name, or `field/138` for one field id."""

    call: bytes
    gpu: int
    kind: int
    code: int
    _fields_ = (
        ("call", ctypes.c_char * 64),
        ("gpu", ctypes.c_int32),
        ("kind", ctypes.c_uint32),
        ("code", ctypes.c_uint32),
        ("pad", ctypes.c_uint32),
    )


class XidState(ctypes.Structure):
    """One XID event."""

    gpu: int
    code: int
    _fields_ = (("gpu", ctypes.c_uint32), ("code", ctypes.c_uint32))


class DriverState(ctypes.Structure):
    """The whole node."""

    magic: int
    struct_size: int
    gpu_count: int
    init_error: int
    driver_version: bytes
    calls: int
    xid_count: int
    xids: ctypes.Array[XidState]
    fault_count: int
    faults: ctypes.Array[FaultState]
    gpus: ctypes.Array[GpuState]
    _fields_ = (
        ("magic", ctypes.c_uint32),
        ("struct_size", ctypes.c_uint32),
        ("gpu_count", ctypes.c_uint32),
        ("init_error", ctypes.c_uint32),
        ("driver_version", ctypes.c_char * 80),
        ("calls", ctypes.c_uint64),
        ("xid_count", ctypes.c_uint64),
        ("xids", XidState * MAX_XIDS),
        ("fault_count", ctypes.c_uint32),
        ("pad", ctypes.c_uint32),
        ("faults", FaultState * MAX_FAULTS),
        ("gpus", GpuState * MAX_GPUS),
    )


class StateFile:
    """A state file, mapped. Running probes read changes of `driver` at once."""

    def __init__(self, path: Path) -> None:
        self.path = path
        with path.open("r+b") as file:
            size_bytes = os.fstat(file.fileno()).st_size
            if size_bytes != ctypes.sizeof(DriverState):
                raise ValueError(
                    f"{path}: {size_bytes} bytes, want {ctypes.sizeof(DriverState)}; "
                    "create it anew with this version of roost"
                )
            self._map = mmap.mmap(file.fileno(), size_bytes)
        self.driver = DriverState.from_buffer(self._map)

    @classmethod
    def create(cls, path: Path) -> Self:
        """Make a zeroed state file. It counts as a driver once `publish` was called."""
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("wb") as file:
            file.truncate(ctypes.sizeof(DriverState))
        path.chmod(0o666)  # the library maps it for writing, as any user
        return cls(path)

    def publish(self) -> None:
        """Let the library accept the state; until then nvmlInit fails."""
        self.driver.struct_size = ctypes.sizeof(DriverState)
        self.driver.magic = MAGIC

    @contextmanager
    def writing_counters(self, gpu: GpuState) -> Iterator[None]:
        """Make readers of the GPU's counters wait while they change."""
        gpu.counter_version += 1
        try:
            yield
        finally:
            gpu.counter_version += 1

    def close(self) -> None:
        """Unmap. Objects taken from `driver` must be gone, or the map stays until they are."""
        del self.driver
        try:
            self._map.close()
        except BufferError:
            return  # the map goes with its last user
