"""Readings of the driver, in base units: the messages from the NVML process to the probe.

None means that the driver did not report a value; 0 is always a reported 0.
"""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, TypeAlias

from roost_probe.driver.job_memory import JobBytes
from roost_probe.errors import DriverFault


class LaneEnd(StrEnum):
    """What sits at the far end of an NVLink lane."""

    GPU = "gpu"
    SWITCH = "switch"
    OTHER = "other"  # a POWER9 processor
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class LaneFacts:
    """One active NVLink lane."""

    remote: LaneEnd
    remote_bus_id: str | None  # None: the driver hides it, as in some virtual machines


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuFacts:
    """What does not change while a GPU works. A lost GPU has empty names."""

    uuid: str = ""
    pci_bus_id: str = ""  # as in sysfs: "0000:17:00.0"
    model: str = ""
    memory_bytes: int | None = None
    minor_number: int | None = None
    numa_nodes: tuple[int, ...] = ()
    cpu_affinity: str | None = None  # Linux list format
    mig_enabled: bool | None = None
    lanes: tuple[LaneFacts, ...] = ()
    levels: tuple[int | None, ...] = ()  # [gpu]: nvmlGpuTopologyLevel_t


@dataclass(frozen=True, slots=True, kw_only=True)
class DriverFacts:
    """The GPUs of the node, in NVML index order."""

    driver_version: str | None = None
    gpus: tuple[GpuFacts, ...] = ()
    problems: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuLoad:
    """One GPU at one moment. Counters count since the driver was loaded."""

    lost: bool = False
    mig_enabled: bool | None = None  # a fact that people change while the probe runs
    sm_frac: float | None = None
    memory_activity_frac: float | None = None
    memory_used_bytes: int | None = None
    power_w: float | None = None
    temperature_c: float | None = None
    sm_clock_hz: float | None = None
    throttle_reasons: int | None = None
    ecc_uncorrected_count: int | None = None
    pcie_tx_bytes: int | None = None
    pcie_rx_bytes: int | None = None
    nvlink_tx_bytes: int | None = None
    nvlink_rx_bytes: int | None = None
    # Present only from the performance monitor, or where the blocking call is configured.
    pcie_tx_bytes_per_s: float | None = None
    pcie_rx_bytes_per_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DriverLoad:
    """All GPUs at one moment, in NVML index order."""

    at_s: float  # monotonic clock of this machine
    gpus: tuple[GpuLoad, ...] = ()
    xids: tuple[tuple[int, int], ...] = ()  # (GPU index, code) since the last reading


@dataclass(frozen=True, slots=True, kw_only=True)
class JobMemory:
    """What Slurm jobs use of the memory of GPUs.

    Attributes:
        gpus: [gpu] in NVML index order; None: not read, or not known of all its processes.
    """

    gpus: tuple[JobBytes | None, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Unavailable:
    """The driver cannot be used at all, and why."""

    problem: str


Reading: TypeAlias = DriverFacts | DriverLoad | JobMemory | Unavailable


def encode(reading: Reading) -> bytes:
    """Write a reading as one line."""
    # Not dataclasses.asdict, which copies deeply and costs more than the driver calls.
    return json.dumps(reading, default=_as_dict, separators=(",", ":")).encode() + b"\n"


def decode_facts(line: bytes) -> DriverFacts:
    """Read the line that `encode` wrote.

    Raises:
        DriverFault: the driver is unavailable, or the line is damaged.
    """
    with _nonsense_is_a_fault():
        fields = _parse(line)
        return DriverFacts(
            driver_version=fields["driver_version"],
            gpus=tuple(_gpu_facts(gpu) for gpu in fields["gpus"]),
            problems=tuple(fields["problems"]),
        )


def decode_load(line: bytes) -> DriverLoad:
    """Read a line with load; raises as `decode_facts` does."""
    with _nonsense_is_a_fault():
        fields = _parse(line)
        return DriverLoad(
            at_s=fields["at_s"],
            gpus=tuple(GpuLoad(**gpu) for gpu in fields["gpus"]),
            xids=tuple((gpu, code) for gpu, code in fields["xids"]),
        )


def decode_job_memory(line: bytes) -> JobMemory:
    """Read a line with the memory of jobs; raises as `decode_facts` does."""
    with _nonsense_is_a_fault():
        fields = _parse(line)
        return JobMemory(
            gpus=tuple(
                None
                if jobs is None
                else tuple((int(job), int(used), int(user_id)) for job, used, user_id in jobs)
                for jobs in fields["gpus"]
            )
        )


@contextmanager
def _nonsense_is_a_fault() -> Iterator[None]:
    try:
        yield
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise DriverFault(f"the NVML process answered nonsense: {error!r}") from error


def _as_dict(value: object) -> dict[str, object]:
    names: tuple[str, ...] = getattr(value, "__slots__", ())
    return {name: getattr(value, name) for name in names}


def _parse(line: bytes) -> dict[str, Any]:
    fields = json.loads(line)
    if not isinstance(fields, dict):
        raise TypeError(fields)
    if "problem" in fields:
        raise DriverFault(str(fields["problem"]))
    return fields


def _gpu_facts(fields: dict[str, Any]) -> GpuFacts:
    sequences = {
        "numa_nodes": tuple(fields["numa_nodes"]),
        "levels": tuple(fields["levels"]),
        "lanes": tuple(_lane_facts(lane) for lane in fields["lanes"]),
    }
    return GpuFacts(**{**fields, **sequences})


def _lane_facts(fields: dict[str, Any]) -> LaneFacts:
    return LaneFacts(remote=LaneEnd(fields["remote"]), remote_bus_id=fields["remote_bus_id"])
