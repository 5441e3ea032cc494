"""Masked proximal policy optimisation, for selectors of jobs.

One iteration: play whole episodes with actions drawn from the policy; compare each decision with
what the critic expected (`advantages`); then change the policy so that decisions that came out
better become likelier, but by no more than the clip allows, because the episodes tell nothing
about policies far from the one that played them. Masked actions have probability 0 and no gradient.

Source: Schulman et al., Proximal Policy Optimization Algorithms, 2017, equation 7; masks: Huang and
Ontañón, A Closer Look at Invalid Action Masking, FLAIRS 2022. Page: docs/learned.md.
"""

from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from roost_train.environments.decisions import Decision, DecisionBatch, batches
from roost_train.improvement.advantages import advantages, discounts
from roost_train.improvement.exploration import played_logs
from roost_train.improvement.improvement import Lesson
from roost_train.improvement.rollout import Trajectory
from roost_train.improvement.rollout_engine import Player, Rollout
from roost_train.improvement.selector_agent import SelectorAgent
from roost_train.networks.policy_net import PolicyNet
from roost_train.networks.selector_net import masked_logs

_LEAST_SPREAD = 1e-6


@dataclass(frozen=True, slots=True, kw_only=True)
class PpoParameters:
    """How a selector is improved.

    Attributes:
        seed: of the episodes, the actions and the order of the batches.
        first_episode: seed of the first episode; validation takes others.
        episode_count: played in one iteration.
        passes: over the decisions of an iteration.
        batch_count: decisions in a step.
        clip: how far the probability of a decision may move, as a share, before its gradient ends.
        rate, critic_rate: learning rates.
        horizon_s: see `advantages`.
        trace: λ, see `advantages`.
        entropy: weight of the policy's entropy, which keeps it from settling too early.
        anchor: weight of the policy's divergence from the one that the training began with, in
            nats; it keeps a policy that began as a good heuristic near that heuristic. 0: none.
        most_divergence: passes end when the policy has moved so far, in nats.
        critic: whether a critic says what was expected; without one, advantages are the returns
            less their mean.
        critic_iterations: at the start in which only the critic learns.
        explore_frac: how often an action is forced in a bad state, see `exploration`.
    """

    seed: int = 0
    first_episode: int = 1_000_000
    episode_count: int = 16
    passes: int = 4
    batch_count: int = 256
    clip: float = 0.2
    rate: float = 2e-4
    critic_rate: float = 1e-3
    horizon_s: float = 2 * 86_400.0
    trace: float = 0.95
    entropy: float = 0.003
    anchor: float = 0.0
    most_divergence: float = 0.03
    critic: bool = True
    critic_iterations: int = 2
    explore_frac: float = 0.0


def clipped_loss(
    new_logs: torch.Tensor, old_logs: torch.Tensor, gains: torch.Tensor, clip: float
) -> torch.Tensor:
    """Return the loss of PPO: minus the mean of min(ratio · A, clipped ratio · A).

    Args:
        new_logs: [decision], log-probability of the action by the policy that is trained.
        old_logs: the same by the policy that played.
        gains: [decision], A.
        clip: ratios outside 1 ± clip gain nothing.
    """
    ratio = (new_logs - old_logs).exp()
    bounded = ratio.clamp(1.0 - clip, 1.0 + clip)
    return -torch.minimum(ratio * gains, bounded * gains).mean()


def divergence_of(logs: torch.Tensor, others: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """Return the mean divergence of a policy from another: the mean of sum p · ln(p / q), in nats.

    Args:
        logs: [decision, job + 1], as `masked_logs` gives them, of p.
        others: the same of q.
        mask: bool [decision, job + 1].
    """
    apart = (logs - others).masked_fill(~mask, 0.0)
    return (logs.exp() * apart).sum(dim=1).mean()


class Ppo:
    """An improvement.Learner; see the module.

    Args:
        net: the policy; it is changed in place.
        parameters: everything else.
    """

    def __init__(self, net: PolicyNet, parameters: PpoParameters) -> None:
        torch.manual_seed(parameters.seed)  # of the critic's first weights
        self.net, self.parameters = net, parameters
        self.critic = net.critic()
        self._anchor = deepcopy(net).eval() if parameters.anchor else None
        self._optimiser = torch.optim.Adam(net.parameters(), lr=parameters.rate)
        self._critic_optimiser = torch.optim.Adam(
            self.critic.parameters(), lr=parameters.critic_rate
        )
        self._spread = 0.0  # of the returns so far; rewards are divided by it

    def player(self, draw_seed: int) -> Player:
        """See improvement.Learner: actions are drawn from the policy."""
        return SelectorAgent(self.net, draw_seed, self.parameters.explore_frac)

    def state(self) -> dict[str, Any]:
        """See improvement.Learner."""
        return {
            "critic": self.critic.state_dict(),
            "optimiser": self._optimiser.state_dict(),
            "critic_optimiser": self._critic_optimiser.state_dict(),
            "spread": self._spread,
            **({} if self._anchor is None else {"anchor": self._anchor.state_dict()}),
        }

    def restore(self, state: dict[str, Any]) -> None:
        """See improvement.Learner."""
        self.critic.load_state_dict(state["critic"])
        self._optimiser.load_state_dict(state["optimiser"])
        self._critic_optimiser.load_state_dict(state["critic_optimiser"])
        self._spread = state["spread"]
        if self._anchor is not None:
            self._anchor.load_state_dict(state["anchor"])

    def learn(self, played: Rollout, generator: torch.Generator, done_count: int) -> Lesson:
        """See improvement.Learner."""
        decisions = [decision for one in played.trajectories for decision in one.decisions]
        place_of = {id(decision): place for place, decision in enumerate(decisions)}
        old_logs, values = self._judge(decisions)
        gains, returns = self._gains(played.trajectories, values)
        spread = float(np.std(returns))
        has_critic, explained_frac = self.parameters.critic, None
        if has_critic:
            missed = float(np.var(returns - values))
            explained_frac = 1.0 - missed / max(spread**2, _LEAST_SPREAD)
        scaled = torch.from_numpy((gains - gains.mean()) / (gains.std() + _LEAST_SPREAD))
        targets, old = torch.from_numpy(returns).float(), torch.from_numpy(old_logs).float()
        as_played = played_logs(old_logs, decisions, self.parameters.explore_frac)
        played_old = torch.from_numpy(as_played).float()
        is_critics = has_critic and done_count < self.parameters.critic_iterations
        divergence, entropy = 0.0, 0.0
        self.net.train()
        for _ in range(self.parameters.passes):
            moved, entropies = [], []
            for part in batches(decisions, self.parameters.batch_count, generator):
                places = torch.tensor([place_of[id(decision)] for decision in part])
                batch = DecisionBatch.of(part)
                if has_critic:
                    self._step_critic(batch, targets[places])
                if divergence <= self.parameters.most_divergence:
                    logs = old[places], played_old[places]
                    found = self._step(batch, logs, scaled[places].float(), is_critics)
                    moved.append(found[0])
                    entropies.append(found[1])
            if moved:
                divergence, entropy = float(np.mean(moved)), float(np.mean(entropies))
        return Lesson(divergence=divergence, entropy=entropy, explained_frac=explained_frac)

    def _gains(
        self, played: Sequence[Trajectory], values: NDArray[np.float64]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return advantages and returns of all decisions, in units of the returns' spread."""
        parameters = self.parameters
        trace = parameters.trace if parameters.critic else 1.0
        per_episode = [(one, discounts(one.at_s, parameters.horizon_s)) for one in played]
        if not self._spread:  # by the first episodes, once: later changes would mislead the critic
            whole = [
                advantages(one.rewards, np.zeros(len(one.rewards)).tolist(), fades.tolist(), 1.0)
                for one, fades in per_episode
            ]
            self._spread = max(float(np.concatenate(whole).std()), _LEAST_SPREAD)
        found, begin = [], 0
        for one, fades in per_episode:
            end = begin + len(one.rewards)
            rewards = (np.array(one.rewards) / self._spread).tolist()
            found.append(advantages(rewards, values[begin:end].tolist(), fades.tolist(), trace))
            begin = end
        gains = np.concatenate(found)
        return gains, gains + values

    def _judge(
        self, decisions: Sequence[Decision]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return log-probability and value of each decision by the nets as they are."""
        logs, values = [], []
        with torch.inference_mode():
            for begin in range(0, len(decisions), 256):
                batch = DecisionBatch.of(decisions[begin : begin + 256])
                found = masked_logs(self.net(batch.jobs, batch.cluster), batch.mask)
                logs.append(found.gather(1, batch.actions[:, None])[:, 0])
                values.append(self._values(batch))
        return torch.cat(logs).double().numpy(), torch.cat(values).double().numpy()

    def _values(self, batch: DecisionBatch) -> torch.Tensor:
        if not self.parameters.critic:
            return torch.zeros(len(batch.jobs))
        values: torch.Tensor = self.critic(batch.jobs, batch.cluster, batch.present)
        return values

    def _step(
        self,
        batch: DecisionBatch,
        old_logs: tuple[torch.Tensor, torch.Tensor],
        gains: torch.Tensor,
        is_critics: bool,
    ) -> tuple[float, float]:
        """Change the policy once, unless only the critic learns.

        Args:
            batch: the decisions.
            old_logs: [decision] each: by the policy that played, and as it was played, which
                differs where actions were forced.
            gains: [decision], advantages.
            is_critics: whether only the critic learns.

        Returns:
            Divergence and entropy.
        """
        old, as_played = old_logs
        logs = masked_logs(self.net(batch.jobs, batch.cluster), batch.mask)
        new = logs.gather(1, batch.actions[:, None])[:, 0]
        entropy = -(logs.exp() * logs.masked_fill(~batch.mask, 0.0)).sum(dim=1).mean()
        loss = clipped_loss(new, as_played, gains, self.parameters.clip)
        if self._anchor is not None:
            with torch.no_grad():
                begun = masked_logs(self._anchor(batch.jobs, batch.cluster), batch.mask)
            loss = loss + self.parameters.anchor * divergence_of(logs, begun, batch.mask)
        if not is_critics:
            self._optimiser.zero_grad()
            (loss - self.parameters.entropy * entropy).backward()
            torch.nn.utils.clip_grad_norm_(self.net.parameters(), 0.5)
            self._optimiser.step()
        ratio = (new - old).detach()
        return float((ratio.exp() - 1.0 - ratio).mean()), entropy.item()

    def _step_critic(self, batch: DecisionBatch, targets: torch.Tensor) -> None:
        values = self.critic(batch.jobs, batch.cluster, batch.present)
        loss = torch.nn.functional.huber_loss(values, targets)
        self._critic_optimiser.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.critic.parameters(), 0.5)
        self._critic_optimiser.step()
