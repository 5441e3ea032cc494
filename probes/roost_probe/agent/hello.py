"""The Hello message: the topology on the wire."""

from collections.abc import Iterable

from roost_probe.node.topology import Topology
from roost_probe.version import VERSION
from roost_proto.v1 import telemetry_pb2

SCHEMA_VERSION = 1

# The most problems, and characters of each, that roostd accepts.
MOST_PROBLEMS = 64
MOST_TEXT = 256


def build_hello(
    node: str, session_id: str, topology: Topology, problems: Iterable[str]
) -> telemetry_pb2.Hello:
    """Build a node's Hello from its topology and from problems that the topology does not list."""
    return telemetry_pb2.Hello(
        node=node,
        schema_version=SCHEMA_VERSION,
        probe_version=VERSION,
        driver_version=topology.driver_version,
        session_id=session_id,
        gpus=[
            telemetry_pb2.Gpu(
                index=index,
                # A GPU that was lost before the probe started keeps its index, under a unique
                # placeholder name.
                uuid=gpu.uuid or f"lost-{index}",
                pci_bus_id=gpu.pci_bus_id or f"lost-{index}",
                model=gpu.model,
                memory_bytes=gpu.memory_bytes,
                minor_number=gpu.minor_number,
                # Virtual machines report several NUMA nodes: the GPU's own is then unknown.
                numa_node=gpu.numa_nodes[0] if len(gpu.numa_nodes) == 1 else None,
                cpu_affinity=gpu.cpu_affinity,
                mig_enabled=gpu.mig_enabled,
            )
            for index, gpu in enumerate(topology.gpus)
        ],
        links=[
            telemetry_pb2.Link(
                a=link.a,
                b=link.b,
                level=telemetry_pb2.AncestorLevel.ValueType(link.level),
                nvlink_count=link.nvlink_count,
                nvswitch=link.nvswitch,
            )
            for link in topology.links
        ],
        nics=[
            telemetry_pb2.Nic(
                name=nic.name,
                pci_bus_id=nic.place.address,
                numa_node=nic.place.numa_node,
                gpu_levels=[telemetry_pb2.AncestorLevel.ValueType(x or 0) for x in nic.gpu_levels],
                bytes_per_s=nic.bytes_per_s,
            )
            for nic in topology.nics
        ],
        problems=[text[:MOST_TEXT] for text in [*problems, *topology.problems][:MOST_PROBLEMS]],
    )
