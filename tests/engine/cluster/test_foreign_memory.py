"""foreign_memory: GPUs whose memory processes of no job use are given out last."""

from random import Random

import pytest
from tests.engine.conftest import HarnessFactory
from tests.engine.engine_questions import decision

from roost_engine.cluster.cluster import Cluster
from roost_engine.domain.events import ForeignMemorySeen, NodeLost, NodeSeen
from roost_engine.domain.model import JobId, NodeName
from roost_engine.testing.builders import (
    GIB,
    EngineHarness,
    bridges,
    job,
    node,
    shape,
    share,
    topology,
)

A, B = NodeName("a"), NodeName("b")


def see(harness: EngineHarness, name: NodeName, gpu: int, gib: int = 40) -> None:
    seen = ForeignMemorySeen(at_s=harness.now_s, name=name, gpu_index=gpu, used_bytes=gib * GIB)
    assert harness.feed(seen) == ()


def test_another_gpu_of_the_node_is_given_out_first(make_harness: HarnessFactory) -> None:
    harness = make_harness([node("a", 4)], bridges(4))
    see(harness, A, 0)
    harness.run(job("1"))
    assert harness.gpus("1") == ("a:1",)
    reasons = dict(decision(harness, "1").exclusions)
    assert [count for why, count in reasons.items() if "processes of no job" in why] == [1]


def test_a_pair_without_it_on_another_node_is_given_out_first(
    make_harness: HarnessFactory,
) -> None:
    harness = make_harness([node("a"), node("b")], bridges())
    for gpu in range(0, 8, 2):  # one of each linked pair
        see(harness, A, gpu)
    harness.run(job("1", gpus=2))
    assert harness.placement("1").nodes == ("b",)
    assert decision(harness, "1").neighbour == ""


def test_where_nothing_else_is_free_the_job_goes_there_and_the_decision_says_so(
    make_harness: HarnessFactory,
) -> None:
    harness = make_harness([node("a", 2)], bridges(2))
    see(harness, A, 1, gib=40)
    harness.run(job("1"), job("2"))
    assert (harness.gpus("1"), harness.gpus("2")) == (("a:0",), ("a:1",))
    assert decision(harness, "1").neighbour == ""
    said = decision(harness, "2").neighbour
    assert said.startswith("processes of no job use 40 GiB of GPU 1 of a")


def test_a_job_takes_a_less_preferred_shape_without_it(make_harness: HarnessFactory) -> None:
    harness = make_harness([node("a", 4), node("b", 4)], bridges(4))
    for name in (A, B):
        see(harness, name, 3)
    harness.run(job("1", shape(4), shape(2, 2)))
    assert harness.placement("1").nodes == ("a", "b")
    assert 3 not in harness.placement("1").gpu_indices
    harness.run(job("2", shape(2)))
    assert 3 in harness.placement("2").gpu_indices


def test_once_the_processes_are_gone_the_gpu_is_like_any_other(
    make_harness: HarnessFactory,
) -> None:
    harness = make_harness([node("a", 4)], bridges(4))
    see(harness, A, 0)
    see(harness, A, 0, gib=0)
    harness.run(job("1"))
    assert harness.gpus("1") == ("a:0",)


@pytest.mark.parametrize("how", ["lost", "smaller", "unknown", "beyond"])
def test_a_gpu_that_the_node_does_not_have_is_forgotten(
    make_harness: HarnessFactory, how: str
) -> None:
    harness = make_harness([node("a", 4)], bridges(4))
    if how == "unknown":
        see(harness, NodeName("nowhere"), 0)
    elif how == "beyond":
        see(harness, A, 4)
    else:
        see(harness, A, 3)
        harness.feed(
            NodeLost(at_s=0.0, name=A) if how == "lost" else NodeSeen(at_s=0.0, node=node("a", 2))
        )
    assert harness.engine.cluster.foreign.used_bytes == {}


def test_the_job_that_waits_longest_is_not_kept_waiting(make_harness: HarnessFactory) -> None:
    harness = make_harness([node("a", 2)], bridges(2))
    for gpu in range(2):
        see(harness, A, gpu)
    harness.start_elsewhere("on-a", share("a", 0))
    harness.queue(job("1", gpus=2))
    harness.end("on-a")
    assert harness.gpus("1") == ("a:0", "a:1")


@pytest.mark.parametrize("seed", range(20))
def test_what_is_free_is_as_before_a_search_without_these_gpus(seed: int) -> None:
    rng, cluster = Random(seed), Cluster()
    for name in ("a", "b", "c"):
        cluster.apply_node(node(name))
        cluster.apply_topology(NodeName(name), bridges(), topology(name, bridges()).gpu_uuids)
        cluster.set_foreign_memory(NodeName(name), rng.randrange(8), GIB)
        cluster.hold(JobId(f"on-{name}"), [share(name, *sorted(rng.sample(range(8), 4)))])
    cluster.take_freed_nodes()
    before = cluster.free_mask[:3].tolist()
    marked = [sum(1 << gpu for at, gpu in cluster.foreign.used_bytes if at == n) for n in range(3)]
    with cluster.foreign.withheld() as node_count:
        clean = [mask & ~own for mask, own in zip(before, marked, strict=True)]
        assert cluster.free_mask[:3].tolist() == clean
        assert node_count == sum(mask != own for mask, own in zip(before, clean, strict=True))
    assert cluster.free_mask[:3].tolist() == before
    assert not cluster.take_freed_nodes()
    cluster.check_invariants()
