"""Reads a dump of Slurm's nodes in slices: 10,000 of them take a quarter of a second and more."""

from collections.abc import Mapping

from roost_engine.domain.model import NodeName, NodeSpec
from roost_slurm.text.scontrol import ShownNode, parse_nodes
from roostd.ops.slices import Slices
from roostd.slurm.port import SlurmNode


async def read_nodes(
    text: str, racks: Mapping[str, str]
) -> tuple[tuple[ShownNode, ...], tuple[SlurmNode, ...]]:
    """Read `scontrol -d -o show nodes`; other tasks of the event loop may run meanwhile.

    Args:
        text: what it printed; lines that are no nodes are left out.
        racks: node name to its rack; a missing node is in none.

    Returns:
        All nodes, and those with GPUs in the engine's terms.
    """
    shown: list[ShownNode] = []
    nodes: list[SlurmNode] = []
    async for line in Slices().over(text.split("\n")):
        for node in parse_nodes(line):
            shown.append(node)
            if node.gpu_count and not node.is_future:
                nodes.append(_slurm_node(node, racks.get(node.name, "")))
    return tuple(shown), tuple(nodes)


def _slurm_node(node: ShownNode, rack: str) -> SlurmNode:
    return SlurmNode(
        spec=NodeSpec(
            name=NodeName(node.name),
            gpu_count=node.gpu_count,
            cpu_count=node.cpu_count,
            memory_bytes=node.memory_bytes,
            partitions=node.partitions,
            rack=rack,
            features=node.features,
            usable=node.is_open,
            asleep=node.is_asleep,
            has_seats=node.has_seats,
        ),
        state=node.state,
        reason=node.reason,
        cpu_allocated_count=node.cpu_allocated_count,
        memory_allocated_bytes=node.memory_allocated_bytes,
        socket_count=node.socket_count,
        is_typed=node.is_typed,
        used_gpus=node.used_gpus,
        is_registering=node.is_registering,
    )
