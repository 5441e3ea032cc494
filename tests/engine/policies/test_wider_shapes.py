"""A job that leaves its number of nodes open waits for tight shapes for a bounded time only."""

from dataclasses import replace
from math import inf

import pytest
from tests.engine.conftest import HarnessFactory

from roost_engine.cluster.cluster import Cluster
from roost_engine.cluster.node_sets import EVERY_NODE
from roost_engine.domain.events import ForeignMemorySeen
from roost_engine.domain.model import JobSpec, NodeName
from roost_engine.engine import EngineConfig
from roost_engine.job_record import JobState
from roost_engine.placement.tightest_shapes import TightestShapes, TightGangs
from roost_engine.plugins.plugins import Policies
from roost_engine.policies.heuristics import ShapeByShape
from roost_engine.policies.protocols import Allow, CandidatePolicy, Defer
from roost_engine.policies.wider_shapes import WiderShapes
from roost_engine.testing.builders import (
    GIB,
    EngineHarness,
    bridges,
    job,
    node,
    nvswitch,
    placed,
    released,
    shape,
    share,
)
from roost_engine.testing.fakes import ScriptedGate

OPEN = shape(8), shape(4, 2), shape(2, 4)  # `--gpus=8` without `-N`
GANG = shape(8, 2), shape(4, 4)
BOUNDED = EngineConfig(wider_after_s=30.0, patience_s=inf)


def half_full(
    make_harness: HarnessFactory,
    rule: CandidatePolicy,
    gate: ScriptedGate | None = None,
    config: EngineConfig = BOUNDED,
) -> EngineHarness:
    """Return two nodes of 8 GPUs, each with a job on 4 of them."""
    policies = Policies(candidates=rule) if gate is None else Policies(candidates=rule, gate=gate)
    harness = make_harness([node("a"), node("b")], bridges(), config=config, policies=policies)
    harness.start_elsewhere("90", share("a", 0, 1, 2, 3))
    harness.start_elsewhere("91", share("b", 0, 1, 2, 3))
    return harness


def open_job(job_id: str, priority: int = 0) -> JobSpec:
    return job(job_id, *OPEN, priority=priority)


def test_a_job_takes_a_wider_shape_once_that_has_had_capacity_for_long_enough(
    make_harness: HarnessFactory,
) -> None:
    harness = half_full(make_harness, TightestShapes())
    assert not placed(harness.queue(open_job("1")))
    assert not placed(harness.advance(29.0))
    placement = placed(harness.advance(30.0))["1"]
    assert (placement.nodes, placement.shape) == (("a", "b"), shape(4, 2))


def test_without_a_bound_a_job_waits_for_its_tightest_shape(make_harness: HarnessFactory) -> None:
    harness = half_full(make_harness, TightestShapes(), config=EngineConfig(patience_s=inf))
    assert not placed((*harness.queue(open_job("1")), *harness.advance(10_000.0)))
    assert placed(harness.end("90"))["1"].nodes == ("a",)


def test_a_job_takes_the_tight_shape_if_that_comes_free_before(
    make_harness: HarnessFactory,
) -> None:
    harness = half_full(make_harness, TightestShapes())
    harness.queue(open_job("1"))
    harness.advance(20.0)
    assert placed(harness.end("91"))["1"].nodes == ("b",)


def test_the_time_counts_from_when_a_wider_shape_has_capacity(
    make_harness: HarnessFactory,
) -> None:
    harness = half_full(make_harness, TightestShapes())
    harness.start_elsewhere("92", share("b", 4, 5, 6, 7))
    harness.queue(open_job("1"))
    harness.advance(100.0)
    assert not placed(harness.end("92"))
    assert not placed(harness.advance(129.0))
    assert placed(harness.advance(130.0))["1"].shape == shape(4, 2)


def test_capacity_that_was_lost_meanwhile_counts_anew(make_harness: HarnessFactory) -> None:
    harness = half_full(make_harness, TightestShapes())
    harness.queue(open_job("1"))
    harness.advance(20.0)
    harness.start_elsewhere("92", share("b", 4))
    assert not placed(harness.advance(30.0))
    assert not placed((*harness.end("92"), *harness.advance(59.0)))
    assert placed(harness.advance(60.0))["1"].shape == shape(4, 2)


def test_each_job_of_a_kind_waits_for_its_own_time(make_harness: HarnessFactory) -> None:
    nodes = [node(name) for name in "abcd"]
    policies = Policies(candidates=TightestShapes())
    harness = make_harness(nodes, bridges(), config=BOUNDED, policies=policies)
    for number, name in enumerate("abcd"):
        harness.start_elsewhere(str(90 + number), share(name, 0, 1, 2, 3))
    harness.queue(open_job("1"))
    harness.advance(10.0)
    harness.queue(open_job("2"))
    assert set(placed(harness.advance(30.0))) == {"1"}
    harness.start("1")
    assert not placed(harness.advance(39.0))
    assert set(placed(harness.advance(40.0))) == {"2"}


def test_the_time_of_a_job_runs_on_when_the_first_of_its_kind_is_cancelled(
    make_harness: HarnessFactory,
) -> None:
    harness = half_full(make_harness, TightestShapes())
    harness.queue(open_job("1"))
    harness.advance(10.0)
    harness.queue(open_job("2"))
    harness.advance(20.0)
    harness.end("1")
    assert not placed(harness.advance(39.0))
    assert placed(harness.advance(40.0))["2"].shape == shape(4, 2)


def test_a_wider_shape_has_no_gpus_with_foreign_memory_where_others_are_free(
    make_harness: HarnessFactory,
) -> None:
    policies = Policies(candidates=TightestShapes())
    harness = make_harness(
        [node(name) for name in "abc"], bridges(), config=BOUNDED, policies=policies
    )
    for number, name in enumerate("abc"):
        harness.start_elsewhere(str(90 + number), share(name, 0, 1, 2, 3))
    harness.feed(ForeignMemorySeen(at_s=0.0, name=NodeName("a"), gpu_index=5, used_bytes=30 * GIB))
    harness.queue(open_job("1"))
    assert placed(harness.advance(30.0))["1"].nodes == ("b", "c")


def test_the_gate_is_asked_about_the_wider_shape(make_harness: HarnessFactory) -> None:
    gate = ScriptedGate(Defer(500.0, "waits for GPUs on one node"), Allow())
    harness = half_full(make_harness, TightestShapes(), gate)
    harness.queue(open_job("1"))
    assert not placed(harness.advance(499.0))
    assert harness.reason("1") == "waits for GPUs on one node"
    assert placed(harness.advance(500.0))["1"].shape == shape(4, 2)


def test_a_job_takes_no_nodes_that_are_reserved_for_another(make_harness: HarnessFactory) -> None:
    harness = half_full(make_harness, TightestShapes(), config=replace(BOUNDED, patience_s=0.0))
    harness.queue(job("1", gpus=8, nodes=2, priority=9), open_job("2"))
    assert not placed(harness.advance(1_000.0))
    assert harness.state("2") is JobState.WAITING


def test_a_gang_waits_no_longer_either(make_harness: HarnessFactory) -> None:
    policies = Policies(candidates=TightGangs())
    nodes = [node(name) for name in "abcd"]
    harness = make_harness(nodes, bridges(), config=BOUNDED, policies=policies)
    for number, name in enumerate("abcd"):
        harness.start_elsewhere(str(90 + number), share(name, 0, 1, 2, 3))
    harness.queue(job("1", *GANG))
    assert not placed(harness.advance(29.0))
    assert placed(harness.advance(30.0))["1"].shape == shape(4, 4)


def test_a_job_that_states_its_nodes_waits_for_them(make_harness: HarnessFactory) -> None:
    harness = half_full(make_harness, TightestShapes())
    harness.queue(job("1", gpus=8))
    actions = harness.advance(10_000.0)
    assert not placed(actions)
    assert not released(actions)


@pytest.mark.parametrize(("rule", "shapes"), [(TightestShapes(), OPEN), (ShapeByShape(), ())])
def test_hints_name_the_shapes_that_a_rule_does_not_propose(
    rule: TightestShapes | ShapeByShape, shapes: tuple[object, ...]
) -> None:
    cluster = Cluster()
    for name in ("a", "b"):
        cluster.apply_node(node(name))
        cluster.apply_topology(NodeName(name), nvswitch(8), ())
    wider, spec = WiderShapes(rule), open_job("1")
    plain = [hint.shape for hint in rule.hints(cluster, spec, EVERY_NODE)]
    found = [hint.shape for hint in wider.hints(cluster, spec, EVERY_NODE)]
    assert found == (plain if not shapes else [shape(8), shape(4, 2)])
    assert wider.wider_shapes(cluster, spec) == shapes[1:]
