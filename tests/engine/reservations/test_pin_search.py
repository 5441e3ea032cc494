"""The search for a pin: where a job runs soonest once other jobs have ended."""

from tests.engine.conftest import HarnessFactory
from tests.engine.reservations.test_standing_pins import ON, pins, run

from roost_engine.job_record import JobState
from roost_engine.plugins.plugins import Policies
from roost_engine.policies.heuristics import ShapeByShape
from roost_engine.testing.builders import bridges, job, node, share


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
