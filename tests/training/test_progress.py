"""The progress bar on standard error."""

import io

from roost_train.progress import ProgressBar


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_progress_ends_full_and_on_a_line_of_its_own() -> None:
    terminal = Terminal()
    bar = ProgressBar(1000, terminal)
    for step in range(1, 1001):
        bar(step, 0.5)
    assert terminal.getvalue().endswith(f"\r[{'#' * 32}] 1000/1000 loss 5.00e-01\n")
    assert terminal.getvalue().count("\r") == 200


def test_progress_is_silent_in_a_pipe() -> None:
    pipe = io.StringIO()
    ProgressBar(10, pipe)(10, 0.5)
    assert pipe.getvalue() == ""


def test_a_bar_of_few_steps_draws_each() -> None:
    terminal = Terminal()
    bar = ProgressBar(4, terminal)
    for step in range(1, 5):
        bar(step, 1.0)
    drawn = terminal.getvalue().split("\r")[1:]
    assert [line.count("#") for line in drawn] == [8, 16, 24, 32]
    assert [line.endswith("\n") for line in drawn] == [False, False, False, True]


def test_the_last_step_is_drawn_even_between_two_redraws() -> None:
    terminal = Terminal()
    ProgressBar(1001, terminal)(1001, 0.5)  # redraws are every five steps
    assert "1001/1001" in terminal.getvalue()
