"""Fail points: the process is killed at the named place, at the visit that a test asks for."""

import os
import signal
from collections import Counter

import pytest

from roostd.ops import failpoint


@pytest.fixture
def kills(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int]]:
    """The signals that would have been sent, as (process, signal)."""
    sent: list[tuple[int, int]] = []
    monkeypatch.setattr(failpoint, "_visits", Counter())
    monkeypatch.setattr(os, "kill", lambda process, number: sent.append((process, number)))
    return sent


def test_without_the_variable_no_place_kills(
    kills: list[tuple[int, int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(failpoint.VARIABLE, raising=False)
    failpoint.reach("after_set")
    assert kills == []


def test_the_named_place_kills_this_process_at_the_first_visit_and_no_other_place_does(
    kills: list[tuple[int, int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(failpoint.VARIABLE, "after_set")
    failpoint.reach("after_pin")
    assert kills == []
    failpoint.reach("after_set")
    assert kills == [(os.getpid(), signal.SIGKILL)]


def test_a_count_names_the_visit_and_visits_of_other_places_do_not_count(
    kills: list[tuple[int, int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(failpoint.VARIABLE, "after_set:3")
    for point in ("after_set", "after_pin", "after_set", "after_pin"):
        failpoint.reach(point)
    assert kills == []
    failpoint.reach("after_set")
    assert len(kills) == 1
