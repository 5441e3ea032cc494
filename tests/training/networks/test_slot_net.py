"""Networks for placement and gate: order of options does not matter, and they are improved."""

import tests.training.torch_library  # noqa: F401  (skips this module where torch is missing)

# isort: split
from collections.abc import Callable
from math import inf

import pytest
import torch
from tests.training.environments.small_episodes import gangs, halves

from roost_engine.cluster.features import COLUMN
from roost_train.environments.episodes import Episodes
from roost_train.environments.slot_run import Slot
from roost_train.errors import TrainError
from roost_train.improvement.expert_iteration import ExpertIteration, ExpertParameters
from roost_train.improvement.improvement import Improvement, Learner
from roost_train.improvement.ppo import Ppo, PpoParameters
from roost_train.improvement.rollout import play
from roost_train.improvement.selector_agent import SelectorAgent
from roost_train.networks.slot_net import SlotNet, SlotSizes

pytestmark = pytest.mark.torch

PARAMETERS = PpoParameters(
    episode_count=8,
    rate=1e-2,
    critic_rate=1e-2,
    horizon_s=inf,
    entropy=0.0,
    most_divergence=0.3,
    batch_count=32,
    critic_iterations=1,
)


def that_spreads() -> SlotNet:
    """A network that likes nodes on which much is left."""
    torch.manual_seed(1)
    net = SlotNet(SlotSizes.of(Slot.PLACEMENT))
    with torch.no_grad():
        net.head1.weight[0, COLUMN["leftover_frac"]] = 4.0
        net.head2.weight[0, 0] = 1.0
    return net


def that_takes() -> SlotNet:
    """A network that takes nearly every offer."""
    torch.manual_seed(1)
    net = SlotNet(SlotSizes.of(Slot.GATE))
    with torch.no_grad():
        net.none.bias -= 1.5
    return net


def ppo(net: SlotNet) -> Learner:
    return Ppo(net, PARAMETERS)


def expert(net: SlotNet) -> Learner:
    parameters = ExpertParameters(
        episode_count=4,
        sampled_frac=0.5,
        candidate_count=4,
        ahead_s=inf,
        temperature=0.3,
        rate=1e-2,
        most_divergence=0.5,
        batch_count=16,
    )
    return ExpertIteration(net, parameters)


def mean_s(episodes: Episodes, net: SlotNet) -> float:
    return play(episodes, [0], SelectorAgent(net))[0].mean_jct_s


@pytest.mark.parametrize("learn", [ppo, expert])
@pytest.mark.parametrize(
    ("problem", "make", "best_s"),
    [
        # Packed, the job of a whole node never waits; spread, it waits about 1,000 s.
        (halves, that_spreads, (1_000 + 1_000 + 100) / 3),
        # Each gang waits 80 s for a rack and runs at full speed.
        (gangs, that_takes, (10 + 100 + 10 + 20_000 + 80 + 4_000) / 5),
    ],
    ids=["placement", "gate"],
)
def test_a_problem_with_a_known_optimum_is_solved(
    problem: Callable[[], Episodes],
    make: Callable[[], SlotNet],
    best_s: float,
    learn: Callable[[SlotNet], Learner],
) -> None:
    episodes, net = problem(), make()
    before_s = found_s = mean_s(episodes, net)
    assert before_s > 1.2 * best_s
    improvement = Improvement(learn(net), episodes)
    for _ in range(20):
        improvement.iterate()
        found_s = mean_s(episodes, net)
        if found_s <= 1.001 * best_s:
            break
    assert found_s == pytest.approx(best_s, rel=1e-3)


def test_another_order_of_the_options_permutes_the_ranks() -> None:
    torch.manual_seed(0)
    net = SlotNet(SlotSizes.of(Slot.PLACEMENT))
    options, context = torch.rand(2, 5, net.sizes.option), torch.rand(2, net.sizes.context)
    places = torch.tensor([3, 0, 4, 1, 2])
    ranks, permuted = net(options, context), net(options[:, places], context)
    assert torch.allclose(permuted, ranks[:, places], atol=1e-6)


def test_the_order_slot_has_its_own_network() -> None:
    with pytest.raises(TrainError, match="job selector"):
        SlotSizes.of(Slot.ORDER)
