import tests.training.torch_library  # noqa: F401  (skips this module where torch is missing)

# isort: split
import pytest
from tests.training.burst import fresh_net
from tests.training.environments.small_episodes import episodes

from roost_train.improvement.expert_iteration import ExpertIteration, ExpertParameters
from roost_train.improvement.rollout import play, teacher
from roost_train.improvement.rollout_engine import GROUP_COUNT, InProcess, Teacher, groups

pytestmark = pytest.mark.torch


def test_groups_keep_the_order_and_the_last_is_smaller() -> None:
    seeds = range(GROUP_COUNT + 3)
    assert [list(group) for group in groups(seeds)] == [
        list(range(GROUP_COUNT)),
        list(range(GROUP_COUNT, GROUP_COUNT + 3)),
    ]
    assert groups([]) == []


def test_episodes_of_several_groups_are_those_played_alone() -> None:
    drawn, seen = episodes(job_count=12), list[int]()
    seeds = range(GROUP_COUNT + 2)
    found = InProcess().collect(drawn, seeds, Teacher(), seen.append)
    assert [one.seed for one in found.trajectories] == list(seeds)
    (alone,) = play(drawn, [GROUP_COUNT + 1], teacher)
    assert found.trajectories[-1].rewards == alone.rewards
    assert seen == sorted(seen)
    assert seen[-1] == len(seeds)
    assert not found.trials


def test_what_the_player_tried_comes_with_the_episodes() -> None:
    parameters = ExpertParameters(sampled_frac=1.0, ahead_s=600.0)
    player = ExpertIteration(fresh_net(), parameters).player(1)
    found = InProcess().collect(episodes(job_count=30), [0], player)
    assert found.trials
    assert list(player.trials) == found.trials
