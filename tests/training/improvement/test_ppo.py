import tests.training.torch_library  # noqa: F401  (skips this module where torch is missing)

# isort: split
import dataclasses
from math import log

import pytest
import torch
from tests.training.burst import best_s, fresh_net, net_that_prefers_long_jobs, solved_s
from tests.training.environments.small_episodes import episodes

from roost_train.improvement.improvement import Improvement
from roost_train.improvement.ppo import Ppo, PpoParameters, clipped_loss

pytestmark = pytest.mark.torch

QUICK = PpoParameters(episode_count=3, passes=2, batch_count=32, critic_iterations=0)


def test_the_loss_by_hand() -> None:
    # Ratios 1.5, 0.5 and 1; clip 0.2. Gains 2, 1 and -4: min(3, 2.4), min(0.5, 0.8), -4.
    old = torch.log(torch.tensor([0.2, 0.4, 0.5]))
    new = torch.log(torch.tensor([0.3, 0.2, 0.5]))
    loss = clipped_loss(new, old, torch.tensor([2.0, 1.0, -4.0]), 0.2)
    assert float(loss) == pytest.approx(-(2.4 + 0.5 - 4.0) / 3)


def test_a_clipped_ratio_has_no_gradient_and_a_bad_action_keeps_its() -> None:
    new = torch.tensor([log(0.3), log(0.3)], requires_grad=True)
    old = torch.tensor([log(0.2), log(0.2)])
    clipped_loss(new, old, torch.tensor([1.0, -1.0]), 0.2).backward()
    assert new.grad is not None
    # Above the clip: a good action gains no more; a bad one is still pushed down, by its ratio.
    assert new.grad.tolist() == pytest.approx([0.0, 1.5 / 2])


def test_a_problem_with_a_known_optimum_is_solved() -> None:
    parameters = PpoParameters(
        episode_count=8,
        rate=3e-3,
        critic_rate=3e-3,
        horizon_s=float("inf"),
        entropy=0.0,
        most_divergence=0.1,
        batch_count=64,
    )
    before_s, found_s = solved_s(Ppo(net_that_prefers_long_jobs(), parameters), 25)
    assert before_s > 2 * best_s()
    assert found_s == pytest.approx(best_s(), rel=1e-3)


def test_while_only_the_critic_learns_the_policy_stays() -> None:
    net = fresh_net()
    before = [weight.clone() for weight in net.parameters()]
    ppo = Ppo(net, dataclasses.replace(QUICK, critic_iterations=1))
    improvement = Improvement(ppo, episodes(job_count=20))
    improvement.iterate()
    assert all(torch.equal(a, b) for a, b in zip(before, net.parameters(), strict=True))
    improvement.iterate()
    assert not all(torch.equal(a, b) for a, b in zip(before, net.parameters(), strict=True))


def test_without_a_critic_the_policy_learns_at_once_and_nothing_is_foreseen() -> None:
    net = fresh_net()
    before = [weight.clone() for weight in net.parameters()]
    ppo = Ppo(net, dataclasses.replace(QUICK, critic=False, critic_iterations=9))
    kept = [weight.clone() for weight in ppo.critic.parameters()]
    found = Improvement(ppo, episodes(job_count=20)).iterate()
    assert found.explained_frac is None
    assert all(torch.equal(a, b) for a, b in zip(kept, ppo.critic.parameters(), strict=True))
    assert not all(torch.equal(a, b) for a, b in zip(before, net.parameters(), strict=True))
