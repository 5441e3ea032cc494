"""What `roostctl topology NAME --json` prints."""

from typing import TypedDict

from roost_proto.v1 import operator_pb2 as pb
from roost_proto.v1 import telemetry_pb2
from roostctl.documents.values import level_word, whole


class TopologyGpuDocument(TypedDict):
    """One GPU as its probe described it."""

    index: int
    uuid: str | None
    pci_bus_id: str | None
    model: str | None
    memory_bytes: int | None
    minor_number: int | None
    numa_node: int | None
    cpu_affinity: str | None
    mig_enabled: bool | None
    free: bool | None
    job_id: str | None
    fault: str | None


class LinkDocument(TypedDict):
    """What connects GPUs a and b."""

    a: int
    b: int
    level: str | None
    nvlink_count: int
    nvswitch: bool


class NicDocument(TypedDict):
    """One network card; gpu_levels[i] is its distance to GPU i."""

    name: str
    pci_bus_id: str | None
    numa_node: int | None
    gpu_levels: list[str | None]


class TopologyDocument(TypedDict):
    """`roostctl topology NAME --json`."""

    schema: str
    node: str
    gpus: list[TopologyGpuDocument]
    links: list[LinkDocument]
    nics: list[NicDocument]


def topology_document(topology: pb.Topology, node: pb.Node) -> TopologyDocument:
    """Schema roost.topology/1.

    Args:
        topology: as the probe reported it.
        node: the same node, which says which GPUs are free.
    """
    return {
        "schema": "roost.topology/1",
        "node": topology.node,
        "gpus": [
            _topology_gpu_document(gpu, gpu_of(node, gpu))
            for gpu in sorted(topology.gpus, key=lambda gpu: gpu.index)
        ],
        "links": [
            {
                "a": link.a,
                "b": link.b,
                "level": level_word(link.level),
                "nvlink_count": link.nvlink_count,
                "nvswitch": link.nvswitch,
            }
            for link in sorted(topology.links, key=lambda link: (link.a, link.b))
        ],
        "nics": [
            {
                "name": nic.name,
                "pci_bus_id": nic.pci_bus_id or None,
                "numa_node": whole(nic, "numa_node"),
                "gpu_levels": [level_word(level) for level in nic.gpu_levels],
            }
            for nic in topology.nics
        ],
    }


def gpu_of(node: pb.Node, gpu: telemetry_pb2.Gpu) -> pb.NodeGpu | None:
    """Find the node's entry of a GPU: by UUID, as numberings differ; by index without UUIDs."""
    by_uuid = {entry.uuid: entry for entry in node.gpus if entry.uuid}
    if gpu.uuid and by_uuid:
        return by_uuid.get(gpu.uuid)
    return next((entry for entry in node.gpus if entry.index == gpu.index), None)


def _topology_gpu_document(gpu: telemetry_pb2.Gpu, entry: pb.NodeGpu | None) -> TopologyGpuDocument:
    return {
        "index": gpu.index,
        "uuid": gpu.uuid or None,
        "pci_bus_id": gpu.pci_bus_id or None,
        "model": gpu.model or None,
        "memory_bytes": whole(gpu, "memory_bytes"),
        "minor_number": whole(gpu, "minor_number"),
        "numa_node": whole(gpu, "numa_node"),
        "cpu_affinity": gpu.cpu_affinity or None,
        "mig_enabled": gpu.mig_enabled if gpu.HasField("mig_enabled") else None,
        "free": entry.free if entry else None,
        "job_id": (entry.job_id or None) if entry else None,
        "fault": (entry.fault or None) if entry else None,
    }
