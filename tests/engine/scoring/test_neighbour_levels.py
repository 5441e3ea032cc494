"""roost_engine.scoring.neighbour_levels: who shares a switch, a socket, the rest of a node."""

from tests.engine.scoring.graph_cluster import cluster_of

from roost_engine.domain.model import NodeName
from roost_engine.domain.topology import Level, Link, LinkMatrix
from roost_engine.scoring.neighbour_levels import masks_near, others_count


def test_gpus_around_a_set() -> None:
    def link(a: int, b: int) -> Link:
        same = Level.NUMA_NODE if a // 4 == b // 4 else Level.SYSTEM
        return Link(Level.SINGLE_SWITCH if a // 2 == b // 2 else same)

    cluster = cluster_of([[2]])
    rows = tuple(tuple(None if a == b else link(a, b) for b in range(8)) for a in range(8))
    cluster.apply_topology(NodeName("n0-0"), LinkMatrix(rows), ())
    assert masks_near(cluster.table(0), 0b1) == (0b10, 0b1110)
    assert others_count(cluster, 0, 0b11) == 6.0
    assert others_count(cluster, 0, 0xFF) == 1.0
