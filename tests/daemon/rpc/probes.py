"""Messages as probes send them."""

from collections.abc import Sequence

from roost_proto.v1 import telemetry_pb2 as pb


def hello(
    node: str = "n1",
    gpu_count: int = 4,
    *,
    session: str = "s1",
    minors: Sequence[int | None] | None = None,
    lanes: dict[tuple[int, int], int] | None = None,
) -> pb.Hello:
    """A node of PCIe GPUs; `lanes` adds NVLinks between pairs of NVML indices."""
    lanes = lanes or {}
    message = pb.Hello(node=node, schema_version=1, probe_version="test", session_id=session)
    for index in range(gpu_count):
        gpu = message.gpus.add(
            index=index,
            uuid=f"GPU-{node}-{index}",
            pci_bus_id=f"00000000:{index:02X}:00.0",
            model="Fake",
            memory_bytes=80 << 30,
        )
        minor = index if minors is None else minors[index]
        if minor is not None:
            gpu.minor_number = minor
    for a in range(gpu_count):
        for b in range(a + 1, gpu_count):
            message.links.add(
                a=a,
                b=b,
                level=pb.ANCESTOR_LEVEL_NUMA_NODE,
                nvlink_count=lanes.get((a, b), 0),
            )
    return message


def floats(*values: float | None) -> pb.FloatColumn:
    mask = sum(1 << index for index, value in enumerate(values) if value is not None)
    return pb.FloatColumn(present_mask=mask, values=[v for v in values if v is not None])


def sample(sequence: int = 1, gpu_count: int = 4, **columns: pb.FloatColumn) -> pb.Sample:
    """Half busy, but for the columns that are given."""
    message = pb.Sample(sequence=sequence, gpu_count=gpu_count)
    message.sm_frac.CopyFrom(floats(*[0.5] * gpu_count))
    for name, packed in columns.items():
        getattr(message, name).CopyFrom(packed)
    return message
