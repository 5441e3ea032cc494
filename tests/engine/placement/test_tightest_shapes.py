"""The rule `strict` proposes the tightest shape that the cluster could ever hold, and no other."""

from roost_engine.cluster.cluster import Cluster
from roost_engine.cluster.node_sets import EVERY_NODE, NO_NODES
from roost_engine.domain.model import JobId, Shape
from roost_engine.placement.tightest_shapes import TightestShapes, TightGangs, tightest
from roost_engine.policies.heuristics import ShapeByShape
from roost_engine.testing.builders import job, node, nvswitch, shape, share

RULE = TightestShapes()
SPREAD = shape(16), shape(8, 2), shape(4, 4), shape(2, 8)  # as Slurm may spread 16 GPUs


def nodes_of_eight(count: int) -> Cluster:
    cluster = Cluster()
    for number in range(count):
        spec = node(f"n{number}", 8)
        cluster.apply_node(spec)
        cluster.apply_topology(spec.name, nvswitch(8), ())
    return cluster


def proposed(cluster: Cluster, *shapes: Shape) -> Shape | None:
    found = RULE.propose(cluster, job("1", *shapes), NO_NODES, 0.0)
    return found.shape if len(found) else None


def test_the_tightest_shape_is_the_first_that_could_ever_fit() -> None:
    assert tightest(nodes_of_eight(4), job("1", *SPREAD)) == (shape(8, 2),)
    assert tightest(nodes_of_eight(1), job("1", *SPREAD)) == SPREAD  # none could: the job is judged


def test_a_later_shape_on_fewer_nodes_is_as_tight() -> None:
    rounded = shape(6, 3), shape(9, 2), shape(3, 6)
    assert tightest(nodes_of_eight(8), job("1", *rounded)) == (shape(6, 3),)
    sevens = shape(4, 5), shape(7, 3), shape(2, 10)
    assert tightest(nodes_of_eight(8), job("1", *sevens)) == (shape(4, 5), shape(7, 3))


def test_a_job_waits_for_its_tightest_shape() -> None:
    cluster = nodes_of_eight(4)
    assert proposed(cluster, *SPREAD) == shape(8, 2)
    for number in range(3):
        cluster.hold(JobId(f"other{number}"), [share(f"n{number}", 0)])
    spread = job("1", *SPREAD)
    assert len(ShapeByShape().propose(cluster, spread, NO_NODES, 0.0))
    assert proposed(cluster, *SPREAD) is None


def test_hints_are_for_the_tightest_shape_too() -> None:
    cluster, spread = nodes_of_eight(4), job("1", *SPREAD)
    assert [hint.shape for hint in RULE.hints(cluster, spread, EVERY_NODE)] == [shape(8, 2)]
    every = [hint.shape for hint in ShapeByShape().hints(cluster, spread, EVERY_NODE)]
    assert every == [shape(8, 2), shape(4, 4)]


def test_a_job_of_one_shape_is_proposed_as_ever() -> None:
    cluster = nodes_of_eight(2)
    one = job("1", shape(3))
    found = [len(rule.propose(cluster, one, NO_NODES, 0.0)) for rule in (RULE, ShapeByShape())]
    assert found[0] == found[1] > 0


GANGS = TightGangs()


def test_a_job_that_no_node_could_hold_waits_for_its_tightest_shape() -> None:
    cluster = nodes_of_eight(4)
    spread = job("1", shape(8, 2), shape(4, 4))
    assert GANGS.propose(cluster, spread, NO_NODES, 0.0).shape == shape(8, 2)
    for number in range(3):
        cluster.hold(JobId(f"other{number}"), [share(f"n{number}", 0)])
    assert ShapeByShape().propose(cluster, spread, NO_NODES, 0.0)
    assert not GANGS.propose(cluster, spread, NO_NODES, 0.0)
    assert {hint.shape for hint in GANGS.hints(cluster, spread, EVERY_NODE)} <= {shape(8, 2)}


def test_a_job_that_fits_on_a_node_may_spread() -> None:
    cluster = nodes_of_eight(2)
    for number in range(2):
        cluster.hold(JobId(f"other{number}"), [share(f"n{number}", 0, 1, 2, 3)])
    found = GANGS.propose(cluster, job("1", shape(8), shape(4, 2)), NO_NODES, 0.0)
    assert found.shape == shape(4, 2)
