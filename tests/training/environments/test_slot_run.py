"""A run that stops in the placement or gate slot is the same simulation, decided one by one."""

import threading
from collections.abc import Callable
from math import inf

import numpy as np
import pytest
from numpy.typing import NDArray
from tests.training.environments.small_episodes import episodes, gangs, halves

from roost_engine.gate.model_gate import GateLimits
from roost_sim.figures.outcome import Outcome
from roost_sim.runs.simulation import simulate
from roost_train.environments.episodes import Episodes
from roost_train.environments.slot_run import Reads, Slot, SlotRun
from roost_train.environments.slot_views import GRAPH_PLACEMENT_COLUMNS
from roost_train.errors import TrainError

SLOTS = [Slot.PLACEMENT, Slot.GATE]


def played(run: SlotRun, last: bool = False) -> tuple[float, int, Outcome]:
    """Take the first allowed action each time, or the last; return reward, decisions, outcome."""
    total, count = 0.0, 0
    while (choices := run.next_choices()) is not None:
        total, count = total + choices.reward, count + 1
        run.choose(int(np.flatnonzero(choices.mask)[-1 if last else 0]))
        run.driver.engine.check_invariants()
    return total + run.take_reward(), count, run.finish()


def completion_s(outcome: Outcome, gpu_count: int | None = None) -> float:
    return sum(
        job.ended_s - job.submit_s
        for job in outcome.jobs
        if job.ended_s is not None and gpu_count in (None, job.gpu_count)
    )


def waits_s(outcome: Outcome, gpu_count: int) -> list[float]:
    return [
        job.started_s - job.submit_s
        for job in outcome.jobs
        if job.started_s is not None and job.gpu_count == gpu_count
    ]


def slot_run(drawn: Episodes, seed: int = 0, **changes: object) -> SlotRun:
    return SlotRun(drawn.run(seed), drawn.slot, **changes)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "drawn",
    [
        episodes(slot=Slot.PLACEMENT, job_count=60, teacher="learned+consolidation+patient"),
        episodes(slot=Slot.GATE, job_count=60),
        gangs(),
        halves(),
    ],
    ids=["placement", "gate", "gangs", "halves"],
)
def test_the_teachers_choices_give_the_teachers_run(drawn: Episodes) -> None:
    run, total = slot_run(drawn), 0.0
    while (choices := run.next_choices()) is not None:
        total += choices.reward
        run.choose(run.teachers_choice(choices))
    outcome, usual = run.finish(), simulate(drawn.run(0)).outcome
    assert [one.started_s for one in outcome.jobs] == [one.started_s for one in usual.jobs]
    assert [one.ended_s for one in outcome.jobs] == [one.ended_s for one in usual.jobs]
    assert total + run.take_reward() == pytest.approx(-completion_s(outcome))
    assert run.driver.engine.fallback_count == 0
    assert not any(run.driver.engine.fault_counts.values())


def test_declined_offers_wait_for_a_rack_and_taken_ones_run_slowly() -> None:
    _, _, taken = played(slot_run(gangs()))
    _, count, declined = played(slot_run(gangs()), last=True)
    assert count == 4
    assert waits_s(declined, 8) == pytest.approx([80.0] * 4)
    assert completion_s(declined, 8) == pytest.approx(4 * 4_080.0)
    assert completion_s(taken) > 1.5 * completion_s(declined)


def test_a_job_declines_no_longer_than_it_may() -> None:
    limits = GateLimits(defer_s=10.0, most_wait_s=25.0)
    _, _, outcome = played(slot_run(gangs(), limits=limits), last=True)
    assert waits_s(outcome, 8)[0] == pytest.approx(25.0)


def test_the_agent_picks_the_candidate() -> None:
    def waits(wanted: Callable[[NDArray[np.float32]], int]) -> list[float]:
        run = slot_run(halves())
        while (choices := run.next_choices()) is not None:
            run.choose(wanted(choices.seen.jobs[:, 4]))  # leftover_frac
        return waits_s(run.finish(), 4)

    assert waits(lambda left: int(np.argmin(left))) == [0.0] * 3
    assert waits(lambda left: int(np.argmax(left))) == pytest.approx([998.0] * 3)


def test_of_many_candidates_the_best_by_the_heuristic_are_shown() -> None:
    run = slot_run(halves(), candidate_count=3)
    choices = run.next_choices()
    assert choices is not None
    assert choices.mask.tolist() == [True, True, True, False]
    run.close()


@pytest.mark.parametrize("slot", SLOTS)
def test_decisions_before_the_run_is_warm_are_the_teachers(slot: Slot) -> None:
    drawn = gangs() if slot is Slot.GATE else halves()
    run = slot_run(drawn, warm_count=6)
    choices = run.next_choices()
    assert choices is not None
    assert run.driver.arrived_count >= 6
    assert choices.reward == 0.0
    run.close()


def test_a_masked_action_is_refused_and_so_is_one_that_is_not_due() -> None:
    run = slot_run(halves())
    with pytest.raises(ValueError, match="may not be chosen"):
        run.choose(0)
    choices = run.next_choices()
    assert choices is not None
    with pytest.raises(ValueError, match="may not be chosen"):
        run.choose(choices.none)
    run.close()
    assert run.next_choices() is None


def test_what_goes_wrong_in_the_simulation_is_raised_where_it_is_played() -> None:
    run = slot_run(halves())
    run._rate = lambda driver, gpu_count: 1 / 0
    with pytest.raises(ZeroDivisionError):
        run.next_choices()


def test_runs_that_are_given_up_leave_no_thread() -> None:
    before = set(threading.enumerate())
    runs = [slot_run(drawn) for drawn in (halves(), gangs()) for _ in range(3)]
    for place, run in enumerate(runs):
        if place % 3:
            assert run.next_choices() is not None
        if place % 3 == 2:
            run.choose(0)
        run.close()
    for one in set(threading.enumerate()) - before:
        one.join(60.0)
        assert not one.is_alive()


@pytest.mark.parametrize("reads", list(Reads))
def test_what_candidates_would_come_to_by_hand(reads: Reads) -> None:
    # The first pair of jobs and the job of a whole node. Packed behind the first job, the second
    # leaves a node free; on the other node it lets the third wait 998 s. All that comes later is
    # packed again by the teacher.
    run = slot_run(halves(reads=reads), reads=reads)
    assert run.next_choices() is not None
    run.choose(0)
    due = run.next_choices()
    assert due is not None
    nodes = [0, len(due.seen.jobs) - 1]
    packed, spread = run.outcomes(nodes, inf, None)
    assert packed - spread == pytest.approx(998.0)
    # Until 200 s after it: the third job ends after 100 s, or waits.
    packed, spread = run.outcomes(nodes, 200.0, None)
    assert (packed, spread) == pytest.approx((-(2 * 200.0 + 100.0), -(2 * 200.0 + 199.0)))
    run.close()


@pytest.mark.parametrize("slot", SLOTS)
def test_a_run_with_copies_is_the_run_without(slot: Slot) -> None:
    drawn = gangs() if slot is Slot.GATE else halves()
    usual = simulate(drawn.run(0)).outcome
    run, tried, total = slot_run(drawn), 0, 0.0
    while (choices := run.next_choices()) is not None:
        total += choices.reward
        teachers = run.teachers_choice(choices)
        run.outcomes(np.flatnonzero(choices.mask).tolist(), inf, lambda one: 0)
        rest = run.outcomes([teachers], inf, None)
        assert -completion_s(usual) == pytest.approx(total + rest[0])
        run.choose(teachers)
        tried += 1
    assert tried >= 2
    assert [one.ended_s for one in run.finish().jobs] == [one.ended_s for one in usual.jobs]


def test_a_copy_that_fails_is_one_error_and_the_run_goes_on() -> None:
    def broken(choices: object) -> int:
        raise ValueError("no idea")

    run = slot_run(halves())
    choices = run.next_choices()
    assert choices is not None
    with pytest.raises(ValueError, match="may not be chosen"):
        run.outcomes([choices.none], inf, None)
    with pytest.raises(TrainError, match="run ahead failed: ValueError: no idea"):
        run.outcomes([0], inf, broken)
    assert len(run.outcomes([0], inf, None)) == 1
    run.close()


def test_candidates_that_a_graph_cannot_tell_apart_are_shown_once() -> None:
    def rows(reads: Reads) -> NDArray[np.float32]:
        run = slot_run(halves(), reads=reads)
        choices = run.next_choices()
        assert choices is not None
        run.close()
        return choices.seen.jobs

    assert len(rows(Reads.SCORE)) == 12  # six pairs of GPUs on each of two nodes, all alike
    alone = rows(Reads.GRAPH)
    assert alone.shape[1] == len(GRAPH_PLACEMENT_COLUMNS)
    assert len(np.unique(alone, axis=0)) == len(alone) < 12
