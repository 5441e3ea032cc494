import tests.training.torch_library  # noqa: F401  (skips this module where torch is missing)

# isort: split
import dataclasses
from math import log
from pathlib import Path

import numpy as np
import pytest
import torch
from tests.training.environments.small_episodes import cluster, episodes

from roost_engine.queue.selector_features import JOB_NUMBERS
from roost_sim.traces.trace import Trace, make_trace
from roost_train.environments.episodes import Episodes
from roost_train.errors import TrainError
from roost_train.ppo import Ppo, PpoParameters, clipped_loss, net_of, read_checkpoint
from roost_train.rollout import play
from roost_train.selector_agent import SelectorAgent
from roost_train.selector_net import SelectorNet, SelectorSizes

pytestmark = pytest.mark.torch

QUICK = PpoParameters(episode_count=3, passes=2, batch_count=32, critic_iterations=0)
SMALL = SelectorSizes(job_channels=(2, 2), cluster_channels=(2, 2), hidden=16)


def fresh_net() -> SelectorNet:
    torch.manual_seed(7)
    return SelectorNet(SMALL)


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


def wide_before_many() -> Trace:
    """A burst: eight long jobs come just before sixteen short ones; each takes the whole cluster.

    Only the wait differs at first, so an order that serves the first that came is far from best:
    shortest first is optimal on one machine (Smith, 1956).
    """
    submit_s = [float(place) * 0.01 for place in range(24)]
    duration_s = [2_000.0] * 8 + [100.0] * 16
    users = np.array([0] * 8 + [1] * 16, dtype=np.int32)
    limits_s = [4_000.0] * 8 + [200.0] * 16
    return make_trace(
        "made up",
        submit_s,
        duration_s,
        [4] * 24,
        user_id=users,
        time_limit_s=limits_s,
        user_names=("long", "short"),
    )


class Burst(Episodes):
    """Every episode is the same burst."""

    def run(self, seed: int):  # type: ignore[no-untyped-def]
        return dataclasses.replace(super().run(seed), trace=self.trace)


def test_a_problem_with_a_known_optimum_is_solved() -> None:
    problem = Burst(
        trace=wide_before_many(),
        clusters=(cluster(1),),
        job_count=24,
        warm_count=0,
        loads=(1.0,),
        teacher="fifo+consolidation+open",
    )
    # The first job starts alone; then the short ones, then the other seven long ones.
    lengths_s = [2_000.0, *[100.0] * 16, *[2_000.0] * 7]
    best_s = float(np.cumsum(lengths_s).mean())
    net = fresh_net()
    with torch.no_grad():
        # Nothing of the learned order: at the start it prefers long jobs.
        net.skip *= 0.0
        net.skip[JOB_NUMBERS.index("ln_rest")] = 1.0
    parameters = PpoParameters(
        episode_count=8,
        rate=3e-3,
        critic_rate=3e-3,
        horizon_s=float("inf"),
        entropy=0.0,
        most_divergence=0.1,
        batch_count=64,
    )
    ppo = Ppo(net, problem, parameters)
    before_s = play(problem, [0], SelectorAgent(net))[0].mean_jct_s
    assert before_s > 2 * best_s
    for _ in range(25):
        ppo.iterate()
        found_s = play(problem, [0], SelectorAgent(net))[0].mean_jct_s
        if found_s <= 1.001 * best_s:
            break
    assert found_s == pytest.approx(best_s, rel=1e-3)


def test_a_training_that_goes_on_is_the_same_as_one_that_never_stopped(tmp_path: Path) -> None:
    drawn = episodes(job_count=20)
    whole = Ppo(fresh_net(), drawn, QUICK)
    for _ in range(3):
        whole.iterate()
    first = Ppo(fresh_net(), drawn, QUICK)
    first.iterate()
    first.save(tmp_path / "last.pt")
    second = Ppo(SelectorNet(SMALL), drawn, QUICK)
    second.load(tmp_path / "last.pt")
    second.iterate()
    second.iterate()
    assert second.done == whole.done
    pairs = zip(whole.net.parameters(), second.net.parameters(), strict=True)
    assert all(torch.equal(one, other) for one, other in pairs)


def test_checkpoints_of_other_parameters_and_damaged_ones_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "last.pt"
    Ppo(fresh_net(), episodes(), QUICK).save(path)
    other = Ppo(fresh_net(), episodes(), dataclasses.replace(QUICK, clip=0.3))
    with pytest.raises(TrainError, match="other parameters"):
        other.load(path)
    path.write_bytes(path.read_bytes()[:500])
    with pytest.raises(TrainError, match="no checkpoint of a selector"):
        read_checkpoint(path)


def test_the_net_of_a_checkpoint_is_the_trained_one(tmp_path: Path) -> None:
    net = fresh_net()
    Ppo(net, episodes(), QUICK).save(tmp_path / "last.pt")
    found = net_of(read_checkpoint(tmp_path / "last.pt"))
    assert found.sizes == SMALL
    assert torch.equal(found.skip, net.skip)


def test_while_only_the_critic_learns_the_policy_stays() -> None:
    net = fresh_net()
    before = [weight.clone() for weight in net.parameters()]
    ppo = Ppo(net, episodes(job_count=20), dataclasses.replace(QUICK, critic_iterations=1))
    ppo.iterate()
    assert all(torch.equal(a, b) for a, b in zip(before, net.parameters(), strict=True))
    ppo.iterate()
    assert not all(torch.equal(a, b) for a, b in zip(before, net.parameters(), strict=True))
