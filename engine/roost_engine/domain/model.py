"""The nouns of placement: jobs, nodes, placements. Plain frozen data.

Every GPU index is a gres index: Slurm calls GPU i of a node IDX:i, and Roost gives it the GRES type
`gi`. The edges translate NVML's numbering, PCI bus ids and UUIDs
(docs/design/0004-gpu-numbering.md).
"""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import repeat
from typing import NewType

from roost_engine.domain.tier import Tier
from roost_engine.domain.value import value

JobId = NewType("JobId", str)  # "123", or "123_7" for one task of a job array
NodeName = NewType("NodeName", str)
GpuUuid = NewType("GpuUuid", str)
UNKNOWN_USER = -1


@value(kw_only=True)
class Shape:
    """One way to spread a job over nodes: as many GPUs, CPUs and bytes of memory on each node."""

    node_count: int
    gpus_per_node: int
    cpus_per_node: int = 1
    memory_per_node_bytes: int = 0

    def __hash__(self) -> int:
        """Hash the two numbers in which most shapes differ: shapes are hashed on every search."""
        return self.node_count << 8 ^ self.gpus_per_node

    @property
    def gpu_count(self) -> int:
        """Return the number of GPUs of the whole gang."""
        return self.node_count * self.gpus_per_node


@value()
class QuotaUse:
    """What one job takes of a quota: a limit of Slurm's that several jobs share.

    Attributes:
        quota: its name for people, unique: "QOSMaxTRESPerUser normal uid=1001 gres/gpu".
        amount: of GPUs, jobs or licences, as the quota counts them.
    """

    quota: str
    amount: float


@value(kw_only=True)
class JobSpec:
    """A job's request, in Roost's terms."""

    job_id: JobId
    user_id: int
    partition: str
    shapes: tuple[Shape, ...]  # every acceptable shape, the preferred one first; never empty
    priority: int = 0  # Slurm's priority; a higher one is served first
    priority_tier: int = 0  # of its partition: a higher tier is served first, whatever the order
    submit_s: float = 0.0  # engine time
    eligible_s: float = 0.0  # engine time of the user's own --begin; not placed before
    time_limit_s: float | None = None
    features: tuple[str, ...] = ()  # every node of the placement needs all of them
    required_nodes: tuple[NodeName, ...] = ()  # --nodelist: the placement includes all of them
    excluded_nodes: tuple[NodeName, ...] = ()  # --exclude
    binding: bool = True  # False in shadow and advise mode: decide and record, reserve nothing
    name: str = ""  # Slurm's job name
    model: str = ""  # the model it trains, as named by the user: a name in the speed profiles
    checkpoint_s: float | None = None  # between its checkpoints; None: it must not be stopped
    quotas: tuple[QuotaUse, ...] = ()  # every limit of Slurm's that the job counts against
    node_quotas: tuple[str, ...] = ()  # likewise, of limits on the CPUs of each node
    preempts: tuple[str, ...] = ()  # classes of running jobs that Slurm would stop for it
    fixed_indices: tuple[int, ...] = ()  # ascending; all that it can have on a node; empty: any
    account: str = ""
    qos: str = ""
    precedence: int = 0  # above 0: an operator put it first; below 0: last
    overtakes: tuple[JobId, ...] = ()  # jobs of the same user that it was moved ahead of by hand
    shares_gpus: bool = False  # it may run beside one other such job on its GPUs
    gpu_memory_bytes: int = 0  # of each GPU, that it needs; 0: not stated, then it shares none
    fixed_seat: int = 0  # of its fixed indices: the seat that it can have there
    starts_elsewhere: bool = False  # Slurm could start it on nodes that Roost does not give out

    @property
    def gpu_count(self) -> int:
        """Return the number of GPUs of the preferred shape."""
        return self.shapes[0].gpu_count

    def asks_the_same(self, other: "JobSpec") -> bool:
        """Return whether two requests differ in nothing that their users asked for.

        They may differ in their place in the queue, in fixed indices, and in what other nodes may
        do for them.
        """
        same = replace(
            self,
            priority=other.priority,
            precedence=other.precedence,
            overtakes=other.overtakes,
            fixed_indices=other.fixed_indices,
            fixed_seat=other.fixed_seat,
            starts_elsewhere=other.starts_elsewhere,
        )
        return same == other


@value(kw_only=True)
class NodeSpec:
    """A node as Slurm describes it; Slurm alone says whether the node may be used."""

    name: NodeName
    gpu_count: int
    cpu_count: int
    memory_bytes: int
    partitions: tuple[str, ...]
    rack: str = ""  # nodes of one rack share a leaf switch; those with "" count as one rack
    features: tuple[str, ...] = ()
    usable: bool = True  # Slurm would start a job on it now
    asleep: bool = False  # powered down, or waking: a job that starts there waits for its boot
    has_seats: bool = False  # Slurm has a second seat for each of its GPUs


@value()
class NodeShare:
    """The resources that one job holds on one node."""

    node: NodeName
    gpu_indices: tuple[int, ...]  # ascending
    cpu_count: int = 0
    memory_bytes: int = 0
    seat: int = 0  # of each of the GPUs: see domain.slot


@value()
class Placement:
    """The nodes and GPUs for a job; Slurm gives a job the same GPU indices on each of its nodes.

    Attributes:
        nodes: ascending.
        gpu_indices: ascending, the same on each node; empty where `indices_by_node` is given.
        shape: the chosen shape of the request; for a scattered placement only its totals count.
        tier: how close together the nodes are.
        indices_by_node: in the order of `nodes`, each ascending; only for a scattered placement.
            Slurm cannot be asked for it: it is asked for the nodes and chooses the GPUs, of which
            these are the likely ones.
        seat: of each of the GPUs: see domain.slot.
    """

    nodes: tuple[NodeName, ...]
    gpu_indices: tuple[int, ...]
    shape: Shape
    tier: Tier
    indices_by_node: tuple[tuple[int, ...], ...] = ()
    seat: int = 0

    @property
    def is_exact(self) -> bool:
        """Whether Slurm can be asked for exactly these GPUs."""
        return not self.indices_by_node

    def is_met_by(self, shares: Iterable[NodeShare]) -> bool:
        """Return whether these are just its GPUs; as many on each node where Slurm chooses them."""
        listed = tuple(shares)
        if any(share.seat != self.seat for share in listed):
            return False
        held = {share.node: share.gpu_indices for share in listed}
        wanted = dict(self.by_node())
        if self.is_exact:
            return held == wanted
        return {name: len(gpus) for name, gpus in held.items()} == {
            name: len(gpus) for name, gpus in wanted.items()
        }

    def by_node(self) -> Iterator[tuple[NodeName, tuple[int, ...]]]:
        """Yield each node with the indices of its GPUs."""
        return zip(
            self.nodes,
            self.indices_by_node or repeat(self.gpu_indices, len(self.nodes)),
            strict=True,
        )
