"""shape_fits: what fits by free GPUs, and that a change of the cluster is seen."""

from roost_engine.cluster.cluster import Cluster
from roost_engine.domain.model import JobId, NodeName
from roost_engine.queue.shape_fits import ShapeFits
from roost_engine.testing.builders import node, shape, share

ONE_OF_8, TWO_OF_4, ONE_OF_2 = shape(8, 1), shape(4, 2), shape(2, 1)


def cluster() -> Cluster:
    """Two nodes of 8 GPUs; 5 of one are held."""
    found = Cluster()
    for name in ("a", "b"):
        found.apply_node(node(name))
    found.hold(JobId("x"), [share("a", *range(5))])
    return found


def test_one_shape_that_fits_is_enough() -> None:
    fits, nodes = ShapeFits(), cluster()
    numbers = [fits.number_of(one) for one in ((ONE_OF_8,), (TWO_OF_4,), (TWO_OF_4, ONE_OF_2))]
    assert numbers == [0, 1, 2]
    assert fits.number_of((TWO_OF_4,)) == 1
    assert fits.enough(nodes).tolist() == [True, False, True]


def test_what_is_remembered_follows_the_cluster() -> None:
    fits, nodes = ShapeFits(), cluster()
    fits.number_of((ONE_OF_8,))
    for _ in range(2):  # the second answer is a remembered one
        assert fits.enough(nodes).tolist() == [True]
    nodes.hold(JobId("y"), [share("b", 0)])
    assert fits.enough(nodes).tolist() == [False]
    nodes.release(JobId("y"))
    assert fits.enough(nodes).tolist() == [True]
    only_a = nodes.nodes_named([NodeName("a")])
    assert fits.enough(nodes, only_a).tolist() == [False]
    fits.number_of((ONE_OF_2,))  # a new kind is not answered from before
    assert fits.enough(nodes, only_a).tolist() == [False, True]


def test_without_jobs_there_is_no_answer() -> None:
    assert ShapeFits().enough(cluster()).tolist() == []
