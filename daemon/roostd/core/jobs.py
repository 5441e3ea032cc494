"""What the engine remembers of each job."""

from dataclasses import dataclass
from enum import StrEnum

from roostd.core.actions import Decision
from roostd.core.model import JobSpec, NodeShare, Placement, Shape


class JobState(StrEnum):
    """Where a job stands, by the engine's knowledge."""

    WAITING = "waiting"
    PLACING = "placing"  # Slurm was asked to start it
    RUNNING = "running"
    LET_GO = "let_go"  # plain Slurm's
    ENDED = "ended"


@dataclass(slots=True, kw_only=True)
class JobRecord:
    """What the engine knows of a job. Read-only for everybody else.

    Attributes:
        spec: the request; None for a job that Slurm started on its own.
        queued_s: engine time at which it could first have been placed.
        reason: why it is in this state, for a human.
        until_s: when a waiting job is decided at the latest, if that is known.
        exclusions: (reason, number of nodes) of the last try of a waiting job.
        placement: what was chosen, also in shadow mode.
        decision: how.
        shares: what Slurm allocated.
    """

    spec: JobSpec | None
    state: JobState
    queued_s: float
    reason: str = ""
    until_s: float | None = None
    exclusions: tuple[tuple[str, int], ...] = ()
    placement: Placement | None = None
    decision: Decision | None = None
    shares: tuple[NodeShare, ...] = ()
    refusal_count: int = 0
    not_before_s: float = 0.0
    start_deadline_s: float = 0.0
    started_s: float | None = None
    ended_s: float | None = None


@dataclass(frozen=True, slots=True)
class Demand:
    """What two jobs must share for the failure of one to foretell that of the other."""

    partition: str
    shapes: tuple[Shape, ...]
    features: tuple[str, ...]
    required_nodes: tuple[str, ...]
    excluded_nodes: tuple[str, ...]

    @classmethod
    def of(cls, job: JobSpec) -> "Demand":
        """The demand of one job."""
        return cls(job.partition, job.shapes, job.features, job.required_nodes, job.excluded_nodes)


def shares_of(placement: Placement) -> tuple[NodeShare, ...]:
    """What a job holds once Slurm has started it as planned."""
    shape = placement.shape
    return tuple(
        NodeShare(node, placement.gpu_indices, shape.cpus_per_node, shape.memory_per_node_bytes)
        for node in placement.nodes
    )


def room_wanted(shape: Shape) -> str:
    """What a job without room waits for, in words."""
    gpus = f"{shape.gpus_per_node} GPU{'s' if shape.gpus_per_node > 1 else ''}"
    if shape.node_count == 1:
        return f"waits for {gpus} on one node"
    return f"waits for the same {gpus} on each of {shape.node_count} nodes"
