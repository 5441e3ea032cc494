import gc
from collections.abc import Sequence

import tests.training.torch_library  # noqa: F401  (skips this module where torch is missing)

# isort: split
import numpy as np
import pytest
import torch
from tests.training.environments.small_episodes import episodes

from roost_train.environments.decision_run import Choices, DecisionRun, Seen
from roost_train.improvement.rollout import play, teacher
from roost_train.improvement.selector_agent import SelectorAgent
from roost_train.networks.selector_net import SelectorNet, SelectorSizes

pytestmark = pytest.mark.torch


def test_an_episode_is_the_same_alone_and_beside_others() -> None:
    drawn = episodes(job_count=30)
    (alone,) = play(drawn, [5], teacher)
    beside = play(drawn, [4, 5, 6], teacher)[1]
    assert (alone.seed, alone.rewards, alone.at_s) == (beside.seed, beside.rewards, beside.at_s)
    assert len(alone.at_s) == len(alone.decisions) + 1


def test_rewards_are_less_the_completion_times_of_the_episode() -> None:
    (one,) = play(episodes(job_count=30), [2], teacher)
    assert one.earlier_reward + sum(one.rewards) == pytest.approx(-one.jct_s.sum())


def test_jobs_of_the_warm_up_are_not_counted() -> None:
    (one,) = play(episodes(job_count=30, warm_count=10), [2], teacher)
    assert len(one.jct_s) == 20


def test_an_episode_without_a_decision_counts_its_jobs() -> None:
    (one,) = play(episodes(job_count=3, loads=(0.001,)), [0], teacher)
    assert not one.decisions
    assert len(one.at_s) == 1
    assert one.mean_jct_s > 0.0


def test_it_says_how_many_episodes_are_over() -> None:
    seen: list[int] = []
    play(episodes(job_count=15), [0, 1, 2], teacher, seen.append)
    assert seen[-1] == 3
    assert seen == sorted(seen)


def test_garbage_is_collected_less_often_while_episodes_are_played() -> None:
    before, during = gc.get_threshold(), list[int]()

    def decide(runs: Sequence[DecisionRun], choices: Sequence[Choices[Seen]]) -> Sequence[int]:
        during.append(gc.get_threshold()[0])
        return teacher(runs, choices)

    play(episodes(job_count=30), [2], decide)
    assert min(during) > before[0]
    assert gc.get_threshold() == before


def test_a_selector_that_draws_depends_on_its_generator_only() -> None:
    torch.manual_seed(0)
    net = SelectorNet(SelectorSizes(hidden=16))
    drawn = episodes(job_count=30)

    def actions(seed: int) -> list[int]:
        agent = SelectorAgent(net, draw_seed=seed)
        return [one.action for one in play(drawn, [0], agent)[0].decisions]

    assert actions(1) == actions(1)
    assert actions(1) != actions(2)
    best = play(drawn, [0], SelectorAgent(net))[0]
    assert np.isfinite(best.mean_jct_s)
