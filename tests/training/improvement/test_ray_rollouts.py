"""Ray changes nothing: the same training on a local Ray cluster, weight by weight."""

import tests.training.torch_library  # noqa: F401  (skips this module where torch is missing)

# isort: split
from collections.abc import Callable, Iterator, Sequence
from importlib.util import find_spec

import pytest
import torch
from tests.conftest import missing
from tests.training.burst import fresh_net
from tests.training.environments.small_episodes import episodes

from roost_train.environments.decision_run import Choices, DecisionRun, Seen
from roost_train.environments.decisions import Trial
from roost_train.errors import TrainError
from roost_train.improvement.expert_iteration import ExpertIteration, ExpertParameters, Follow
from roost_train.improvement.improvement import Improvement, Learner
from roost_train.improvement.ppo import Ppo, PpoParameters
from roost_train.improvement.ray_rollouts import RayRollouts
from roost_train.improvement.rollout_engine import GROUP_COUNT
from roost_train.networks.selector_net import SelectorNet

pytestmark = [pytest.mark.torch, pytest.mark.timeout(400)]  # Ray may take minutes to start

COUNT = GROUP_COUNT + 2  # two groups, of different sizes
PPO = PpoParameters(episode_count=COUNT, passes=1, batch_count=32, critic_iterations=0)
EXPERT = ExpertParameters(
    episode_count=COUNT, passes=1, batch_count=8, sampled_frac=0.1, follow=Follow.SELECTOR
)


@pytest.fixture(scope="module")
def ray_rollouts() -> Iterator[RayRollouts]:
    if find_spec("ray") is None:
        missing("Ray is not installed: pip install 'roost[ray]'")
    with RayRollouts(None, 2) as made:
        yield made


@pytest.mark.parametrize(
    "learner",
    [lambda net: Ppo(net, PPO), lambda net: ExpertIteration(net, EXPERT)],
    ids=["ppo", "expert"],
)
def test_ray_changes_nothing(
    learner: Callable[[SelectorNet], Learner], ray_rollouts: RayRollouts
) -> None:
    drawn, over = episodes(job_count=15), list[int]()
    here = Improvement(learner(fresh_net()), drawn)
    there = Improvement(learner(fresh_net()), drawn, ray_rollouts)
    for _ in range(2):
        assert there.iterate(over.append) == here.iterate()
    pairs = zip(here.net.parameters(), there.net.parameters(), strict=True)
    assert all(torch.equal(one, other) for one, other in pairs)
    assert over[-1] == COUNT


class Broken:
    """A player with a fault."""

    trials: Sequence[Trial] = ()

    def __call__(
        self, runs: Sequence[DecisionRun], choices: Sequence[Choices[Seen]]
    ) -> Sequence[int]:
        raise RuntimeError("cannot decide")


def test_an_error_on_a_worker_is_told(ray_rollouts: RayRollouts) -> None:
    with pytest.raises(TrainError, match="episodes on Ray failed: RuntimeError: cannot decide"):
        ray_rollouts.collect(episodes(job_count=30), [0], Broken())
