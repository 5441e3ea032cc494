"""Which jobs may pass one without capacity: by EASY backfill, none, or all until patience ends."""

from math import inf

import pytest
from tests.engine.conftest import HarnessFactory

from roost_engine.cluster.cluster import Cluster
from roost_engine.cluster.node_sets import nodes_in
from roost_engine.domain.config import EngineConfig, Passing
from roost_engine.domain.model import JobId, JobSpec
from roost_engine.placement.reservation import reserve
from roost_engine.testing.builders import EngineHarness, bridges, job, node, shape, share


def easy(make_harness: HarnessFactory, *names: str) -> EngineHarness:
    nodes = [node(name) for name in names]
    return make_harness(nodes, bridges(), config=EngineConfig(patience_s=0.0))


def placed_of(harness: EngineHarness, *job_ids: str) -> list[bool]:
    waiting = harness.engine.waiting()
    return [JobId(job_id) not in waiting for job_id in job_ids]


def test_a_job_that_will_be_gone_in_time_passes_and_others_do_not(
    make_harness: HarnessFactory,
) -> None:
    harness = easy(make_harness, "a")
    harness.run(job("1", gpus=4, time_limit_s=100.0))
    # Job 2 needs all eight GPUs: by the limit of job 1 it starts 100 s after that one did.
    harness.queue(
        job("2", gpus=8, time_limit_s=100.0, submit_s=1.0),
        job("3", gpus=4, time_limit_s=101.0, submit_s=2.0),
        job("4", gpus=4, submit_s=3.0),
        job("5", gpus=4, time_limit_s=90.0, submit_s=4.0),
    )
    assert placed_of(harness, "2", "3", "4", "5") == [False, False, False, True]


def test_a_job_on_nodes_that_are_not_reserved_passes(make_harness: HarnessFactory) -> None:
    harness = easy(make_harness, "a", "b")
    harness.run(job("1", gpus=8, time_limit_s=50.0), job("2", gpus=6, time_limit_s=500.0))
    # The node of job 1 is free soonest and is reserved; the other one has two GPUs for any job.
    harness.queue(
        job("3", gpus=8, time_limit_s=100.0, submit_s=1.0),
        job("4", gpus=2, time_limit_s=10_000.0, submit_s=2.0),
    )
    assert placed_of(harness, "3", "4") == [False, True]


def test_a_job_that_is_about_to_start_is_reckoned_with(make_harness: HarnessFactory) -> None:
    harness = easy(make_harness, "a")
    harness.queue(job("1", gpus=4, time_limit_s=100.0))  # placed; Slurm has not started it yet
    harness.queue(
        job("2", gpus=8, submit_s=1.0),
        job("3", gpus=4, time_limit_s=101.0, submit_s=2.0),
        job("4", gpus=4, time_limit_s=99.0, submit_s=3.0),
    )
    assert placed_of(harness, "2", "3", "4") == [False, False, True]


def test_no_job_passes_when_none_may(make_harness: HarnessFactory) -> None:
    config = EngineConfig(passing=Passing.NOBODY, patience_s=0.0)
    harness = make_harness([node("a")], bridges(), config=config)
    harness.run(job("1", gpus=4))
    harness.queue(job("2", gpus=8, submit_s=1.0), job("3", gpus=1, submit_s=2.0))
    assert placed_of(harness, "2", "3") == [False, False]
    harness.end("1")
    assert placed_of(harness, "2", "3") == [True, False]


@pytest.mark.parametrize(
    ("ends_s", "indices", "start_s"),
    [
        ({"x": 40.0, "y": 30.0, "z": 20.0}, [1, 2], 30.0),
        ({"x": 5.0, "y": 30.0, "z": 20.0}, [0, 2], 20.0),  # job x is overdue: it ends now
        ({"x": 40.0, "y": 30.0}, [0, 1], 40.0),  # the end of job z is unknown
        ({"x": 40.0}, [0, 1], inf),
    ],
)
def test_reserves_the_nodes_that_are_free_soonest(
    ends_s: dict[str, float], indices: list[int], start_s: float
) -> None:
    cluster = Cluster()
    for name, holder in zip("abc", "xyz", strict=True):
        cluster.apply_node(node(name))
        cluster.hold(JobId(holder), [share(name, *range(8))])
    known = sorted((end_s, JobId(name)) for name, end_s in ends_s.items())
    wide = shape(4, 2)
    reservation = reserve(cluster, job("1", wide), wide, known, at_s=10.0)
    assert (nodes_in(reservation.nodes), reservation.start_s) == (indices, start_s)


def reserved_names(cluster: Cluster, spec: JobSpec) -> str:
    indices = reserve(cluster, spec, spec.shapes[0], (), at_s=0.0).nodes
    return "".join(cluster.names[index] for index in nodes_in(indices))


def test_it_reserves_the_nodes_with_most_free_gpus_where_no_end_is_known() -> None:
    cluster = Cluster()
    for name, taken in (("a", 3), ("b", 1), ("c", 2), ("d", 2)):
        cluster.apply_node(node(name))
        cluster.hold(JobId(name), [share(name, *range(taken))])
    assert reserved_names(cluster, job("1", gpus=8)) == "b"
    assert reserved_names(cluster, job("1", gpus=8, nodes=2)) == "bc"
    assert reserved_names(cluster, job("1", gpus=8, nodes=2, required=["a"])) == "ab"
    assert reserved_names(cluster, job("1", gpus=8, excluded=["b"])) == "c"
    assert reserved_names(cluster, job("1", gpus=8, nodes=5)) == ""


def test_reserves_nothing_on_a_node_that_slurm_would_not_use() -> None:
    cluster = Cluster()
    cluster.apply_node(node("a"))
    assert reserved_names(cluster, job("1", features=["h100"])) == ""
