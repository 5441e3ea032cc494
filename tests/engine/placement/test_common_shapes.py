"""The rule `common-shapes` waits for a shape that many nodes could hold, and fills small nodes."""

from dataclasses import replace

import pytest

from roost_engine.cluster.cluster import Cluster
from roost_engine.cluster.node_sets import EVERY_NODE, NO_NODES
from roost_engine.domain.model import JobId, JobSpec, NodeName, Shape
from roost_engine.job_record import shares_of
from roost_engine.placement.candidates import Candidates
from roost_engine.placement.common_shapes import CommonShapes
from roost_engine.placement.tightest_shapes import TightestShapes
from roost_engine.testing.builders import job, node, nvswitch, shape, share

RULE = CommonShapes()
SPREAD = shape(16), shape(8, 2), shape(4, 4), shape(2, 8)  # as Slurm may spread 16 GPUs
IN_PARTS = shape(16), shape(4, 4)  # of these, what a node of 16 and many of 4 could hold


def nodes_of(*sizes: int) -> Cluster:
    """Return nodes of so many GPUs each, n0 first, in one rack."""
    cluster = Cluster()
    for number, size in enumerate(sizes):
        spec = node(f"n{number}", size)
        cluster.apply_node(spec)
        cluster.apply_topology(spec.name, nvswitch(size), ())
    return cluster


def hold(cluster: Cluster, number: int, gpu_count: int) -> None:
    cluster.hold(JobId(f"other{number}"), [share(f"n{number}", *range(gpu_count))])


def names(found: Candidates) -> set[str]:
    return {share.node for each in range(len(found)) for share in shares_of(found.placement(each))}


def propose(cluster: Cluster, spec: JobSpec) -> Candidates:
    return RULE.propose(cluster, spec, NO_NODES, 0.0)


def test_a_job_does_not_wait_for_a_node_that_few_are_like() -> None:
    cluster, spec = nodes_of(16, *[4] * 8), job("1", *SPREAD)
    assert RULE.proposed_shapes(cluster, spec) == IN_PARTS
    hold(cluster, 0, 1)
    assert TightestShapes().propose(cluster, spec, NO_NODES, 0.0).shape != shape(4, 4)
    assert propose(cluster, spec).shape == shape(4, 4)


def test_the_rare_node_is_taken_where_it_is_free() -> None:
    assert propose(nodes_of(16, *[4] * 8), job("1", *SPREAD)).shape == shape(16)


@pytest.mark.parametrize(("large_count", "shapes"), [(1, IN_PARTS), (2, SPREAD[:1])])
def test_half_of_the_gpus_make_a_shape_common(large_count: int, shapes: tuple[Shape, ...]) -> None:
    cluster = nodes_of(*[16] * large_count, *[4] * 8)
    assert RULE.proposed_shapes(cluster, job("1", *SPREAD)) == shapes


def test_where_all_nodes_have_as_many_gpus_it_proposes_what_strict_does() -> None:
    for busy_count in range(8):
        cluster = nodes_of(*[8] * 4)
        hold(cluster, 0, busy_count)
        for spec in (job("1", *SPREAD), job("2", shape(3)), job("3", shape(6, 3), shape(9, 2))):
            found, strict = propose(cluster, spec), TightestShapes()
            expected = strict.propose(cluster, spec, NO_NODES, 0.0)
            assert names(found) == names(expected)
            hints = RULE.hints(cluster, spec, EVERY_NODE)
            assert [*hints] == [*strict.hints(cluster, spec, EVERY_NODE)]


def test_a_job_that_no_node_could_hold_in_any_shape_keeps_all_its_shapes() -> None:
    assert RULE.proposed_shapes(nodes_of(1), job("1", *SPREAD)) == SPREAD


def test_only_nodes_that_the_job_may_use_count() -> None:
    cluster = nodes_of(16, 16, *[4] * 8)
    without = replace(job("1", *SPREAD), excluded_nodes=(NodeName("n0"),))
    assert RULE.proposed_shapes(cluster, without) == IN_PARTS


def test_small_nodes_are_filled_first_and_size_by_size() -> None:
    cluster = nodes_of(16, 8, 4, 4)
    one = job("1", shape(2))
    assert names(propose(cluster, one)) == {"n2", "n3"}
    hold(cluster, 2, 4)
    hold(cluster, 3, 3)
    assert names(propose(cluster, one)) == {"n1"}
    hold(cluster, 1, 7)
    assert names(propose(cluster, one)) == {"n0"}


def test_no_node_is_woken_because_it_is_small() -> None:
    cluster = nodes_of(16, 4)
    cluster.apply_node(node("n1", 4, asleep=True))
    assert names(propose(cluster, job("1", shape(2)))) == {"n0"}


def test_explain_does_not_say_that_larger_nodes_were_ruled_out() -> None:
    cluster = nodes_of(16, 4)
    assert propose(cluster, job("1", shape(2))).exclusions == ()


def test_a_gang_goes_to_larger_nodes_rather_than_across_racks() -> None:
    cluster = Cluster()
    for number, (size, rack) in enumerate(((8, "a"), (8, "a"), (4, "b"), (4, "c"))):
        spec = node(f"n{number}", size, rack=rack)
        cluster.apply_node(spec)
        cluster.apply_topology(spec.name, nvswitch(size), ())
    assert names(propose(cluster, job("1", shape(4, 2)))) == {"n0", "n1"}


def test_a_gang_of_one_proposed_shape_may_have_any_gpus() -> None:
    cluster, spec = nodes_of(8, 8), job("1", shape(4, 2), shape(2, 4))
    cluster.hold(JobId("left"), [share("n0", 0, 1, 2, 3)])
    cluster.hold(JobId("right"), [share("n1", 4, 5, 6, 7)])
    assert not propose(cluster, spec).options
    assert CommonShapes(any_gpus=True).propose(cluster, spec, NO_NODES, 0.0).options
