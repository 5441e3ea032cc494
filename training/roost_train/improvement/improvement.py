"""The improvement of a policy: play episodes, learn from them, again and again.

What is learned from the episodes is a learner's business: `ppo` or `expert_iteration`. What they
share is here: which episodes an iteration plays, the figures, and the checkpoint, from which an
interrupted training continues to the same weights. Episodes of an iteration depend only on seed and
iteration, and a checkpoint holds everything else.
"""

from collections.abc import Callable
from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch

from roost_train.environments.episodes import Episodes
from roost_train.errors import TrainError
from roost_train.improvement.checkpoint import read_checkpoint, write_checkpoint
from roost_train.improvement.rollout_engine import InProcess, Player, Rollout, RolloutEngine
from roost_train.networks.policy_net import PolicyNet

_SEEDS_PER_ITERATION = 10_000  # far apart, so that no episode comes twice


class Method(StrEnum):
    """How a policy is improved."""

    PPO = "ppo"
    EXPERT = "expert"


class ImprovementParameters(Protocol):
    """What every method has."""

    @property
    def seed(self) -> int:
        """Of the episodes, the actions and the order of the batches."""

    @property
    def first_episode(self) -> int:
        """Seed of the first episode; validation takes others."""

    @property
    def episode_count(self) -> int:
        """Played in one iteration."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Lesson:
    """What an iteration changed.

    Attributes:
        divergence: how far the policy moved, in nats.
        entropy: of the policy, in nats, mean.
        explained_frac: share of the returns' variance that the critic foresaw; below 0: worse than
            their mean. None: there is no critic.
        ahead_count: decisions at which the engine was run ahead.
        regret_s: by how much the best candidate came out better there than the policy's own first
            choice, mean, in the unit of the reward. None: nothing was run ahead.
    """

    divergence: float
    entropy: float
    explained_frac: float | None = None
    ahead_count: int = 0
    regret_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Iteration:
    """The figures of one iteration.

    Attributes:
        number: from 1.
        mean_jct_s: of the episodes played, with drawn actions.
        decision_count: decisions played.
        divergence, entropy, explained_frac, ahead_count, regret_s: see Lesson.
    """

    number: int
    mean_jct_s: float
    decision_count: int
    divergence: float
    entropy: float
    explained_frac: float | None = None
    ahead_count: int = 0
    regret_s: float | None = None


class Learner(Protocol):
    """A method, with the net that it improves and all that it remembers between iterations."""

    net: PolicyNet

    @property
    def parameters(self) -> ImprovementParameters:
        """Everything that decides how the training comes out, beside net and episodes."""

    def player(self, draw_seed: int) -> Player:
        """Return what decides in the episodes of an iteration.

        Args:
            draw_seed: of whatever it draws.
        """

    def learn(self, played: Rollout, generator: torch.Generator, done_count: int) -> Lesson:
        """Change the net by what the player has just played.

        Args:
            played: episodes with decisions, and what the player tried.
            generator: for whatever is drawn.
            done_count: iterations before this one.
        """

    def state(self) -> dict[str, Any]:
        """Return what a checkpoint must hold, beside the net's weights."""

    def restore(self, state: dict[str, Any]) -> None:
        """Restore what `state` returned."""


class Improvement:
    """A training in progress.

    Args:
        learner: the method, with the net; the net is changed in place.
        episodes: what is played.
        rollouts: where it is played.
    """

    def __init__(
        self, learner: Learner, episodes: Episodes, rollouts: RolloutEngine | None = None
    ) -> None:
        torch.set_num_threads(1)  # several sum in another order, and are slower for so small a net
        self.learner, self.episodes = learner, episodes
        self._rollouts = rollouts or InProcess()
        self.done: list[Iteration] = []

    @property
    def net(self) -> PolicyNet:
        """The policy as it is now."""
        return self.learner.net

    def iterate(self, after: Callable[[int], None] = lambda done_count: None) -> Iteration:
        """Play episodes and learn from them.

        Args:
            after: called with the number of episodes that are over.

        Raises:
            TrainError: no episode had a decision.
        """
        parameters, number = self.learner.parameters, len(self.done) + 1
        draw_seed = parameters.seed * 1_000_003 + number
        first = parameters.first_episode + (number - 1) * _SEEDS_PER_ITERATION
        seeds = range(first, first + parameters.episode_count)
        self.net.eval()
        player = self.learner.player(draw_seed)
        played = self._rollouts.collect(self.episodes, seeds, player, after)
        played.trajectories = [one for one in played.trajectories if one.decisions]
        if not played.trajectories:
            raise TrainError("no episode had a decision: take more jobs or a higher load")
        generator = torch.Generator().manual_seed(draw_seed)
        lesson = self.learner.learn(played, generator, len(self.done))
        self.done.append(
            Iteration(
                number=number,
                mean_jct_s=float(np.mean([one.mean_jct_s for one in played.trajectories])),
                decision_count=sum(len(one.decisions) for one in played.trajectories),
                **asdict(lesson),
            )
        )
        return self.done[-1]

    def save(self, path: Path) -> None:
        """Write a checkpoint; a file that is there is replaced whole or not at all."""
        state = {
            "sizes": asdict(self.net.sizes),
            "net": self.net.state_dict(),
            "learner": self.learner.state(),
            "done": [asdict(one) for one in self.done],
            "parameters": _plain(self.learner.parameters),
        }
        write_checkpoint(path, state)

    def load(self, path: Path) -> None:
        """Continue where a checkpoint was written.

        Raises:
            TrainError: the checkpoint is of a training with other parameters, or damaged.
        """
        state = read_checkpoint(path)
        if state.get("parameters") != _plain(self.learner.parameters):
            raise TrainError(f"{path}: the checkpoint is of a training with other parameters")
        self.net.load_state_dict(state["net"])
        self.learner.restore(state["learner"])
        self.done = [Iteration(**one) for one in state["done"]]


def _plain(parameters: Any) -> dict[str, Any]:
    """Return parameters as a checkpoint holds them: with their kind, enums as text."""
    found = {name: _text(value) for name, value in asdict(parameters).items()}
    return {"kind": type(parameters).__name__, **found}


def _text(value: object) -> object:
    return value.value if isinstance(value, StrEnum) else value
