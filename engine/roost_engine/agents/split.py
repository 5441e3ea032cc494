"""The split of a cluster into one part for each agent: whole racks, of about as many GPUs each."""

from dataclasses import dataclass

from roost_engine.cluster.cluster import Cluster
from roost_engine.cluster.node_sets import EVERY_NODE, NO_NODES, NodeSet, nodes_in


@dataclass(frozen=True, slots=True)
class Split:
    """Which nodes each agent has.

    Attributes:
        parts: by agent; disjoint. An agent may have none where there are fewer racks than agents.
    """

    parts: tuple[NodeSet, ...]

    @classmethod
    def of(cls, cluster: Cluster, agent_count: int) -> "Split":
        """Give the racks, in the order of their names, to the agents.

        So racks of one pod, named POD/RACK, stay together. The split depends on which racks there
        are and on their GPUs, not on the order in which nodes were reported.

        Args:
            cluster: the nodes.
            agent_count: 1 or more.
        """
        racks = sorted(zip(cluster.racks.names, cluster.rack_nodes, strict=True))
        sizes = [int(cluster.gpu_count[nodes_in(nodes)].sum()) for _, nodes in racks]
        parts, before, total = [NO_NODES] * agent_count, 0, sum(sizes)
        for number, ((_, nodes), size) in enumerate(zip(racks, sizes, strict=True)):
            # By the middle of the rack on the line of all GPUs; by number while no GPU is known.
            middle = (before + size / 2) / total if total else (number + 0.5) / len(racks)
            parts[min(int(middle * agent_count), agent_count - 1)] |= nodes
            before += size
        return cls(tuple(parts))

    def nodes_of(self, agent: int) -> NodeSet:
        """Return the nodes of an agent; every node for jobs that borrow from several."""
        return EVERY_NODE if agent < 0 else self.parts[agent]
