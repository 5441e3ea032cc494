"""Standing pins: the first job without capacity waits in Slurm for GPUs that are still busy."""

from collections.abc import Iterable
from dataclasses import replace

import pytest
from tests.engine.conftest import HarnessFactory

from roost_engine.domain.actions import Action, PinStanding, Unpin
from roost_engine.domain.events import (
    GpuHealthChanged,
    JobChanged,
    JobStarted,
    JobWithdrawn,
    NodeSeen,
)
from roost_engine.domain.model import JobId, JobSpec, NodeName
from roost_engine.engine import EngineConfig
from roost_engine.job_record import JobState
from roost_engine.plugins.plugins import Policies
from roost_engine.policies.protocols import Allow, Defer
from roost_engine.testing.builders import (
    EngineHarness,
    bridges,
    job,
    node,
    placed,
    preempted,
    released,
    shape,
    share,
)
from roost_engine.testing.fakes import FakePreemption, ScriptedGate

ON = EngineConfig(standing_pins=True, standing_pin_after_s=0.0, stop_timeout_s=60.0)


def pins(actions: Iterable[Action]) -> dict[str, PinStanding]:
    return {action.job_id: action for action in actions if isinstance(action, PinStanding)}


def unpinned(actions: Iterable[Action]) -> list[str]:
    return [action.job_id for action in actions if isinstance(action, Unpin)]


def gpus_of(pin: PinStanding) -> tuple[str, ...]:
    pairs = pin.placement.by_node()
    return tuple(f"{name}:{gpu}" for name, indices in pairs for gpu in indices)


def run(harness: EngineHarness, job_id: str, gpus: int, limit_s: float | None) -> None:
    harness.run(job(job_id, gpus=gpus, time_limit_s=limit_s))


@pytest.fixture
def two_full_nodes(make_harness: HarnessFactory) -> EngineHarness:
    """Node a is full until 100 s, node b until 50 s."""
    harness = make_harness([node("a"), node("b")], bridges(), config=ON)
    run(harness, "1", 8, 100.0)
    run(harness, "2", 8, 50.0)
    return harness


def test_the_first_job_is_pinned_where_it_runs_soonest(two_full_nodes: EngineHarness) -> None:
    actions = two_full_nodes.queue(job("3", gpus=2), job("4", gpus=4))
    (pin,) = pins(actions).values()
    assert (pin.job_id, pin.start_s, pin.is_preempting) == ("3", 50.0, False)
    assert gpus_of(pin) == ("b:0", "b:1")
    assert two_full_nodes.state("3") is JobState.WAITING
    assert two_full_nodes.reason("3").startswith("is next: waits in Slurm for GPUs of b")


def test_a_job_that_declines_the_foreseen_place_is_pinned_there_when_its_wait_ends(
    make_harness: HarnessFactory,
) -> None:
    gate = ScriptedGate(Allow(), Defer(30.0, "waits for closer GPUs"))
    harness = make_harness([node("a")], bridges(), config=ON, policies=Policies(gate=gate))
    run(harness, "1", 8, 100.0)
    gate.asked.clear()
    assert not pins(harness.queue(job("2", gpus=4), job("3", gpus=4)))
    assert not pins(harness.advance(29.0))
    assert [asked[0] for asked in gate.asked] == ["2"]  # not at each pass
    assert set(pins(harness.advance(30.0))) == {"2"}  # no node was freed


def test_a_job_that_declines_each_foreseen_place_is_asked_when_each_wait_ends(
    make_harness: HarnessFactory,
) -> None:
    waits = (Defer(until_s, "waits for closer GPUs") for until_s in (20.0, 50.0))
    gate = ScriptedGate(Allow(), *waits)
    harness = make_harness([node("a")], bridges(), config=ON, policies=Policies(gate=gate))
    run(harness, "1", 8, 100.0)
    harness.queue(job("2", gpus=4))
    assert not pins(harness.advance(49.0))
    assert pins(harness.advance(50.0))["2"].start_s == 100.0


def test_without_standing_pins_no_job_is_pinned(make_harness: HarnessFactory) -> None:
    harness = make_harness([node("a")])
    run(harness, "1", 8, 100.0)
    assert not pins(harness.queue(job("2")))


def test_a_job_that_could_start_elsewhere_is_passed_over(two_full_nodes: EngineHarness) -> None:
    elsewhere = replace(job("3", gpus=2), starts_elsewhere=True)
    assert list(pins(two_full_nodes.queue(elsewhere, job("4", gpus=4)))) == ["4"]
    changed = replace(job("4", gpus=4), starts_elsewhere=True)
    assert unpinned(two_full_nodes.feed(JobChanged(at_s=0.0, job=changed))) == ["4"]


def test_slurm_starts_a_pinned_job_by_itself(two_full_nodes: EngineHarness) -> None:
    two_full_nodes.queue(job("3", gpus=2))
    two_full_nodes.advance(10.0)
    two_full_nodes.start_elsewhere("3", share("b", 0, 1))
    assert two_full_nodes.state("3") is JobState.RUNNING
    assert two_full_nodes.gpus("3") == ("b:0", "b:1")


def test_a_pinned_job_whose_gpus_are_free_is_placed_there(two_full_nodes: EngineHarness) -> None:
    two_full_nodes.queue(job("3", gpus=2))
    two_full_nodes.advance(10.0)
    two_full_nodes.end("2")
    assert two_full_nodes.state("3") is JobState.PLACING
    assert two_full_nodes.gpus("3") == ("b:0", "b:1")


def test_a_pinned_job_takes_a_place_that_comes_free_elsewhere(
    two_full_nodes: EngineHarness,
) -> None:
    two_full_nodes.queue(job("3", gpus=2))
    assert placed(two_full_nodes.end("1"))["3"].nodes == ("a",)


def test_a_more_urgent_job_takes_over_the_one_pin(two_full_nodes: EngineHarness) -> None:
    two_full_nodes.queue(job("3", gpus=2))
    actions = two_full_nodes.queue(job("4", gpus=4, priority=7))
    assert unpinned(actions) == ["3"]
    assert set(pins(actions)) == {"4"}


def test_a_more_urgent_job_of_the_same_demand_takes_over_too(
    two_full_nodes: EngineHarness,
) -> None:
    two_full_nodes.queue(job("3", gpus=2))
    actions = two_full_nodes.queue(job("4", gpus=2, priority=7))
    assert (unpinned(actions), set(pins(actions))) == (["3"], {"4"})


def test_a_pin_leaves_a_node_that_slurm_drains(two_full_nodes: EngineHarness) -> None:
    two_full_nodes.queue(job("3", gpus=2))
    drained = NodeSeen(at_s=0.0, node=replace(node("b"), usable=False))
    assert pins(two_full_nodes.feed(drained))["3"].placement.nodes == ("a",)


def test_a_pin_leaves_gpus_that_a_node_has_no_more(two_full_nodes: EngineHarness) -> None:
    two_full_nodes.queue(job("3", gpus=2))
    fewer = NodeSeen(at_s=0.0, node=node("b", 1))
    assert pins(two_full_nodes.feed(fewer))["3"].placement.nodes == ("a",)


def test_a_pin_leaves_a_broken_gpu(two_full_nodes: EngineHarness) -> None:
    two_full_nodes.queue(job("3", gpus=2))
    broken = GpuHealthChanged(at_s=0.0, name=NodeName("b"), gpu_index=0, fault="xid 79")
    assert "b:0" not in gpus_of(pins(two_full_nodes.feed(broken))["3"])


def test_lower_jobs_pass_only_if_they_end_before_the_pinned_job_starts(
    make_harness: HarnessFactory,
) -> None:
    harness = make_harness([node("a")], bridges(), config=ON)
    run(harness, "1", 6, 100.0)
    harness.queue(job("2", gpus=8))
    assert not placed(harness.queue(job("3", time_limit_s=200.0)))
    assert set(placed(harness.queue(job("4", time_limit_s=90.0)))) == {"4"}


@pytest.mark.parametrize("is_final", [False, True])
def test_lower_jobs_pass_only_if_they_end_a_margin_before_the_pinned_job_starts(
    make_harness: HarnessFactory, is_final: bool
) -> None:
    config = replace(ON, standing_pins_are_final=is_final, standing_pin_margin_s=20.0)
    harness = make_harness([node("a"), node("b", 2)], bridges(), config=config)
    run(harness, "1", 6, 100.0)
    harness.queue(job("2", gpus=8))
    assert placed(harness.queue(job("3", time_limit_s=90.0)))["3"].nodes == ("b",)
    assert placed(harness.queue(job("4", time_limit_s=80.0, required=["a"]))).keys() == {"4"}
    assert not placed(harness.queue(job("5", time_limit_s=81.0, required=["a"])))


def test_a_job_that_slurm_would_never_start_gives_up_its_pin(
    two_full_nodes: EngineHarness,
) -> None:
    two_full_nodes.queue(job("3", gpus=2))
    held = JobWithdrawn(at_s=0.0, job_id=JobId("3"), reason="is held")
    actions = two_full_nodes.feed(held)
    assert two_full_nodes.state("3") is JobState.RELEASED
    assert set(pins((*actions, *two_full_nodes.queue(job("4"))))) == {"4"}


def test_a_refused_pin_is_chosen_again_after_a_pause(two_full_nodes: EngineHarness) -> None:
    two_full_nodes.queue(job("3", gpus=2))
    two_full_nodes.refuse("3", "node is gone")
    assert two_full_nodes.reason("3") == "pauses after a refusal: node is gone"
    assert "3" in pins(two_full_nodes.advance(2.0))


def test_a_job_in_shadow_mode_is_never_pinned(two_full_nodes: EngineHarness) -> None:
    assert not pins(two_full_nodes.queue(job("3", gpus=2, binding=False)))


def test_a_job_is_not_pinned_while_it_cannot_fit_after_all_have_ended(
    make_harness: HarnessFactory,
) -> None:
    harness = make_harness([node("a")], bridges(), config=ON)
    harness.feed(GpuHealthChanged(at_s=0.0, name=NodeName("a"), gpu_index=0, fault="xid 79"))
    run(harness, "1", 2, 50.0)
    assert not pins(harness.queue(job("2", gpus=8)))


def test_a_job_is_pinned_once_it_has_waited_and_others_pass_until_then(
    make_harness: HarnessFactory,
) -> None:
    patient = replace(ON, standing_pin_after_s=10.0)
    harness = make_harness([node("a")], bridges(), config=patient)
    run(harness, "1", 6, 100.0)
    assert not pins(harness.queue(job("2", gpus=8)))
    assert set(placed(harness.queue(job("3", time_limit_s=500.0)))) == {"3"}
    assert set(pins(harness.advance(10.0))) == {"2"}
    assert not placed(harness.queue(job("4", time_limit_s=600.0)))


def test_the_patience_bounds_the_wait_before_the_pin(make_harness: HarnessFactory) -> None:
    config = replace(ON, standing_pin_after_s=500.0, patience_s=20.0)
    harness = make_harness([node("a")], bridges(), config=config)
    run(harness, "1", 8, 100.0)
    assert not pins(harness.queue(job("2")))
    assert set(pins(harness.advance(20.0))) == {"2"}


def test_the_first_of_the_jobs_that_have_waited_is_pinned(make_harness: HarnessFactory) -> None:
    harness = make_harness([node("a")], bridges(), config=replace(ON, standing_pin_after_s=10.0))
    run(harness, "1", 8, 100.0)
    harness.queue(job("2", gpus=2))
    harness.advance(5.0)
    harness.queue(job("3", gpus=4, priority=7))
    assert set(pins(harness.advance(10.0))) == {"2"}
    actions = (*harness.advance(15.0), *harness.queue(job("4", gpus=1)))
    assert (unpinned(actions), set(pins(actions))) == (["2"], {"3"})


def test_lower_jobs_pass_until_the_time_that_is_left_when_holders_end_early(
    make_harness: HarnessFactory,
) -> None:
    harness = make_harness([node("a")], bridges(), config=ON)
    run(harness, "1", 4, 100.0)
    run(harness, "2", 3, 40.0)
    harness.queue(job("3", gpus=8))
    harness.end("1")  # the pin is due at 40 s now, no longer at 100 s
    assert not placed(harness.queue(job("4", time_limit_s=90.0)))
    assert set(placed(harness.queue(job("5", time_limit_s=30.0)))) == {"5"}


# -- preemption by Slurm -----------------------------------------------------------------------


def preemptor(job_id: str, gpus: int = 2) -> JobSpec:
    return replace(job(job_id, gpus=gpus), preempts=("qos:low",))


def start_low(
    harness: EngineHarness, job_id: str, node_name: str, *gpus: int, spared_until_s: float = 0.0
) -> None:
    """Have Slurm start a job that it may stop from some time on, and that Roost has not placed."""
    event = JobStarted(
        at_s=harness.now_s,
        job_id=JobId(job_id),
        shares=(share(node_name, *gpus),),
        preempt_class="qos:low",
        spared_until_s=spared_until_s,
    )
    harness.feed(event)


def test_a_job_that_preempts_is_pinned_to_gpus_of_its_victims(
    make_harness: HarnessFactory,
) -> None:
    harness = make_harness([node("a", 4)], bridges(4), config=ON)
    harness.start_elsewhere("1", share("a", 0, 1))
    start_low(harness, "2", "a", 2, 3)
    (pin,) = pins(harness.queue(preemptor("3"))).values()
    assert pin.is_preempting
    assert gpus_of(pin) == ("a:2", "a:3")
    harness.end("2")
    assert harness.state("3") is JobState.PLACING


def test_a_job_that_preempts_leaves_a_node_that_slurm_drains(make_harness: HarnessFactory) -> None:
    harness = make_harness([node("a", 2), node("b", 2)], bridges(2), config=ON)
    start_low(harness, "1", "a", 0, 1)
    start_low(harness, "2", "b", 0, 1)
    assert gpus_of(pins(harness.queue(preemptor("3")))["3"]) == ("b:0", "b:1")
    drained = harness.feed(NodeSeen(at_s=0.0, node=node("b", 2, usable=False)))
    assert gpus_of(pins(drained)["3"]) == ("a:0", "a:1")
    nowhere = harness.feed(NodeSeen(at_s=0.0, node=node("a", 2, usable=False)))
    assert (unpinned(nowhere), pins(nowhere)) == (["3"], {})


def test_no_job_is_preempted_where_the_victims_do_not_suffice(
    make_harness: HarnessFactory,
) -> None:
    harness = make_harness([node("a", 4)], bridges(4), config=ON)
    harness.start_elsewhere("1", share("a", 0, 1))
    start_low(harness, "2", "a", 2, 3)
    assert not any(pin.is_preempting for pin in pins(harness.queue(preemptor("3", 4))).values())


def test_jobs_that_slurm_still_spares_are_no_victims(make_harness: HarnessFactory) -> None:
    harness = make_harness([node("a", 4), node("b", 4)], bridges(4), config=ON)
    start_low(harness, "1", "a", 0, 1, 2, 3)
    harness.advance(1.0)
    start_low(harness, "2", "b", 0, 1, 2, 3, spared_until_s=30.0)  # the younger one
    pin = pins(harness.queue(preemptor("3", 4)))["3"]
    assert (pin.is_preempting, pin.placement.nodes) == (True, ("a",))


def test_a_job_preempts_as_soon_as_slurm_spares_enough_jobs_no_more(
    make_harness: HarnessFactory,
) -> None:
    harness = make_harness([node("a", 4), node("b", 4)], bridges(4), config=ON)
    start_low(harness, "1", "a", 0, 1, 2, 3, spared_until_s=30.0)
    start_low(harness, "2", "b", 0, 1, spared_until_s=20.0)
    start_low(harness, "4", "b", 2, 3, spared_until_s=25.0)
    before = (*harness.queue(preemptor("3", 4)), *harness.advance(24.9))
    assert not any(pin.is_preempting for pin in pins(before).values())
    pin = pins(harness.advance(25.0))["3"]
    assert (pin.is_preempting, pin.placement.nodes) == (True, ("b",))
    assert "did not stop" in released(harness.advance(85.0))["3"]


def test_a_job_keeps_to_the_jobs_for_whose_gpus_it_waits(make_harness: HarnessFactory) -> None:
    """Slurm may be stopping them by then: with others, it would stop twice as many."""
    harness = make_harness([node("a", 4), node("b", 4)], bridges(4), config=ON)
    for job_id, name, end_s in (("1", "a", 50.0), ("2", "b", 60.0)):
        event = JobStarted(
            at_s=harness.now_s,
            job_id=JobId(job_id),
            shares=(share(name, 0, 1, 2, 3),),
            end_s=end_s,
            preempt_class="qos:low",
            spared_until_s=30.0,
        )
        harness.feed(event)
    first = pins(harness.queue(preemptor("3", 4)))["3"]
    assert (first.is_preempting, first.placement.nodes) == (False, ("a",))
    second = pins(harness.advance(30.0))["3"]
    assert (second.is_preempting, second.placement.nodes) == (True, ("a",))


def test_a_job_that_slurm_spares_does_not_keep_one_that_preempts_from_slurm(
    make_harness: HarnessFactory,
) -> None:
    """Where pins are final: Slurm counts the time by itself."""
    harness = make_harness([node("a", 4)], bridges(4), config=FINAL)
    start_low(harness, "1", "a", 0, 1, 2, 3, spared_until_s=30.0)
    assert "2" in released(harness.queue(preemptor("2")))


def test_two_jobs_that_preempt_get_different_victims(make_harness: HarnessFactory) -> None:
    harness = make_harness([node("a", 4), node("b", 4)], bridges(4), config=ON)
    start_low(harness, "1", "a", 0, 1, 2, 3)
    start_low(harness, "2", "b", 0, 1, 2, 3)
    first = pins(harness.queue(preemptor("3", 4)))["3"]
    second = pins(harness.queue(preemptor("4", 2)))["4"]
    assert first.placement.nodes != second.placement.nodes


def test_without_standing_pins_slurm_gets_the_job_that_preempts(
    make_harness: HarnessFactory,
) -> None:
    harness = make_harness([node("a", 4)], bridges(4))
    start_low(harness, "1", "a", 0, 1, 2, 3)
    assert "may stop other jobs" in released(harness.queue(preemptor("2")))["2"]


def test_a_job_for_which_slurm_does_not_preempt_is_handed_over(
    make_harness: HarnessFactory,
) -> None:
    harness = make_harness([node("a", 4)], bridges(4), config=ON)
    start_low(harness, "1", "a", 0, 1, 2, 3)
    harness.queue(preemptor("2"))
    assert not released(harness.advance(59.0))
    assert "did not stop" in released(harness.advance(60.0))["2"]


# -- where a pin is final ----------------------------------------------------------------------

FINAL = EngineConfig(standing_pins=True, standing_pins_are_final=True, standing_pin_after_s=10.0)


@pytest.fixture
def final_pins(make_harness: HarnessFactory) -> EngineHarness:
    """Node a is full until 100 s, node b until 50 s; a pin cannot be taken back."""
    harness = make_harness([node("a"), node("b")], bridges(), config=FINAL)
    run(harness, "1", 8, 100.0)
    run(harness, "2", 8, 50.0)
    return harness


def test_a_final_pin_is_made_after_a_wait(final_pins: EngineHarness) -> None:
    assert not pins(final_pins.queue(job("3", gpus=2)))
    assert not pins(final_pins.advance(9.9))
    assert pins(final_pins.advance(10.0))["3"].placement.nodes == ("b",)


def test_a_final_pin_stays_and_no_second_job_is_pinned(final_pins: EngineHarness) -> None:
    final_pins.queue(job("3", gpus=2))
    final_pins.advance(10.0)
    actions = (*final_pins.queue(job("4", gpus=4, priority=7)), *final_pins.advance(30.0))
    assert not unpinned(actions)
    assert not pins(actions)
    final_pins.start_elsewhere("3", share("b", 0, 1))
    assert "4" in pins(final_pins.queue(job("5")))


def test_fixed_indices_of_a_pinned_job_leave_its_pin_alone(final_pins: EngineHarness) -> None:
    spec = job("3", gpus=2)
    final_pins.queue(spec)
    final_pins.advance(10.0)
    final_pins.feed(JobChanged(at_s=11.0, job=replace(spec, fixed_indices=(0, 1))))
    assert not released(final_pins.advance(45.0))
    assert final_pins.engine.record(JobId("3")).standing is not None
    final_pins.end("2")
    assert final_pins.gpus("3") == ("b:0", "b:1")


def test_a_job_whose_final_place_is_lost_is_handed_to_slurm(final_pins: EngineHarness) -> None:
    final_pins.queue(job("3", gpus=2))
    final_pins.advance(10.0)
    drained = NodeSeen(at_s=final_pins.now_s, node=replace(node("b"), usable=False))
    assert "cannot be pinned again" in released(final_pins.feed(drained))["3"]


def test_a_job_that_preempts_is_handed_to_slurm_where_pins_are_final(
    make_harness: HarnessFactory,
) -> None:
    harness = make_harness([node("a", 4)], bridges(4), config=FINAL)
    start_low(harness, "1", "a", 0, 1, 2, 3)
    assert "2" in released(harness.queue(preemptor("2")))


def test_a_job_with_a_final_pin_is_placed_nowhere_else(final_pins: EngineHarness) -> None:
    final_pins.queue(job("3", gpus=2))
    final_pins.advance(10.0)
    assert not placed(final_pins.end("1"))  # node a is free, and the pin is on node b
    assert placed(final_pins.end("2"))["3"].nodes == ("b",)


def test_a_job_with_a_final_pin_may_have_the_same_gpu_indices_of_another_node(
    final_pins: EngineHarness,
) -> None:
    spec = job("3", gpus=2)
    final_pins.queue(spec)
    final_pins.advance(10.0)  # pinned to GPUs 0 and 1 of node b
    final_pins.feed(JobChanged(at_s=11.0, job=replace(spec, fixed_indices=(0, 1))))
    assert placed(final_pins.end("1"))["3"].nodes == ("a",)
    assert final_pins.gpus("3") == ("a:0", "a:1")


def test_no_job_takes_gpus_of_a_final_pin_though_a_more_urgent_one_waits(
    make_harness: HarnessFactory,
) -> None:
    harness = make_harness([node("a"), node("b")], bridges(), config=FINAL)
    run(harness, "1", 8, 900.0)
    run(harness, "2", 6, 100.0)
    harness.queue(job("3", gpus=8))
    harness.advance(10.0)  # pinned to node b
    harness.queue(job("4", gpus=8, priority=7))
    assert not placed(harness.queue(job("5", gpus=2, time_limit_s=300.0)))
    assert set(placed(harness.queue(job("6", gpus=2, time_limit_s=80.0)))) == {"6"}


def test_a_final_pin_may_depend_on_jobs_outside_roost(make_harness: HarnessFactory) -> None:
    harness = make_harness(
        [node("a")], bridges(), config=replace(FINAL, standing_pin_if_overtaken=True)
    )
    run(harness, "1", 8, 100.0)
    harness.queue(job("3", gpus=8))
    assert not pins(harness.advance(20.0))
    assert "3" in pins(harness.start_elsewhere("9", share("a", cpu_count=8)))


# -- Slurm acts on a pin before the update that replaces it ------------------------------------


def test_a_job_that_starts_at_its_pin_while_it_is_placed_elsewhere_and_displaced_there(
    two_full_nodes: EngineHarness,
) -> None:
    two_full_nodes.queue(job("3", gpus=2))
    (chosen,) = placed(two_full_nodes.end("1")).values()
    taken = two_full_nodes.start_elsewhere("9", share("a", *chosen.gpu_indices))
    assert placed(taken)["3"].nodes == ("a",)
    two_full_nodes.start_elsewhere("3", share("b", 0, 1))
    assert two_full_nodes.gpus("3") == ("b:0", "b:1")
    assert two_full_nodes.engine.record(JobId("3")).decision is not None


def test_a_job_that_starts_at_its_pin_before_it_is_taken_back(
    two_full_nodes: EngineHarness,
) -> None:
    two_full_nodes.queue(job("3", gpus=2))
    assert unpinned(two_full_nodes.queue(job("4", gpus=4, priority=7))) == ["3"]
    two_full_nodes.start_elsewhere("3", share("b", 0, 1))
    assert two_full_nodes.gpus("3") == ("b:0", "b:1")


def test_a_job_that_starts_at_a_pin_after_an_update_was_refused_because_it_ran(
    two_full_nodes: EngineHarness,
) -> None:
    two_full_nodes.queue(job("3", gpus=2))
    two_full_nodes.end("1")
    two_full_nodes.refuse("3", "job 3 is running, not waiting")
    two_full_nodes.start_elsewhere("3", share("b", 0, 1))
    assert two_full_nodes.gpus("3") == ("b:0", "b:1")


def test_a_job_that_slurm_starts_where_it_never_was_pinned_has_no_placement_there(
    two_full_nodes: EngineHarness,
) -> None:
    two_full_nodes.queue(job("3", gpus=2))
    assert unpinned(two_full_nodes.queue(job("4", gpus=4, priority=7))) == ["3"]
    two_full_nodes.start_elsewhere("3", share("b", 6, 7))
    assert two_full_nodes.engine.record(JobId("3")).placement is None


def test_only_the_newest_pins_of_a_job_are_remembered(two_full_nodes: EngineHarness) -> None:
    two_full_nodes.queue(job("3", gpus=2))
    for _ in range(6):
        two_full_nodes.refuse("3", "node busy")
        two_full_nodes.advance(two_full_nodes.now_s + 400.0)
    assert len(two_full_nodes.engine.record(JobId("3")).earlier_pins) <= 4


def whole_node(job_id: str) -> JobSpec:
    """A job that needs all GPUs and all 4 CPUs of a node."""
    return job(job_id, shape(8, cpus_per_node=4))


def test_a_job_that_is_overtaken_later_is_pinned_though_nothing_else_changes(
    make_harness: HarnessFactory,
) -> None:
    """Jobs that hold CPUs alone come and go: they free nothing that a pass would wait for."""
    config = replace(FINAL, standing_pin_if_overtaken=True)
    harness = make_harness([node("a", cpu_count=4)], bridges(), config=config)
    only_cpus = replace(share("a"), cpu_count=1)
    harness.start_elsewhere("1", only_cpus)
    assert not pins(harness.queue(whole_node("2")))
    assert not pins(harness.advance(20.0))
    assert pins(harness.start_elsewhere("3", only_cpus))["2"].placement.nodes == ("a",)


def test_a_job_that_is_overtaken_at_once_is_pinned_after_its_wait(
    make_harness: HarnessFactory,
) -> None:
    config = replace(FINAL, standing_pin_if_overtaken=True)
    harness = make_harness([node("a", cpu_count=4)], bridges(), config=config)
    only_cpus = replace(share("a"), cpu_count=1)
    harness.start_elsewhere("1", only_cpus)
    harness.queue(whole_node("2"))
    harness.advance(1.0)
    assert not pins(harness.start_elsewhere("3", only_cpus))
    assert "2" in pins(harness.advance(10.0))


def test_a_pinned_job_for_which_others_stop_keeps_its_plan_when_the_next_is_pinned(
    make_harness: HarnessFactory,
) -> None:
    policies = Policies(preemption=FakePreemption(lease_s=100.0))
    harness = make_harness([node("a")], bridges(), policies=policies, config=ON)
    harness.run(job("1", gpus=8, priority=1, time_limit_s=1000.0))
    assert list(pins(harness.queue(job("2", gpus=8, priority=5)))) == ["2"]
    harness.advance(100.0)
    actions = harness.queue(job("3", gpus=8, priority=4))
    assert preempted(actions) == {"1": "2"}
    actions = harness.queue(job("4", gpus=4, priority=4))
    assert unpinned(actions) == ["2"]  # another is the first that waits now
    assert harness.state("2") is JobState.CLEARING
    assert harness.reason("2") == "waits until 1 has stopped"
    assert len(harness.engine.record(JobId("2")).earlier_pins) == 1  # Slurm never had the plan
    assert placed(harness.stop("1")) == {"2": harness.placement("2")}
