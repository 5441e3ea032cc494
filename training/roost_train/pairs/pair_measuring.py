"""Speeds of programs alone and beside each other on one GPU, and the table that sharing reads.

Every program is started once and stays warm; all but those that are measured are stopped, so their
memory stays on the GPU and they compute nothing.
"""

import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import TypeVar

import numpy as np

from roost_train.errors import TrainError
from roost_train.pairs.pair_process import Mark, TrainingProcess

Name = TypeVar("Name")

_FEWEST_MARKS = 4
_LONGEST_WINDOWS = 10
_POLL_S = 0.005


@dataclass(frozen=True, slots=True)
class Window:
    """How long is measured.

    Attributes:
        settle_s: that is not counted, after the programs continue.
        length_s: that is counted; longer, up to ten times, where a program prints too few lines.
    """

    settle_s: float = 5.0
    length_s: float = 20.0


@dataclass(frozen=True, slots=True)
class Speed:
    """One measurement.

    Attributes:
        round: in which, from 0.
        model: whose speed it is.
        beside: the other program; "" alone.
        steps_per_s: its speed.
    """

    round: int
    model: str
    beside: str
    steps_per_s: float


@dataclass(frozen=True, slots=True)
class PairRow:
    """A row of the table of pairs: see docs/sharing.md."""

    model: str
    beside: str
    speed: float
    spread: float


class TooSlow(TrainError):
    """A program printed too few lines while it was measured."""

    def __init__(self, name: str, seconds: float) -> None:
        super().__init__(
            f"{name}: fewer than {_FEWEST_MARKS} lines with a number of steps in {seconds:g} s;"
            " let it print more often, or measure longer (--seconds)"
        )
        self.name = name


def measure(running: Sequence[TrainingProcess], window: Window) -> tuple[float, ...]:
    """Continue some programs, measure them at the same time, stop them.

    Returns:
        Steps per second of each.

    Raises:
        ProgramEnded: one of them ended.
        TooSlow: one of them printed too few lines.
    """
    for each in running:
        each.resume()
    try:
        time.sleep(window.settle_s)
        begin_s = time.monotonic()
        while True:
            time.sleep(_POLL_S)
            spent_s = time.monotonic() - begin_s
            for each in running:
                each.check()
            marks = [each.marks(begin_s) for each in running]
            slow = [len(found) < _FEWEST_MARKS for found in marks]
            if spent_s >= window.length_s and not any(slow):
                return tuple(rate(found) for found in marks)
            if spent_s >= _LONGEST_WINDOWS * window.length_s:
                raise TooSlow(running[slow.index(True)].name, spent_s)
    finally:
        for each in running:
            each.stop()


def rate(marks: Sequence[Mark]) -> float:
    """Return steps per second between the first and the last line.

    Lines that were read at once are one: a program may write several in one go.
    """
    first, last = marks[0], marks[-1]
    if last.at_s <= first.at_s or last.steps < first.steps:
        return 0.0
    return (last.steps - first.steps) / (last.at_s - first.at_s)


def rounds(
    fleet: Mapping[str, TrainingProcess],
    second: Mapping[str, TrainingProcess],
    window: Window,
    count: int,
) -> Iterator[Speed]:
    """Measure every program alone and every pair, so many times over.

    Args:
        fleet: a stopped program of each name.
        second: of names that are also measured beside themselves, another of the same.
        window: of each measurement.
        count: of rounds.

    Raises:
        ProgramEnded, TooSlow: see measure.
    """
    for number in range(count):
        for name, each in fleet.items():
            yield Speed(number, name, "", measure([each], window)[0])
        for a, b in pairs_of(fleet, second):
            partner = second[b] if a == b else fleet[b]
            speed_a, speed_b = measure([fleet[a], partner], window)
            yield Speed(number, a, b, speed_a)
            yield Speed(number, b, a, speed_b)


def pairs_of(names: Iterable[Name], twice: Iterable[Name]) -> list[tuple[Name, Name]]:
    """Return every pair of names once, and those that are measured beside themselves."""
    return [*combinations(names, 2), *((name, name) for name in twice)]


def table(speeds: Iterable[Speed]) -> list[PairRow]:
    """Return the mean of the relative speed of each ordered pair, and its spread over rounds.

    Raises:
        TrainError: a pair has one round alone, or a speed is 0.
    """
    alone = dict[tuple[int, str], float]()
    found = defaultdict[tuple[str, str], list[float]](list)
    for each in speeds:
        if each.steps_per_s <= 0:
            raise TrainError(f"{each.model} beside {each.beside or 'nothing'} made no step")
        if not each.beside:
            alone[each.round, each.model] = each.steps_per_s
            continue
        own = alone[each.round, each.model]
        found[each.model, each.beside].append(float(np.log(each.steps_per_s / own)))
    rows = list[PairRow]()
    for (model, beside), logs in sorted(found.items()):
        if len(logs) < 2:
            raise TrainError(f"{model} beside {beside}: one round has no spread; want two or more")
        rows.append(
            PairRow(model, beside, float(np.exp(np.mean(logs))), float(np.std(logs, ddof=1)))
        )
    return rows
