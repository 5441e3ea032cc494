"""Masked proximal policy optimisation, for selectors of jobs.

One iteration: play whole episodes with actions drawn from the policy; compare each decision with
what the critic expected (`advantages`); then change the policy so that decisions that came out
better become likelier, but by no more than the clip allows, because the episodes tell nothing
about policies far from the one that played them. Masked actions have probability 0 and no gradient.

Episodes of an iteration depend only on seed and iteration, and a checkpoint holds everything else,
so an interrupted training that is resumed gives the same weights as one that was not.

Source: Schulman et al., Proximal Policy Optimization Algorithms, 2017, equation 7; masks: Huang and
Ontañón, A Closer Look at Invalid Action Masking, FLAIRS 2022. Page: docs/learned.md.
"""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from roost_train.advantages import advantages, discounts
from roost_train.decisions import Decision, DecisionBatch, batches
from roost_train.environments.episodes import Episodes
from roost_train.errors import TrainError
from roost_train.rollout import Trajectory, play
from roost_train.selector_agent import SelectorAgent
from roost_train.selector_net import SelectorCritic, SelectorNet, SelectorSizes, masked_logs

_SEEDS_PER_ITERATION = 10_000  # far apart, so that no episode comes twice
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
        most_divergence: passes end when the policy has moved so far, in nats.
        critic_iterations: at the start in which only the critic learns.
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
    most_divergence: float = 0.03
    critic_iterations: int = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Iteration:
    """The figures of one iteration.

    Attributes:
        number: from 1.
        mean_jct_s: of the episodes played, with drawn actions.
        divergence: how far the policy moved, in nats.
        entropy: of the policy, in nats, mean.
        explained_frac: share of the returns' variance that the critic foresaw; below 0: worse than
            their mean.
        decision_count: decisions played.
    """

    number: int
    mean_jct_s: float
    divergence: float
    entropy: float
    explained_frac: float
    decision_count: int


def clipped_loss(
    new_logs: torch.Tensor, old_logs: torch.Tensor, gains: torch.Tensor, clip: float
) -> torch.Tensor:
    """Return the loss of PPO: less the mean of min(ratio · A, clipped ratio · A).

    Args:
        new_logs: [decision], log-probability of the action by the policy that is trained.
        old_logs: the same by the policy that played.
        gains: [decision], A.
        clip: ratios outside 1 ± clip gain nothing.
    """
    ratio = (new_logs - old_logs).exp()
    bounded = ratio.clamp(1.0 - clip, 1.0 + clip)
    return -torch.minimum(ratio * gains, bounded * gains).mean()


class Ppo:
    """A training in progress.

    Args:
        net: the selector; it is changed in place.
        episodes: what is played.
        parameters: everything else.
    """

    def __init__(self, net: SelectorNet, episodes: Episodes, parameters: PpoParameters) -> None:
        torch.set_num_threads(1)  # several sum in another order, and are slower for so small a net
        torch.manual_seed(parameters.seed)
        self.net, self.episodes, self.parameters = net, episodes, parameters
        self.critic = SelectorCritic(net.sizes)
        self._optimiser = torch.optim.Adam(net.parameters(), lr=parameters.rate)
        self._critic_optimiser = torch.optim.Adam(
            self.critic.parameters(), lr=parameters.critic_rate
        )
        self._spread = 0.0  # of the returns so far; rewards are divided by it
        self.done: list[Iteration] = []

    def iterate(self, after: Callable[[int], None] = lambda done_count: None) -> Iteration:
        """Play episodes and learn from them.

        Args:
            after: called with the number of episodes that are over.
        """
        parameters, number = self.parameters, len(self.done) + 1
        generator = torch.Generator().manual_seed(parameters.seed * 1_000_003 + number)
        first = parameters.first_episode + (number - 1) * _SEEDS_PER_ITERATION
        seeds = range(first, first + parameters.episode_count)
        self.net.eval()
        played = play(self.episodes, seeds, SelectorAgent(self.net, generator), after)
        played = [one for one in played if one.decisions]
        if not played:
            raise TrainError("no episode had a decision: take more jobs or a higher load")
        divergence, entropy, explained_frac = self._learn(played, generator)
        self.done.append(
            Iteration(
                number=number,
                mean_jct_s=float(np.mean([one.mean_jct_s for one in played])),
                divergence=divergence,
                entropy=entropy,
                explained_frac=explained_frac,
                decision_count=sum(len(one.decisions) for one in played),
            )
        )
        return self.done[-1]

    def save(self, path: Path) -> None:
        """Write a checkpoint; a file that is there is replaced whole or not at all."""
        state = {
            "sizes": asdict(self.net.sizes),
            "net": self.net.state_dict(),
            "critic": self.critic.state_dict(),
            "optimiser": self._optimiser.state_dict(),
            "critic_optimiser": self._critic_optimiser.state_dict(),
            "spread": self._spread,
            "done": [asdict(one) for one in self.done],
            "parameters": asdict(self.parameters),
        }
        beside = path.with_suffix(".part")
        torch.save(state, beside)
        beside.replace(path)

    def load(self, path: Path) -> None:
        """Continue where a checkpoint was written.

        Raises:
            TrainError: the checkpoint is of a training with other parameters, or damaged.
        """
        state = read_checkpoint(path)
        if state["parameters"] != asdict(self.parameters):
            raise TrainError(f"{path}: the checkpoint is of a training with other parameters")
        self.net.load_state_dict(state["net"])
        self.critic.load_state_dict(state["critic"])
        self._optimiser.load_state_dict(state["optimiser"])
        self._critic_optimiser.load_state_dict(state["critic_optimiser"])
        self._spread = state["spread"]
        self.done = [Iteration(**one) for one in state["done"]]

    # -- learning --------------------------------------------------------------------------

    def _learn(
        self, played: Sequence[Trajectory], generator: torch.Generator
    ) -> tuple[float, float, float]:
        """Return how far the policy moved, its entropy, and what the critic explained."""
        decisions = [decision for one in played for decision in one.decisions]
        place_of = {id(decision): place for place, decision in enumerate(decisions)}
        old_logs, values = self._judge(decisions)
        gains, returns = self._gains(played, values)
        spread = float(np.std(returns))
        explained_frac = 1.0 - float(np.var(returns - values)) / max(spread**2, _LEAST_SPREAD)
        scaled = torch.from_numpy((gains - gains.mean()) / (gains.std() + _LEAST_SPREAD))
        targets, old = torch.from_numpy(returns).float(), torch.from_numpy(old_logs).float()
        is_critics = len(self.done) < self.parameters.critic_iterations
        divergence, entropy = 0.0, 0.0
        self.net.train()
        for _ in range(self.parameters.passes):
            moved, entropies = [], []
            for part in batches(decisions, self.parameters.batch_count, generator):
                places = torch.tensor([place_of[id(decision)] for decision in part])
                batch = DecisionBatch.of(part)
                self._step_critic(batch, targets[places])
                if divergence <= self.parameters.most_divergence:
                    found = self._step(batch, old[places], scaled[places].float(), is_critics)
                    moved.append(found[0])
                    entropies.append(found[1])
            if moved:
                divergence, entropy = float(np.mean(moved)), float(np.mean(entropies))
        return divergence, entropy, explained_frac

    def _gains(
        self, played: Sequence[Trajectory], values: NDArray[np.float64]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return advantages and returns of all decisions, in units of the returns' spread."""
        parameters = self.parameters
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
            found.append(
                advantages(rewards, values[begin:end].tolist(), fades.tolist(), parameters.trace)
            )
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
                values.append(self.critic(batch.jobs, batch.cluster, batch.present))
        return torch.cat(logs).double().numpy(), torch.cat(values).double().numpy()

    def _step(
        self, batch: DecisionBatch, old: torch.Tensor, gains: torch.Tensor, is_critics: bool
    ) -> tuple[float, float]:
        """Change the policy once, unless only the critic learns; return divergence, entropy."""
        logs = masked_logs(self.net(batch.jobs, batch.cluster), batch.mask)
        new = logs.gather(1, batch.actions[:, None])[:, 0]
        entropy = -(logs.exp() * logs.masked_fill(~batch.mask, 0.0)).sum(dim=1).mean()
        loss = clipped_loss(new, old, gains, self.parameters.clip)
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


def read_checkpoint(path: Path) -> dict[str, Any]:
    """Return what Ppo.save wrote; nothing in the file is executed.

    Raises:
        TrainError: the file is damaged.
    """
    try:
        state: dict[str, Any] = torch.load(path, weights_only=True)
    except (RuntimeError, ValueError, KeyError, EOFError, OSError) as error:
        raise TrainError(f"{path}: no checkpoint of a selector: {error}") from error
    except Exception as error:
        raise TrainError(f"{path}: no checkpoint of a selector: {error}") from error
    return state


def net_of(state: dict[str, Any]) -> SelectorNet:
    """Return the selector of a checkpoint."""
    job, cluster, hidden = (state["sizes"][one.name] for one in fields(SelectorSizes))
    net = SelectorNet(
        SelectorSizes(job_channels=tuple(job), cluster_channels=tuple(cluster), hidden=hidden)
    )
    net.load_state_dict(state["net"])
    net.eval()
    return net
