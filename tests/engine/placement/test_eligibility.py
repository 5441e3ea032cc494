"""eligibility: every condition alone, and the reason it gives."""

import pytest

from roost_engine.cluster.cluster import Cluster
from roost_engine.cluster.node_sets import nodes_in
from roost_engine.domain.model import JobId, JobSpec, Shape
from roost_engine.placement.eligibility import capacity_for, could_ever_fit
from roost_engine.testing.builders import GIB, job, node, shape, share


def cluster_of_three() -> Cluster:
    cluster = Cluster()
    cluster.apply_node(node("a", features=["a100"], partitions=["main", "debug"]))
    cluster.apply_node(node("b", 4, cpu_count=8, memory_bytes=16 * GIB, features=["a100", "ib"]))
    cluster.apply_node(node("c", features=["h100"], usable=False))
    return cluster


def eligible(cluster: Cluster, spec: JobSpec, wanted: Shape | None = None) -> str:
    capacity = capacity_for(cluster, spec, wanted or spec.shapes[0])
    assert capacity.node_count == capacity.nodes.bit_count()
    return "".join(cluster.names[index] for index in nodes_in(capacity.nodes))


@pytest.mark.parametrize(
    ("spec", "names", "exclusion"),
    [
        (job("1"), "ab", ("not usable by Slurm's word", 1)),
        (job("1", partition="debug"), "a", None),
        (job("1", partition="nowhere"), "", None),
        (job("1", features=["a100"]), "ab", ("lacks feature a100", 1)),
        (job("1", features=["a100", "ib"]), "b", ("lacks feature ib", 1)),
        (job("1", features=["b200"]), "", ("lacks feature b200", 3)),
        (job("1", required=["b"]), "b", ("not in the job's node list", 2)),
        (job("1", required=["ghost"]), "", ("not in the job's node list", 3)),
        (job("1", excluded=["a", "ghost"]), "b", ("excluded by the job", 1)),
        (job("1", shape(5)), "a", ("has too few GPUs", 1)),
        (job("1", shape(1, cpus_per_node=9)), "a", ("has too few CPUs", 1)),
        (job("1", shape(1, memory_bytes=17 * GIB)), "a", ("has too little memory", 1)),
        (
            job("1", required=["a", "b"]),
            "",
            ("the job's node list is longer than its node count", 3),
        ),
    ],
)
def test_each_condition_rules_out_and_says_so(
    spec: JobSpec, names: str, exclusion: tuple[str, int] | None
) -> None:
    cluster = cluster_of_three()
    assert eligible(cluster, spec) == names
    exclusions = capacity_for(cluster, spec, spec.shapes[0]).exclusions()
    if exclusion is not None:
        assert exclusion in exclusions


def test_what_others_hold_rules_out() -> None:
    cluster = cluster_of_three()
    cluster.hold(JobId("9"), [share("a", 0, 1, 2, cpu_count=60, memory_bytes=500 * GIB)])
    assert eligible(cluster, job("1", shape(5))) == "a"
    assert eligible(cluster, job("1", shape(6))) == ""
    assert eligible(cluster, job("1", shape(1, cpus_per_node=5))) == "b"
    assert eligible(cluster, job("1", shape(1, memory_bytes=13 * GIB))) == "b"
    exclusions = capacity_for(cluster, job("1"), shape(1, cpus_per_node=5)).exclusions()
    assert ("too few free CPUs", 1) in exclusions
    exclusions = capacity_for(cluster, job("1"), shape(1, memory_bytes=13 * GIB)).exclusions()
    assert ("too little free memory", 1) in exclusions


def test_reserved_nodes_are_counted_only_where_there_is_capacity() -> None:
    cluster = cluster_of_three()
    cluster.hold(JobId("9"), [share("b", 0, 1, 2, 3)])
    capacity = capacity_for(cluster, job("1"), shape(1), reserved=0b111)
    assert (capacity.nodes, capacity.node_count, capacity.reserved) == (0, 0, 0b001)
    assert capacity.exclusions() == (
        ("not usable by Slurm's word", 1),
        ("too few free GPUs", 1),
        ("kept free for a job that waits longer", 1),
    )


@pytest.mark.parametrize(
    ("spec", "fits"),
    [
        (job("1", shape(8)), True),
        (job("1", shape(9)), False),
        (job("1", shape(9), shape(4, 2)), True),
        (job("1", shape(1, 4)), False),
        (job("1", shape(8), required=["b"]), False),
        (job("1", shape(5, 2), required=["b"]), False),
        (job("1", shape(5, 2), required=["a"]), True),  # and c, which may become usable again
        (job("1", shape(1, 2), required=["ghost"]), False),
        (job("1", partition="nowhere"), False),
    ],
)
def test_tells_what_could_never_fit(spec: JobSpec, fits: bool) -> None:
    cluster = cluster_of_three()
    cluster.hold(JobId("9"), [share("a", *range(8)), share("b", *range(4))])
    assert could_ever_fit(cluster, spec) is fits


def test_why_is_remembered_as_it_was() -> None:
    cluster = cluster_of_three()
    capacity = capacity_for(cluster, job("1"), shape(8))
    cluster.hold(JobId("9"), [share("a", 0)])
    assert capacity.exclusions() == (("has too few GPUs", 1), ("not usable by Slurm's word", 1))
