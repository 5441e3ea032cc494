"""Rules about nodes that keep a job together, each on an example worked by hand."""

from dataclasses import replace

from tests.simulator.placing import drawn, put, rule

from roost_engine.cluster.node_sets import NO_NODES
from roost_engine.domain.model import JobId, NodeName
from roost_engine.testing.builders import job, shape, share
from roost_sim.traces.shapes import tightest_shapes


def test_tetris_takes_the_node_that_points_where_the_part_does() -> None:
    # n0 has 4 of 8 GPUs and 60 of 64 CPUs free, n1 all GPUs and 16 CPUs. Two GPUs with 12 CPUs
    # want 2/8 and 12/64: n0 scores 4/8·2/8 + 60/64·12/64 = 0.301, n1 8/8·2/8 + 16/64·12/64 = 0.297.
    # With 10 CPUs: n0 0.125 + 0.146 = 0.271, n1 0.25 + 0.039 = 0.289.
    cluster = drawn("aaaa.... ........")
    cluster.hold(JobId("b"), [share("n1", cpu_count=48)])
    for cpu_count, expected in ((12, {"n0": (4, 5)}), (10, {"n1": (0, 1)})):
        asked = shape(2, cpus_per_node=cpu_count)
        assert put(rule("tetris"), cluster, job("new", asked)) == expected
    # Six GPUs are on n1 alone, and are not taken from two nodes.
    six = shape(6, cpus_per_node=6)
    assert put(rule("tetris"), cluster, job("new", six)) == {"n1": (0, 1, 2, 3, 4, 5)}
    assert put(rule("tetris"), cluster, job("new", six), reserved=0b10) is None


def test_parts_stay_in_the_rack_that_costs_least() -> None:
    # Two parts of 4. Free: 6, 8 | 7, 6 | 8. The best two nodes are n1 and n4, of two racks. Of
    # those with two, rack 0 has 6 + 8 free GPUs for Tetris to like, rack 1 has 7 + 6.
    cluster = drawn("##...... ........", "#....... ##......", "........")
    spec = job("new", *tightest_shapes(8, 4))
    assert put(rule("tetris"), cluster, spec) == {"n0": (2, 3, 4, 5), "n1": (0, 1, 2, 3)}


def test_parts_are_in_few_racks_where_no_rack_holds_them_all() -> None:
    # Three parts of 8: rack 1 has two nodes, the third is the first of the others.
    cluster = drawn("........ #.......", "........ ........", "........")
    spec = job("new", *tightest_shapes(24, 8))
    whole = (0, 1, 2, 3, 4, 5, 6, 7)
    assert put(rule("tetris"), cluster, spec) == {"n0": whole, "n2": whole, "n3": whole}


def test_a_required_node_is_among_them() -> None:
    cluster = drawn("........ ........", "######.. ........")
    for gpu_count in (1, 2):
        spec = replace(job("new", *tightest_shapes(gpu_count, 8)), required_nodes=(NodeName("n2"),))
        found = put(rule("lif"), cluster, spec)
        assert found is not None
        assert list(found) == ["n2"]
    four = job("new", *tightest_shapes(4, 8))
    spec = replace(four, required_nodes=(NodeName("n2"),))
    assert put(rule("lif"), cluster, spec) is None


def test_a_job_waits_for_nodes_that_its_parts_fit_on() -> None:
    cluster = drawn("aa...... ########")
    found = rule("tetris").propose(cluster, job("new", *tightest_shapes(8, 8)), NO_NODES, 0.0)
    assert not len(found)
    assert dict(found.exclusions) == {"too few free GPUs": 2}
