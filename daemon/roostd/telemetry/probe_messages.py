"""The probes' messages, checked and turned into Roost's terms.

A probe numbers GPUs as NVML does; Slurm numbers them by gres index, which is the order of their
/dev/nvidiaN numbers. All results of this module are in gres order
(docs/design/0004-gpu-numbering.md).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from roost_engine.domain.errors import ProbeError
from roost_engine.domain.model import GpuUuid, NodeName
from roost_engine.domain.topology import Level, Link, LinkMatrix
from roost_proto.v1 import telemetry_pb2 as pb

SCHEMA_VERSION = 1
MAX_GPUS = 64  # bits of a presence mask

_TEXT_LIMIT = 256
_NIC_LIMIT = 64
_PROBLEM_LIMIT = 64
_JOB_MEMORY_LIMIT = 1_024  # entries; two jobs and a few leftovers on each of 64 GPUs are 300

# Values beyond these are an error of a driver or a probe: five times NVLink 5, ten times a GPU's
# power, and a little over 1 for rounding.
_MAX_FRAC = 1.01
_MAX_BYTES_PER_S = 1e13
_MAX_POWER_W = 10_000.0
_MAX_TEMPERATURE_C = 200.0
_MAX_CLOCK_HZ = 1e11
_MAX_MEMORY_BYTES = 1 << 46
FLOAT_LIMITS = {
    "sm_frac": _MAX_FRAC,
    "memory_activity_frac": _MAX_FRAC,
    "power_w": _MAX_POWER_W,
    "temperature_c": _MAX_TEMPERATURE_C,
    "pcie_tx_bytes_per_s": _MAX_BYTES_PER_S,
    "pcie_rx_bytes_per_s": _MAX_BYTES_PER_S,
    "nvlink_tx_bytes_per_s": _MAX_BYTES_PER_S,
    "nvlink_rx_bytes_per_s": _MAX_BYTES_PER_S,
    "sm_clock_hz": _MAX_CLOCK_HZ,
}
_UINT_LIMITS = {
    "memory_used_bytes": _MAX_MEMORY_BYTES,
    "ecc_uncorrected_count": 1 << 62,
}

_GPU_LIMITS: dict[str, float] = {**FLOAT_LIMITS, **_UINT_LIMITS}
_NIC_LIMITS = dict.fromkeys(("nic_tx_bytes_per_s", "nic_rx_bytes_per_s"), _MAX_BYTES_PER_S)
_FIELDS = pb.Sample.DESCRIPTOR.fields_by_name
# The columns by their field numbers: name, limit, and whether there is a value for each NIC.
_COLUMNS = {
    _FIELDS[name].number: (name, limit, name in _NIC_LIMITS)
    for name, limit in (_GPU_LIMITS | _NIC_LIMITS).items()
}

# After these a GPU must not get jobs until it has been reset (NVIDIA's XID catalogue): double bit
# ECC, NVLink, fallen off the bus, uncontained ECC, GSP and its RPC.
FATAL_XIDS = frozenset({48, 74, 79, 95, 119, 120, 140})

_Column: TypeAlias = pb.FloatColumn | pb.UintColumn


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeHello:
    """What does not change of a node while its probe runs.

    Attributes:
        gpus: the probe's messages, in gres order, while Gpu.index stays NVML's; empty where the
            driver is missing or does not start, which `problems` then states.
        order: order[gres index] is the NVML index.
        links: in gres order.
        nvswitch_pairs: pairs of gres indices whose lanes go through an NVSwitch.
        lane_counts: NVLink lanes of each GPU, in gres order.
        nearest_nics: positions in `nics` of the cards closest to each GPU, in gres order; only
            cards with a known speed.
        problems: what the probe could not find out, for a human.
    """

    node: NodeName
    session_id: str
    probe_version: str
    gpus: tuple[pb.Gpu, ...]
    order: tuple[int, ...]
    links: LinkMatrix
    nvswitch_pairs: frozenset[tuple[int, int]]
    lane_counts: tuple[int, ...]
    nearest_nics: tuple[tuple[int, ...], ...]
    nics: tuple[pb.Nic, ...]
    problems: tuple[str, ...]

    @property
    def gpu_uuids(self) -> tuple[GpuUuid, ...]:
        """In gres order."""
        return tuple(GpuUuid(gpu.uuid) for gpu in self.gpus)

    @property
    def gpu_memory_bytes(self) -> int:
        """Of the smallest GPU; 0 where that of a GPU is not known."""
        return min((gpu.memory_bytes for gpu in self.gpus), default=0)


def read_hello(message: pb.Hello) -> ProbeHello:
    """Check a Hello and renumber its GPUs.

    Raises:
        ProbeError: the Hello contradicts itself, or is of another schema version.
    """
    if message.schema_version != SCHEMA_VERSION:
        raise ProbeError(
            "schema_version",
            f"want {SCHEMA_VERSION}, got {message.schema_version}; upgrade roostd before probes",
        )
    _check_texts(message)
    count = len(message.gpus)
    if count > MAX_GPUS:
        raise ProbeError("gpus", f"want at most {MAX_GPUS}, got {count}")
    for position, gpu in enumerate(message.gpus):
        if gpu.index != position:
            raise ProbeError("gpus", f"GPU at position {position} has index {gpu.index}")
    _check_distinct("uuid", [gpu.uuid for gpu in message.gpus])
    _check_distinct("pci_bus_id", [gpu.pci_bus_id for gpu in message.gpus])
    order = gres_order(message.gpus)
    links, nvswitch_pairs = _read_links(message.links, order)
    return ProbeHello(
        node=NodeName(message.node),
        session_id=message.session_id,
        probe_version=message.probe_version,
        gpus=tuple(message.gpus[nvml] for nvml in order),
        order=order,
        links=links,
        nvswitch_pairs=nvswitch_pairs,
        lane_counts=_lane_counts(links, nvswitch_pairs),
        nearest_nics=tuple(_nearest_nics(message.nics, nvml) for nvml in order),
        nics=tuple(message.nics),
        problems=tuple(message.problems),
    )


def gres_order(gpus: Sequence[pb.Gpu]) -> tuple[int, ...]:
    """Return the NVML indices in gres order.

    That is by /dev minor number: gres.conf lists /dev/nvidia0, 1, ...; NVML orders by PCI bus id.
    The driver does not tell the number of a lost GPU. It is the one that no other GPU has: of 4
    GPUs with the numbers 3, ?, 1, 0 the lost one has 2, so the order is 3, 2, 1, 0. Several lost
    GPUs get the numbers that are left in NVML's order, which is a guess. Where two GPUs have one
    number, or a number is too high for that, the order is NVML's.
    """
    count = len(gpus)
    by_minor = {gpu.minor_number: gpu.index for gpu in gpus if gpu.HasField("minor_number")}
    lost = [gpu.index for gpu in gpus if not gpu.HasField("minor_number")]
    if len(by_minor) + len(lost) < count or (lost and any(n >= count for n in by_minor)):
        return tuple(range(count))
    left = (number for number in range(count) if number not in by_minor)
    by_minor |= dict(zip(left, lost, strict=False))
    return tuple(by_minor[number] for number in sorted(by_minor))


def check_sample(sample: pb.Sample, hello: ProbeHello) -> None:
    """Check that a sample fits the Hello and that its values are plausible.

    Raises:
        ProbeError: the number of GPUs differs, or a value is NaN, infinite, negative or beyond its
            limit.
    """
    check_shape(sample, hello)
    check_values(sample, hello)


def check_shape(sample: pb.Sample, hello: ProbeHello) -> None:
    """Check what must hold before the faults of a sample can be applied.

    Raises:
        ProbeError: the number of GPUs differs, or a fault names a GPU that is not there.
    """
    count = len(hello.gpus)
    if sample.gpu_count != count:
        raise ProbeError("gpu_count", f"want {count} as in the Hello, got {sample.gpu_count}")
    if sample.lost_mask >> count:
        raise ProbeError("lost_mask", f"names a GPU beyond {count - 1}")
    for event in sample.xid_events:
        if event.gpu_index >= count:
            raise ProbeError("xid_events", f"names GPU {event.gpu_index} of {count}")


def check_values(sample: pb.Sample, hello: ProbeHello) -> None:
    """Check the columns of a sample: it takes twenty times as long as `check_shape`.

    Raises:
        ProbeError: a value is NaN, infinite, negative or beyond its limit.
    """
    count = len(hello.gpus)
    # Columns that are not set hold nothing.
    for field, packed in sample.ListFields():
        known = _COLUMNS.get(field.number)
        if known is not None:
            name, limit, is_of_nics = known
            _check_column(name, packed, len(hello.nics) if is_of_nics else count, limit)
    if sample.process_mask or sample.job_memory:
        _check_job_memory(sample, count)


def column(packed: _Column, order: Sequence[int]) -> list[float | None]:
    """Unpack one checked quantity: [gpu] in gres order, None where the driver reported nothing."""
    mask = packed.present_mask
    if not mask:
        return [None] * len(order)
    values = iter(packed.values)
    by_nvml = [next(values) if mask >> nvml & 1 else None for nvml in range(len(order))]
    return [by_nvml[nvml] for nvml in order]


def read_load(sample: pb.Sample, order: Sequence[int]) -> NDArray[np.float32]:
    """Return the quantities that policies read.

    Returns:
        float32 [gpu, 4] in gres order, columns domain.events.LOAD_COLUMNS, NaN where unknown.
    """
    columns = (
        _reported(order, sample.sm_frac),
        _reported(order, sample.memory_activity_frac),
        _reported(order, sample.pcie_tx_bytes_per_s, sample.pcie_rx_bytes_per_s),
        _reported(order, sample.nvlink_tx_bytes_per_s, sample.nvlink_rx_bytes_per_s),
    )
    load = np.array(columns, dtype=np.float32).T
    np.minimum(load[:, :2], 1.0, out=load[:, :2])
    return load


def _reported(order: Sequence[int], *directions: _Column) -> Sequence[float]:
    """Return the sum of the directions that the driver reports: [gpu] in gres order, or NaN.

    In plain Python: for eight GPUs it takes a third of the time of numpy's calls.
    """
    found = [_values(packed, order) for packed in directions if packed.present_mask]
    if not found:
        return [math.nan] * len(order)
    return found[0] if len(found) == 1 else list(map(sum, zip(*found, strict=True)))


def _values(packed: _Column, order: Sequence[int]) -> Sequence[float]:
    """Return one checked quantity: [gpu] in gres order, NaN where the driver reported nothing."""
    if packed.present_mask == (1 << len(order)) - 1:
        values = packed.values[:]
        return [values[nvml] for nvml in order]
    return [math.nan if value is None else value for value in column(packed, order)]


def faults(sample: pb.Sample, order: Sequence[int]) -> dict[int, str]:
    """Return the GPUs that a sample reports as broken: the fault by gres index."""
    if not sample.lost_mask and not sample.xid_events:
        return {}
    gres = {nvml: index for index, nvml in enumerate(order)}
    found = {
        gres[event.gpu_index]: f"XID {event.code}"
        for event in sample.xid_events
        if event.code in FATAL_XIDS
    }
    found |= {index: "lost" for nvml, index in gres.items() if sample.lost_mask >> nvml & 1}
    return found


def _check_texts(message: pb.Hello) -> None:
    if not message.node or not message.session_id:
        raise ProbeError("node" if not message.node else "session_id", "missing")
    speeds = [nic.bytes_per_s for nic in message.nics]
    if not all(0 <= speed <= _MAX_BYTES_PER_S for speed in speeds):
        raise ProbeError("nics", f"want speeds of 0 to {_MAX_BYTES_PER_S:g} bytes/s, got {speeds}")
    if len(message.nics) > _NIC_LIMIT or len(message.problems) > _PROBLEM_LIMIT:
        raise ProbeError("nics", f"more than {_NIC_LIMIT} NICs or {_PROBLEM_LIMIT} problems")
    texts = [message.node, message.session_id, message.probe_version, *message.problems]
    texts += [text for gpu in message.gpus for text in (gpu.uuid, gpu.pci_bus_id, gpu.model)]
    texts += [text for nic in message.nics for text in (nic.name, nic.pci_bus_id)]
    longest = max(texts, key=len)
    if len(longest) > _TEXT_LIMIT:
        raise ProbeError("hello", f"text of {len(longest)} characters: {longest[:40]!r}")


def _check_distinct(quantity: str, ids: Sequence[str]) -> None:
    twice = next((one for one in ids if not one or ids.count(one) > 1), None)
    if twice is not None:
        raise ProbeError(quantity, f"{twice!r} stands twice" if twice else "missing")


def _read_links(
    sent: Sequence[pb.Link], order: Sequence[int]
) -> tuple[LinkMatrix, frozenset[tuple[int, int]]]:
    count = len(order)
    gres = {nvml: index for index, nvml in enumerate(order)}
    matrix: list[list[Link | None]] = [[None] * count for _ in range(count)]
    nvswitch_pairs = set()
    for link in sent:
        if not link.a < link.b < count:
            raise ProbeError("links", f"pair {link.a},{link.b}: want a < b < {count}")
        a, b = gres[link.a], gres[link.b]
        if matrix[a][b] is not None:
            raise ProbeError("links", f"pair {link.a},{link.b} stands twice")
        if link.level not in Level._value2member_map_:
            raise ProbeError("links", f"pair {link.a},{link.b} has level {link.level}")
        if link.nvlink_count > 99:
            raise ProbeError("links", f"pair {link.a},{link.b} has {link.nvlink_count} lanes")
        matrix[a][b] = matrix[b][a] = Link(Level(link.level), link.nvlink_count)
        if link.nvswitch:
            nvswitch_pairs.add((min(a, b), max(a, b)))
    wanted = count * (count - 1) // 2
    if len(sent) != wanted:
        raise ProbeError("links", f"want every pair of {count} GPUs, {wanted}, got {len(sent)}")
    return LinkMatrix(tuple(map(tuple, matrix))), frozenset(nvswitch_pairs)


def _lane_counts(links: LinkMatrix, nvswitch_pairs: frozenset[tuple[int, int]]) -> tuple[int, ...]:
    """Return the NVLink lanes of each GPU.

    Behind an NVSwitch every pair reports all lanes of the GPU; direct links divide the lanes.
    """
    counts = list[int]()
    for gpu, row in enumerate(links.links):
        switched = direct = 0
        for peer, link in enumerate(row):
            if link is None:
                continue
            if (min(gpu, peer), max(gpu, peer)) in nvswitch_pairs:
                switched = max(switched, link.nvlink_count)
            else:
                direct += link.nvlink_count
        counts.append(switched + direct)
    return tuple(counts)


def _nearest_nics(nics: Sequence[pb.Nic], nvml: int) -> tuple[int, ...]:
    levels = {
        position: nic.gpu_levels[nvml]
        for position, nic in enumerate(nics)
        if nic.bytes_per_s > 0 and nvml < len(nic.gpu_levels) and nic.gpu_levels[nvml]
    }  # level 0, unspecified: the GPU is lost
    least = min(levels.values(), default=0)
    return tuple(position for position, level in levels.items() if level == least)


def _check_column(name: str, packed: _Column, count: int, limit: float) -> None:
    mask, values = packed.present_mask, packed.values[:]
    if mask >> count or mask.bit_count() != len(values):
        raise ProbeError(name, f"{len(values)} values for mask {mask:#x} of {count} GPUs")
    if not mask:
        return
    # A NaN makes the sum NaN, of which no comparison holds; min and max alone may miss it.
    if not (min(values) >= 0 and max(values) <= limit and sum(values) >= 0):
        raise ProbeError(name, f"want 0 to {limit:g}, got {values}")


def _check_job_memory(sample: pb.Sample, count: int) -> None:
    mask, entries = sample.process_mask, sample.job_memory
    if mask >> count or len(entries) > _JOB_MEMORY_LIMIT:
        raise ProbeError("job_memory", f"{len(entries)} entries for mask {mask:#x} of {count} GPUs")
    for one in entries:
        if not mask >> one.gpu_index & 1 or one.used_bytes > _MAX_MEMORY_BYTES:
            raise ProbeError("job_memory", f"GPU {one.gpu_index}: {one.used_bytes} bytes")
    if len({(one.gpu_index, one.slurm_job_id) for one in entries}) < len(entries):
        raise ProbeError("job_memory", "a job stands twice for a GPU")
