"""Copies of a process report one number each, and none is left behind."""

import os

import pytest

from roost_train.environments.copies import run_copies
from roost_train.errors import TrainError


def no_child_is_left() -> bool:
    try:
        return os.waitpid(-1, os.WNOHANG) == (0, 0)
    except ChildProcessError:
        return True


def test_each_copy_has_a_number_and_reports_to_the_original() -> None:
    before = [1.0, 2.0, 4.0]
    found = run_copies(3)
    if isinstance(found, tuple):
        number, report = found
        before[number] *= 10.0
        report.outcome(sum(before))
    assert found.tolist() == [16.0, 25.0, 43.0]
    assert before == [1.0, 2.0, 4.0]
    assert no_child_is_left()


def test_a_copy_that_fails_ends_the_others_too() -> None:
    with pytest.raises(TrainError, match="run ahead failed: ValueError: no idea"):
        _second_fails()
    assert no_child_is_left()


def _second_fails() -> None:
    found = run_copies(3)
    if isinstance(found, tuple):
        number, report = found
        if number == 1:
            report.failure(ValueError("no idea"))
        report.outcome(0.0)


def test_an_interrupted_wait_leaves_no_copy(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(pid: int, options: int) -> tuple[int, int]:
        monkeypatch.undo()
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "waitpid", interrupted)
    with pytest.raises(KeyboardInterrupt):
        _all_end()
    assert no_child_is_left()


def _all_end() -> None:
    found = run_copies(2)
    if isinstance(found, tuple):
        found[1].outcome(0.0)


def test_no_copies_have_no_outcomes() -> None:
    found = run_copies(0)
    assert not isinstance(found, tuple)
    assert len(found) == 0
