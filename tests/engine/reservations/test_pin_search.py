"""The search for a pin: where a job runs soonest once other jobs have ended."""

from dataclasses import replace

import pytest
from tests.engine.conftest import HarnessFactory
from tests.engine.reservations.test_standing_pins import (
    ON,
    gpus_of,
    pins,
    preemptor,
    run,
    start_low,
)

from roost_engine.domain.actions import Action
from roost_engine.domain.events import ForeignMemorySeen
from roost_engine.domain.model import NodeName
from roost_engine.job_record import JobState
from roost_engine.plugins.plugins import Policies
from roost_engine.policies.heuristics import ShapeByShape
from roost_engine.testing.builders import (
    GIB,
    EngineHarness,
    bridges,
    job,
    node,
    placed,
    shape,
    share,
)


def test_a_pin_moves_only_to_a_sooner_place(make_harness: HarnessFactory) -> None:
    harness = make_harness([node("a"), node("b")], bridges(), config=ON)
    for job_id, limit_s in (("1", 100.0), ("2", 80.0), ("3", 60.0), ("4", 40.0)):
        run(harness, job_id, 4, limit_s)
    first = pins(harness.queue(job("5", gpus=8)))["5"]
    assert first.start_s == 60.0  # node b: jobs 3 and 4
    assert not pins(harness.end("4"))
    moved = pins(harness.end("1"))
    assert not moved  # node a is free at 80 s only
    assert pins(harness.end("2")) == {} or harness.state("5") is JobState.PLACING
    assert harness.gpus("5")[0] == "a:0"


def test_a_gang_is_pinned_to_the_nodes_that_come_free_first(make_harness: HarnessFactory) -> None:
    harness = make_harness([node(name) for name in "abc"], bridges(), config=ON)
    harness.run(job("1", gpus=8, nodes=2, time_limit_s=100.0))
    run(harness, "2", 8, 50.0)
    pin = pins(harness.queue(job("3", gpus=8, nodes=2)))["3"]
    assert (pin.placement.nodes, pin.start_s) == (("a", "c"), 100.0)


def test_a_gang_is_pinned_to_later_nodes_where_the_first_have_other_gpus_free(
    make_harness: HarnessFactory,
) -> None:
    harness = make_harness([node(name, 4) for name in "abc"], bridges(4), config=ON)
    harness.start_elsewhere("8", share("a", 0, 1))
    harness.start_elsewhere("9", share("b", 2, 3))
    harness.run(job("1", gpus=2, required=["b"], time_limit_s=50.0))
    harness.run(job("2", gpus=4, required=["c"], time_limit_s=100.0))
    pin = pins(harness.queue(job("3", gpus=2, nodes=2)))["3"]
    assert (pin.placement.nodes[-1], pin.start_s) == ("c", 100.0)


@pytest.mark.parametrize("is_final", [False, True])
def test_a_pin_moves_to_nodes_of_which_more_are_free(
    make_harness: HarnessFactory, *, is_final: bool
) -> None:
    """Jobs end before their limits: the nodes that did come free are kept for the pinned job."""
    config = replace(ON, standing_pins_are_final=is_final)
    harness = make_harness([node(name) for name in "abc"], bridges(), config=config)
    harness.run(job("1", gpus=8, nodes=2, time_limit_s=100.0))
    run(harness, "2", 8, 200.0)
    first = pins(harness.queue(job("3", gpus=8, nodes=2)))["3"]
    assert (first.placement.nodes, first.start_s) == (("a", "b"), 100.0)
    actions = (*harness.end("2"), *harness.queue(job("4", time_limit_s=150.0)))
    moved = {one.placement.nodes: one.start_s for one in pins(actions).values()}
    assert moved == ({} if is_final else {("a", "c"): 100.0})
    assert ("4" in placed(actions)) == is_final
    assert "5" in placed(harness.queue(job("5", time_limit_s=90.0)))


def test_nodes_closer_together_go_before_those_that_come_free_first(
    make_harness: HarnessFactory,
) -> None:
    nodes = [node("a", rack="r"), node("b", rack="r"), node("c", rack="s")]
    harness = make_harness(nodes, bridges(), config=ON)
    harness.run(job("1", gpus=8, nodes=2, time_limit_s=100.0))
    run(harness, "2", 8, 50.0)
    pin = pins(harness.queue(job("3", gpus=8, nodes=2)))["3"]
    assert (pin.placement.nodes, pin.start_s) == (("a", "b"), 100.0)


def test_a_job_without_a_known_end_is_awaited_last(make_harness: HarnessFactory) -> None:
    harness = make_harness([node("a"), node("b")], bridges(), config=ON)
    run(harness, "1", 8, None)
    run(harness, "2", 8, 500.0)
    assert pins(harness.queue(job("3", gpus=8)))["3"].placement.nodes == ("b",)


def test_slurm_may_choose_the_gpus_of_a_pinned_gang(make_harness: HarnessFactory) -> None:
    policies = Policies(candidates=ShapeByShape(any_gpus=True))
    nodes = [node("a", 4), node("b", 4)]
    harness = make_harness(nodes, bridges(4), config=ON, policies=policies)
    harness.start_elsewhere("8", share("a", 0, 1))
    harness.start_elsewhere("9", share("b", 2, 3))
    run(harness, "1", 2, 100.0)
    assert not pins(harness.queue(job("2", gpus=2, nodes=2)))["2"].placement.is_exact
    harness.start_elsewhere("2", share("a", 2, 3), share("b", 0, 1))
    assert harness.placement("2").nodes == ("a", "b")


def see_foreign(harness: EngineHarness, name: str, gpu: int, gib: int = 40) -> tuple[Action, ...]:
    """Report what processes of no job use of a GPU's memory."""
    return harness.feed(
        ForeignMemorySeen(
            at_s=harness.now_s, name=NodeName(name), gpu_index=gpu, used_bytes=gib * GIB
        )
    )


@pytest.mark.parametrize("limit_s", [50.0, None])
def test_of_two_places_that_are_free_as_soon_the_one_without_foreign_memory(
    make_harness: HarnessFactory, limit_s: float | None
) -> None:
    harness = make_harness([node("a"), node("b")], bridges(), config=ON)
    run(harness, "1", 8, limit_s)
    run(harness, "2", 8, limit_s)
    see_foreign(harness, "a", 3)
    pin = pins(harness.queue(job("3", gpus=8)))["3"]
    assert pin.placement.nodes == ("b",)
    assert pin.decision.get().neighbour == ""


def test_no_job_waits_longer_for_gpus_without_foreign_memory(make_harness: HarnessFactory) -> None:
    harness = make_harness([node("a"), node("b")], bridges(), config=ON)
    run(harness, "1", 8, 50.0)
    run(harness, "2", 8, 51.0)
    see_foreign(harness, "a", 3)
    pin = pins(harness.queue(job("3", gpus=8)))["3"]
    assert (pin.placement.nodes, pin.start_s) == (("a",), 50.0)
    said = pin.decision.get().neighbour
    assert said == (
        "processes of no job use 40 GiB of GPU 3 of a, and no other place is free as soon"
    )


def test_no_job_is_pinned_farther_apart_for_foreign_memory(make_harness: HarnessFactory) -> None:
    harness = make_harness([node(name, 4) for name in "abc"], bridges(4), config=ON)
    for job_id in ("1", "2", "3"):
        run(harness, job_id, 4, 50.0)
    for name in "abc":
        see_foreign(harness, name, 3)
    pin = pins(harness.queue(job("4", shape(4), shape(2, 2))))["4"]
    assert len(pin.placement.nodes) == 1


@pytest.mark.parametrize("preempts", [False, True])
def test_no_gang_is_pinned_farther_apart_for_foreign_memory(
    make_harness: HarnessFactory, *, preempts: bool
) -> None:
    """Without foreign memory the rack has badly linked GPUs only, which score lower."""
    nodes = [node("a", 4, rack="r1"), node("b", 4, rack="r1"), node("c", 4, rack="r2")]
    harness = make_harness(nodes, bridges(4), config=ON)
    start_low(harness, "1", "a", 0, 1, 2, 3)
    harness.start_elsewhere("x", share("b", 3))
    harness.start_elsewhere("y", share("c", 0, 1))
    see_foreign(harness, "a", 0)
    gang = job("2", gpus=2, nodes=2)
    if preempts:
        gang = replace(gang, preempts=preemptor("2").preempts)
    assert pins(harness.queue(gang))["2"].placement.nodes == ("a", "b")


@pytest.mark.parametrize("is_final", [False, True])
def test_a_pin_leaves_gpus_on_which_foreign_memory_is_seen(
    make_harness: HarnessFactory, *, is_final: bool
) -> None:
    """It stays where Slurm takes no other pin, and where no other place is free as soon."""
    config = replace(ON, standing_pins_are_final=is_final)
    harness = make_harness([node("a"), node("b")], bridges(), config=config)
    run(harness, "1", 8, 50.0)
    run(harness, "2", 8, 50.0)
    (first,) = pins(harness.queue(job("3", gpus=8)))["3"].placement.nodes
    other = {"a": "b", "b": "a"}[first]
    moved = pins(see_foreign(harness, first, 0))
    assert [pin.placement.nodes for pin in moved.values()] == ([] if is_final else [(other,)])
    assert not pins(see_foreign(harness, other, 0))
    assert not pins(harness.advance(10.0))
    assert not pins(see_foreign(harness, other, 0, gib=0))


def test_a_job_preempts_on_gpus_without_foreign_memory_where_as_few_jobs_stop(
    make_harness: HarnessFactory,
) -> None:
    harness = make_harness([node("a", 2), node("b", 2)], bridges(2), config=ON)
    start_low(harness, "1", "a", 0, 1)
    start_low(harness, "2", "b", 0, 1)  # the youngest goes first
    see_foreign(harness, "b", 1)
    assert gpus_of(pins(harness.queue(preemptor("3")))["3"]) == ("a:0", "a:1")


def test_no_further_job_is_preempted_for_foreign_memory(make_harness: HarnessFactory) -> None:
    harness = make_harness([node("a", 2), node("b", 2)], bridges(2), config=ON)
    start_low(harness, "1", "a", 0)
    start_low(harness, "2", "a", 1)
    start_low(harness, "3", "b", 0, 1)
    see_foreign(harness, "b", 1)
    pin = pins(harness.queue(preemptor("4")))["4"]
    assert gpus_of(pin) == ("b:0", "b:1")
    assert pin.decision.get().neighbour.endswith("and no other place needed as few stops")
