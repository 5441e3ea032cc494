"""What `roostctl nodes --json` and `node NAME --json` print."""

from typing import TypedDict

from roost_proto.v1 import operator_pb2 as pb
from roostctl.documents.values import real, whole


def free_count(node: pb.Node) -> int:
    """Return GPUs that a job could get now: free and healthy, on a node where Slurm starts jobs."""
    return sum(gpu.free and not gpu.fault for gpu in node.gpus) if node.usable else 0


class GpuDocument(TypedDict):
    """One GPU of a node, by gres index."""

    index: int
    uuid: str | None
    model: str | None
    free: bool
    job_id: str | None
    fault: str | None
    sm_frac: float | None
    memory_activity_frac: float | None
    memory_used_bytes: int | None
    memory_bytes: int | None
    power_w: float | None
    temperature_c: float | None


class NodeDocument(TypedDict):
    """One node."""

    name: str
    rack: str | None
    usable: bool
    slurm_state: str | None
    partitions: list[str]
    cpu_count: int
    cpu_free_count: int
    memory_bytes: int
    memory_free_bytes: int
    gpu_free_count: int
    gpus: list[GpuDocument]
    sample_age_s: float | None
    problems: list[str]


class NodesDocument(TypedDict):
    """`roostctl nodes --json`."""

    schema: str
    nodes: list[NodeDocument]


class OneNodeDocument(TypedDict):
    """`roostctl node NAME --json`."""

    schema: str
    node: NodeDocument


def node_document(node: pb.Node) -> NodeDocument:
    """One node, as both `nodes` and `node` show it."""
    return {
        "name": node.name,
        "rack": node.rack or None,
        "usable": node.usable,
        "slurm_state": node.slurm_state or None,
        "partitions": list(node.partitions),
        "cpu_count": node.cpu_count,
        "cpu_free_count": node.cpu_free_count,
        "memory_bytes": node.memory_bytes,
        "memory_free_bytes": node.memory_free_bytes,
        "gpu_free_count": free_count(node),
        "gpus": [_gpu_document(gpu) for gpu in sorted(node.gpus, key=lambda gpu: gpu.index)],
        "sample_age_s": real(node, "sample_age_s"),
        "problems": list(node.problems),
    }


def _gpu_document(gpu: pb.NodeGpu) -> GpuDocument:
    return {
        "index": gpu.index,
        "uuid": gpu.uuid or None,
        "model": gpu.model or None,
        "free": gpu.free,
        "job_id": gpu.job_id or None,
        "fault": gpu.fault or None,
        "sm_frac": real(gpu, "sm_frac"),
        "memory_activity_frac": real(gpu, "memory_activity_frac"),
        "memory_used_bytes": whole(gpu, "memory_used_bytes"),
        "memory_bytes": whole(gpu, "memory_bytes"),
        "power_w": real(gpu, "power_w"),
        "temperature_c": real(gpu, "temperature_c"),
    }
