"""One loop for both methods: episodes, figures and checkpoints."""

import tests.training.torch_library  # noqa: F401  (skips this module where torch is missing)

# isort: split
import dataclasses
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from tests.training.burst import SMALL, fresh_net
from tests.training.environments.small_episodes import episodes

from roost_train.errors import TrainError
from roost_train.improvement.expert_iteration import ExpertIteration, ExpertParameters
from roost_train.improvement.improvement import Improvement, Learner
from roost_train.improvement.ppo import Ppo, PpoParameters
from roost_train.networks.selector_net import SelectorNet

pytestmark = pytest.mark.torch

PPO = PpoParameters(episode_count=3, passes=2, batch_count=32, critic_iterations=0)
EXPERT = ExpertParameters(episode_count=2, passes=2, batch_count=8, sampled_frac=0.2)

LEARNERS: list[Callable[[SelectorNet], Learner]] = [
    lambda net: Ppo(net, PPO),
    lambda net: ExpertIteration(net, EXPERT),
]


@pytest.mark.parametrize("learner", LEARNERS, ids=["ppo", "expert"])
def test_a_training_that_is_resumed_is_the_same_as_one_that_never_stopped(
    learner: Callable[[SelectorNet], Learner], tmp_path: Path
) -> None:
    drawn = episodes(job_count=20)
    whole = Improvement(learner(fresh_net()), drawn)
    for _ in range(3):
        whole.iterate()
    first = Improvement(learner(fresh_net()), drawn)
    first.iterate()
    first.save(tmp_path / "last.pt")
    second = Improvement(learner(SelectorNet(SMALL)), drawn)
    second.load(tmp_path / "last.pt")
    second.iterate()
    second.iterate()
    assert second.done == whole.done
    pairs = zip(whole.net.parameters(), second.net.parameters(), strict=True)
    assert all(torch.equal(one, other) for one, other in pairs)
    whole.save(tmp_path / "whole.pt")
    second.save(tmp_path / "parts.pt")
    assert (tmp_path / "whole.pt").stat().st_size == (tmp_path / "parts.pt").stat().st_size


def test_checkpoints_of_other_parameters_and_of_the_other_method_are_refused(
    tmp_path: Path,
) -> None:
    path = tmp_path / "last.pt"
    Improvement(Ppo(fresh_net(), PPO), episodes()).save(path)
    other = Improvement(Ppo(fresh_net(), dataclasses.replace(PPO, clip=0.3)), episodes())
    with pytest.raises(TrainError, match="other parameters"):
        other.load(path)
    expert = Improvement(ExpertIteration(fresh_net(), EXPERT), episodes())
    with pytest.raises(TrainError, match="other parameters"):
        expert.load(path)


def test_iterations_play_other_episodes_and_say_how_many_are_over() -> None:
    improvement = Improvement(Ppo(fresh_net(), PPO), episodes(job_count=15))
    over: list[int] = []
    figures = [improvement.iterate(over.append) for _ in range(2)]
    assert [one.number for one in figures] == [1, 2]
    assert figures[0].mean_jct_s != figures[1].mean_jct_s
    assert over[-1] == PPO.episode_count


def test_episodes_without_a_decision_are_one_clear_error() -> None:
    improvement = Improvement(Ppo(fresh_net(), PPO), episodes(job_count=5, warm_count=6))
    with pytest.raises(TrainError, match="no episode had a decision"):
        improvement.iterate()
