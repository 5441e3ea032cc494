"""Speeds of programs alone and in pairs, and the table of their ratios."""

from collections.abc import Iterator
from contextlib import ExitStack

import pytest
from tests.training.pair_programs import stepping

from roost_train.errors import TrainError
from roost_train.pairs.pair_measuring import (
    Speed,
    TooSlow,
    Window,
    measure,
    pairs_of,
    rate,
    rounds,
    table,
)
from roost_train.pairs.pair_process import Mark, TrainingProcess

_WINDOW = Window(0.05, 0.3)


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


def _stopped(name: str, every_s: float, stack: ExitStack) -> TrainingProcess:
    process = TrainingProcess(name, stepping(every_s))
    stack.callback(process.end)
    process.wait_until_training(60.0)
    process.stop()
    return process


def test_a_rate_is_the_steps_between_the_first_line_and_the_last() -> None:
    assert rate([Mark(10.0, 100), Mark(11.0, 130), Mark(14.0, 180)]) == 20.0
    assert rate([Mark(10.0, 100), Mark(10.0, 200)]) == 0.0


def test_measures_programs_at_the_same_time_and_stops_them(stack: ExitStack) -> None:
    quick, slow = _stopped("quick", 0.01, stack), _stopped("slow", 0.1, stack)

    speeds = measure([quick, slow], _WINDOW)

    # A program that sleeps makes at most so many steps; a busy machine makes both slower.
    assert 0 < speeds[0] <= 1 / 0.01 * 1.2
    assert 0 < speeds[1] <= 1 / 0.1 * 1.2
    assert speeds[0] > speeds[1]


def test_a_program_that_prints_too_seldom_is_named(stack: ExitStack) -> None:
    seldom = _stopped("seldom", 1.0, stack)

    with pytest.raises(TooSlow, match="seldom: fewer than 4 lines"):
        measure([seldom], Window(0.0, 0.01))


def test_a_round_has_everything_alone_and_every_pair_both_ways(stack: ExitStack) -> None:
    fleet = {name: _stopped(name, 0.01, stack) for name in ("a", "b")}
    second = {"b": _stopped("b", 0.01, stack)}

    found = [
        (each.round, each.model, each.beside)
        for each in rounds(fleet, second, Window(0.0, 0.05), 2)
    ]

    one = [("a", ""), ("b", ""), ("a", "b"), ("b", "a"), ("b", "b"), ("b", "b")]
    assert found == [(number, *each) for number in (0, 1) for each in one]


def test_pairs_are_each_once() -> None:
    assert pairs_of("abc", "c") == [("a", "b"), ("a", "c"), ("b", "c"), ("c", "c")]


def test_the_table_has_mean_and_spread_of_the_rounds() -> None:
    speeds = [
        Speed(0, "a", "", 10.0),
        Speed(0, "a", "b", 9.0),
        Speed(1, "a", "", 20.0),
        Speed(1, "a", "b", 16.0),
    ]

    (row,) = table(speeds)

    assert (row.model, row.beside) == ("a", "b")
    assert row.speed == pytest.approx((0.9 * 0.8) ** 0.5)
    assert row.spread == pytest.approx(0.08329, abs=1e-4)  # ln(0.9 / 0.8) / √2


def test_one_round_has_no_spread() -> None:
    with pytest.raises(TrainError, match="a beside b: one round has no spread"):
        table([Speed(0, "a", "", 10.0), Speed(0, "a", "b", 9.0)])


def test_a_program_that_made_no_step_is_no_row() -> None:
    with pytest.raises(TrainError, match="a beside b made no step"):
        table([Speed(0, "a", "", 10.0), Speed(0, "a", "b", 0.0)])
