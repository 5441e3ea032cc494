"""What jobs on one node share: a PCIe switch, a socket, or only the network card."""

from roost_engine.cluster.cluster import Cluster
from roost_engine.cluster.link_table import LinkTable, indices_of
from roost_engine.domain.topology import Level

LEVELS = ("switch", "socket", "nic")  # nearest first, as the interference model calls them


def others_count(cluster: Cluster, node: int, mask: int) -> float:
    """Return how many GPUs a node has beside a set; 1 where it has none."""
    return float(max(int(cluster.gpu_count[node]) - mask.bit_count(), 1))


def masks_near(table: LinkTable, mask: int) -> tuple[int, int]:
    """Return the GPUs that share a PCIe switch with any of a set, and those that share a socket.

    Args:
        table: of the node's links.
        mask: of the set, bit i for GPU i; so are both results. A GPU of the set is in one where
            another GPU of the set is near it.
    """
    switch = socket = 0
    for gpu in indices_of(mask):
        for other, link in enumerate(table.links.links[gpu]):
            if link is not None and link.level <= Level.MULTIPLE_SWITCHES:
                switch |= 1 << other
            if link is not None and link.level <= Level.NUMA_NODE:
                socket |= 1 << other
    return switch, socket
