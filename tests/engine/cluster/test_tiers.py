"""tiers: how close a job's GPUs are, and could be."""

from tests.engine.offers import ACROSS, NODE, RACK, shapes_of, two_racks

from roost_engine.cluster.cluster import Cluster
from roost_engine.cluster.tiers import closest_tier, largest_sizes, tier_of, usable_gpus
from roost_engine.testing.builders import job, node, shape, share


def test_tier_of_what_a_job_holds() -> None:
    cluster = two_racks()
    assert tier_of(cluster, [share("a0", 0, 1)]) == NODE
    assert tier_of(cluster, [share("a0", 0), share("a1", 0)]) == RACK
    assert tier_of(cluster, [share("a0", 0), share("b1", 0)]) == ACROSS


def test_nothing_and_unknown_nodes_have_no_tier() -> None:
    cluster = two_racks()
    assert tier_of(cluster, []) is None
    assert tier_of(cluster, [share("a0", 0), share("gone", 0)]) is None


def test_closest_tier_hangs_on_the_sizes_of_nodes_and_racks() -> None:
    cluster = two_racks()
    expected = {1: NODE, 8: NODE, 16: RACK, 32: ACROSS}
    assert {
        gpus: closest_tier(cluster, job("1", *shapes_of(gpus))) for gpus in expected
    } == expected


def test_a_shape_that_insists_on_two_nodes_never_gets_one() -> None:
    assert closest_tier(two_racks(), job("1", shape(2, 2))) == RACK


def test_a_job_that_fits_nowhere_has_the_widest() -> None:
    assert closest_tier(two_racks(), job("1", shape(16))) == ACROSS
    assert closest_tier(Cluster(), job("1", shape(1))) == ACROSS


def test_new_nodes_are_noticed() -> None:
    cluster = two_racks()
    big = job("1", shape(16))
    assert closest_tier(cluster, big) == ACROSS
    cluster.apply_node(node("c0", 16, rack="c"))
    assert closest_tier(cluster, big) == NODE


def test_largest_sizes() -> None:
    assert largest_sizes(two_racks(3)) == (8, 24)
    assert largest_sizes(Cluster()) == (0, 0)


def test_usable_gpus_leave_out_drained_nodes() -> None:
    cluster = two_racks()
    cluster.apply_node(node("b1", rack="b", usable=False))
    assert usable_gpus(cluster) == 24
