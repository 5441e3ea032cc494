"""A simulation that is run ahead says what a candidate comes to, and the original has not moved."""

import tests.training.torch_library  # noqa: F401  (skips this module where torch is missing)

# isort: split
from collections.abc import Sequence
from math import inf

import numpy as np
import pytest
from tests.training.environments.small_episodes import episodes
from tests.training.environments.test_paused_run import run_of, three_jobs

from roost_train.environments.decision_run import Choices, DecisionRun, Seen
from roost_train.environments.paused_run import OrderChoices, PausedRun
from roost_train.errors import TrainError
from roost_train.improvement.rollout import play, teacher
from roost_train.improvement.run_ahead import Ahead

pytestmark = pytest.mark.torch


def waiting_two() -> tuple[PausedRun, OrderChoices]:
    paused = PausedRun(run_of(three_jobs()))
    while (due := paused.next_choices()) is not None:
        if due.mask.sum() == 2:
            return paused, due
        paused.choose(int(np.argmax(due.mask)))
    raise AssertionError("no decision between two jobs")


@pytest.mark.parametrize("follow", [None, teacher], ids=["engine", "decider"])
def test_outcomes_by_hand(follow: object) -> None:
    # At 100 s jobs 2 (50 s, the whole node) and 3 (10 s, one GPU) wait. Job 2 first: two jobs for
    # 50 s, then one for 10 s. Job 3 first: two jobs for 10 s, then one for 50 s.
    paused, due = waiting_two()
    assert due.at_s == 100.0
    found = Ahead(inf, follow).outcomes(paused, due, [0, 1])  # type: ignore[arg-type]
    assert found.tolist() == pytest.approx([-(2 * 50 + 10), -(2 * 10 + 50)])


def test_nothing_behind_the_horizon_is_counted() -> None:
    # Until 120 s: two jobs for 20 s; or two for 10 s and one for 10 s.
    paused, due = waiting_two()
    assert Ahead(20.0).outcomes(paused, due, [0, 1]).tolist() == pytest.approx([-40.0, -30.0])
    assert Ahead(5.0).outcomes(paused, due, [0, 1]).tolist() == pytest.approx([-10.0, -10.0])


def test_the_original_has_not_moved() -> None:
    drawn = episodes(job_count=30)
    (usual,) = play(drawn, [3], teacher)
    tried: list[float] = []

    def trying(runs: Sequence[DecisionRun], choices: Sequence[Choices[Seen]]) -> Sequence[int]:
        for run, one in zip(runs, choices, strict=True):
            actions = np.flatnonzero(one.mask).tolist()
            if len(actions) > 1 and len(tried) < 8:
                assert isinstance(run, PausedRun)
                tried.extend(Ahead(inf).outcomes(run, one, actions).tolist())
        return teacher(runs, choices)

    (found,) = play(drawn, [3], trying)
    assert (found.rewards, found.at_s) == (usual.rewards, usual.at_s)
    assert len(tried) > 4


def test_to_the_end_the_teachers_action_comes_to_the_rest_of_the_episode() -> None:
    drawn = episodes(job_count=30)
    (usual,) = play(drawn, [3], teacher)
    run, place = drawn.begin_order(3), 0
    while (due := run.next_choices()) is not None and place < 10:
        action = run.teachers_choice(due)
        if place == 9:
            found = Ahead(inf, teacher).outcomes(run, due, [action])
            assert float(found[0]) == pytest.approx(sum(usual.rewards[9:]))
        run.choose(action)
        place += 1
    assert place == 10


def test_a_simulation_that_fails_is_one_error_and_leaves_no_process() -> None:
    paused = episodes(job_count=30).begin_order(3)
    due = paused.next_choices()
    assert due is not None
    actions = np.flatnonzero(due.mask).tolist()

    def broken(runs: Sequence[DecisionRun], choices: Sequence[Choices[Seen]]) -> Sequence[int]:
        raise ValueError("no idea")

    with pytest.raises(TrainError, match="run ahead failed: ValueError: no idea"):
        Ahead(inf, broken).outcomes(paused, due, actions)
    with pytest.raises(TrainError, match="may not be chosen"):
        Ahead(inf).outcomes(paused, due, [actions[0], due.none])
