import tests.training.torch_library  # noqa: F401  (skips this module where torch is missing)

# isort: split
import dataclasses
from math import log
from pathlib import Path

import pytest
import torch
from tests.training.burst import best_s, fresh_net, net_that_prefers_long_jobs, solved_s
from tests.training.environments.small_episodes import episodes

from roost_train.environments.decisions import DecisionBatch
from roost_train.improvement.improvement import Improvement
from roost_train.improvement.ppo import Ppo, PpoParameters, clipped_loss, divergence_of
from roost_train.improvement.rollout import play, teacher
from roost_train.networks.selector_net import masked_logs

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


def test_the_divergence_by_hand() -> None:
    mask = torch.tensor([[True, True, False]])
    ranks = torch.tensor([[log(3.0), 0.0]], requires_grad=True)
    logs = masked_logs(ranks, mask)  # 3/4 and 1/4
    other = masked_logs(torch.tensor([[0.0, 0.0]]), mask)  # 1/2 each
    found = divergence_of(logs, other, mask)
    assert found.item() == pytest.approx(0.75 * log(1.5) + 0.25 * log(0.5))
    found.backward()
    assert ranks.grad is not None
    assert torch.isfinite(ranks.grad).all()


def test_an_anchor_holds_the_policy_near_its_start_also_after_a_pause(tmp_path: Path) -> None:
    played = episodes(job_count=30)

    def moved(anchor: float, *, pauses: bool = False) -> tuple[float, list[torch.Tensor]]:
        parameters = dataclasses.replace(QUICK, rate=1e-2, passes=4, anchor=anchor)
        made = Improvement(Ppo(fresh_net(), parameters), played)
        made.iterate()
        if pauses:
            made.save(tmp_path / "last.pt")
            made = Improvement(Ppo(net_that_prefers_long_jobs(), parameters), played)
            made.load(tmp_path / "last.pt")
        made.iterate()
        batch = DecisionBatch.of(play(played, [0], teacher)[0].decisions)
        with torch.no_grad():
            logs, begun = (
                masked_logs(net(batch.jobs, batch.cluster), batch.mask)
                for net in (made.net, fresh_net())
            )
        weights = [weight.detach() for weight in made.net.parameters()]
        return float(divergence_of(logs, begun, batch.mask)), weights

    free, _ = moved(0.0)
    held, weights = moved(100.0)
    assert held < free / 4
    _, again = moved(100.0, pauses=True)
    assert all(torch.equal(a, b) for a, b in zip(weights, again, strict=True))


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
