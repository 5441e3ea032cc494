"""The nouns of placement: jobs, nodes, placements. Plain frozen data, no behaviour but arithmetic.

Indices are gres indices: GPU i of a node is the one Slurm calls IDX:i and types `gi`. The edges
translate NVML's numbering, PCI bus ids and UUIDs (docs/design/0004-gpu-numbering.md).
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import repeat
from typing import NewType

from roost_engine.domain.tier import Tier

JobId = NewType("JobId", str)  # "123", or "123_7" for one task of an array
NodeName = NewType("NodeName", str)
GpuUuid = NewType("GpuUuid", str)


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """One way to spread a job: the same number of GPUs, CPUs and bytes on each of its nodes."""

    node_count: int
    gpus_per_node: int
    cpus_per_node: int = 1
    memory_per_node_bytes: int = 0

    def __hash__(self) -> int:
        """Of the two numbers that tell most shapes apart: it is taken for every question asked."""
        return self.node_count << 8 ^ self.gpus_per_node

    @property
    def gpu_count(self) -> int:
        """GPUs of the whole gang."""
        return self.node_count * self.gpus_per_node


@dataclass(frozen=True, slots=True, kw_only=True)
class JobSpec:
    """What a waiting job asks for, in Roost's terms."""

    job_id: JobId
    user_id: int
    partition: str
    shapes: tuple[Shape, ...]  # acceptable ones, the preferred first; never empty
    priority: int = 0  # Slurm's, higher goes first
    submit_s: float = 0.0  # engine time
    eligible_s: float = 0.0  # engine time; the user's own --begin: never placed before it
    time_limit_s: float | None = None
    features: tuple[str, ...] = ()  # all of them are needed
    required_nodes: tuple[NodeName, ...] = ()  # -w: the placement holds all of these
    excluded_nodes: tuple[NodeName, ...] = ()  # -x
    binding: bool = True  # False in shadow and advise: decide and record, reserve nothing
    name: str = ""  # Slurm's job name, as given
    model: str = ""  # what the user says it trains: a name of the speed profiles
    checkpoint_s: float | None = None  # it saves its state so often; None: it must not be stopped

    @property
    def gpu_count(self) -> int:
        """GPUs of the preferred shape."""
        return self.shapes[0].gpu_count


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeSpec:
    """A node by Slurm's word, which is the truth about whether it may be used."""

    name: NodeName
    gpu_count: int
    cpu_count: int
    memory_bytes: int
    partitions: tuple[str, ...]
    rack: str = ""  # nodes of one rack share a leaf switch; "" is a rack of its own kind
    features: tuple[str, ...] = ()
    usable: bool = True  # Slurm would start a job here now


@dataclass(frozen=True, slots=True)
class NodeShare:
    """What one job holds on one node."""

    node: NodeName
    gpu_indices: tuple[int, ...]  # ascending
    cpu_count: int = 0
    memory_bytes: int = 0


@dataclass(frozen=True, slots=True)
class Placement:
    """Where a job goes: Slurm gives every node of a job the same GPU indices.

    Attributes:
        nodes: ascending.
        gpu_indices: ascending, the same on each node; empty where `indices_by_node` has them.
        shape: what the job asks for; of a scattered placement only its totals count.
        tier: how close together the nodes are.
        indices_by_node: in the order of `nodes`, each ascending; only of a scattered placement,
            which policies of the literature make in a simulation and Slurm cannot be asked for.
    """

    nodes: tuple[NodeName, ...]
    gpu_indices: tuple[int, ...]
    shape: Shape
    tier: Tier
    indices_by_node: tuple[tuple[int, ...], ...] = ()

    def by_node(self) -> Iterator[tuple[NodeName, tuple[int, ...]]]:
        """Each node with its GPUs."""
        return zip(
            self.nodes,
            self.indices_by_node or repeat(self.gpu_indices, len(self.nodes)),
            strict=True,
        )
