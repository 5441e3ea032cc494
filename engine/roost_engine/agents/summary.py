"""What an agent tells the others of itself: what is free, and what waits."""

from collections.abc import Sequence
from dataclasses import dataclass

from roost_engine.cluster.cluster import Cluster
from roost_engine.cluster.link_table import MAX_GPUS
from roost_engine.cluster.node_sets import NodeSet, nodes_in
from roost_engine.domain.model import Shape


@dataclass(slots=True)
class Summary:
    """One agent's state, small enough to send: no other agent reads its nodes.

    Attributes:
        gpu_count: of all its nodes.
        free_counts: by number of GPUs, how many of its usable nodes have at least so many free.
        waiting_gpus: asked for by the jobs in its queue.
    """

    gpu_count: int
    free_counts: list[int]
    waiting_gpus: int

    @classmethod
    def of(cls, cluster: Cluster, nodes: NodeSet, waiting_gpus: int) -> "Summary":
        """Sum up some nodes."""
        usable = 0
        for node in nodes_in(nodes):
            usable |= int(cluster.usable[node]) << node
        free = [
            (cluster.gpu_free.at_least[size] & usable).bit_count() for size in range(MAX_GPUS + 1)
        ]
        gpu_count = int(cluster.gpu_count[nodes_in(nodes)].sum())
        return cls(gpu_count, free, waiting_gpus)

    def could_start(self, shapes: tuple[Shape, ...]) -> bool:
        """Return whether enough nodes have enough free GPUs for one of some shapes."""
        return any(
            shape.gpus_per_node <= MAX_GPUS
            and self.free_counts[shape.gpus_per_node] >= shape.node_count
            for shape in shapes
        )

    @property
    def backlog(self) -> float:
        """GPUs that are waited for, for each GPU."""
        return self.waiting_gpus / max(self.gpu_count, 1)

    def promise(self, shape: Shape) -> None:
        """Count a job that is on its way here as if it had started."""
        size, nodes = shape.gpus_per_node, shape.node_count
        # Nodes with at least `size` free have fewer free now; how many is known only at `size`.
        for free in range(1, MAX_GPUS + 1):
            if free <= size:
                self.free_counts[free] = max(self.free_counts[free] - nodes, 0)
        self.waiting_gpus += shape.gpu_count


def could_start_together(
    own: Summary, others: Sequence[Summary], shapes: tuple[Shape, ...]
) -> bool:
    """Return whether the nodes of an agent and of others could start one of some shapes.

    Some of the nodes must be of the others: what an agent has by itself is no reason to borrow.
    """
    for shape in shapes:
        size = shape.gpus_per_node
        if size <= MAX_GPUS:
            lent = sum(one.free_counts[size] for one in others)
            if lent and own.free_counts[size] + lent >= shape.node_count:
                return True
    return False
