"""A program is measured by the steps it prints, and does nothing while it is stopped."""

import os
import time
from collections.abc import Callable, Iterator

import pytest
from tests.training.pair_programs import ending, stepping

from roost_train.pairs.pair_process import STEP_PATTERN, ProgramEnded, TrainingProcess

Start = Callable[..., TrainingProcess]


@pytest.fixture
def start() -> Iterator[Start]:
    made = list[TrainingProcess]()

    def make(command: str, pattern: str = STEP_PATTERN) -> TrainingProcess:
        made.append(TrainingProcess("bert", command, pattern))
        return made[-1]

    yield make
    for each in made:
        each.end()


@pytest.mark.parametrize(
    "form",
    ["step {}", "Steps: {}", "epoch 3 step={} loss 0.5", "[step {}/9000]", "\r 5% step {} 3 it/s"],
)
def test_counts_the_steps_of_many_ways_to_print_them(form: str, start: Start) -> None:
    process = start(stepping(0.01, form))

    process.wait_until_training(60.0)

    steps = [mark.steps for mark in process.marks(0.0)]
    assert steps == list(range(1, len(steps) + 1))


def test_a_pattern_of_ones_own_finds_other_words(start: Start) -> None:
    process = start(stepping(0.01, "it 7: batch <{}>"), r"batch <(\d+)>")

    process.wait_until_training(60.0)

    assert [mark.steps for mark in process.marks(0.0)][:2] == [1, 2]


def test_a_stopped_program_makes_no_step_and_continues_where_it_was(start: Start) -> None:
    process = start(stepping(0.01))
    process.wait_until_training(60.0)
    process.stop()
    before, end_s = -1, time.monotonic() + 60.0
    while (count := len(process.marks(0.0))) != before:  # what was printed before is read
        assert time.monotonic() < end_s, "it prints on"
        before = count
        time.sleep(0.5)

    process.resume()
    while len(process.marks(0.0)) == before and time.monotonic() < end_s:
        time.sleep(0.01)
    assert process.marks(0.0)[before].steps == process.marks(0.0)[before - 1].steps + 1


def test_a_program_that_ends_is_named_with_its_last_words(start: Start) -> None:
    process = start(ending(3, "CUDA out of memory"))

    with pytest.raises(ProgramEnded, match=r"bert: ended with 3; .*\nCUDA out of memory"):
        process.wait_until_training(60.0)


def test_a_program_that_prints_no_steps_is_named(start: Start) -> None:
    process = start(stepping(0.01, "loss 0.{}"))

    with pytest.raises(ProgramEnded, match=r"bert: no line with a number of steps within 0\.5 s"):
        process.wait_until_training(0.5)


def test_the_children_of_a_program_end_with_it(start: Start) -> None:
    process = start(f"{stepping(0.01)} & echo child $!; wait")
    process.wait_until_training(60.0)
    child = int(process.first_line.removeprefix("child "))
    process.stop()

    process.end()

    end_s = time.monotonic() + 60.0
    while _runs(child) and time.monotonic() < end_s:
        time.sleep(0.01)
    assert not _runs(child)


def _runs(pid: int) -> bool:
    """Return whether there is such a process that is not only waiting to be reaped."""
    try:
        os.kill(pid, 0)
        with open(f"/proc/{pid}/stat", encoding="utf-8") as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except (ProcessLookupError, FileNotFoundError):
        return False
