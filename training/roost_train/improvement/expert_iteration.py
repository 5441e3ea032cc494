"""Expert iteration: at some decisions the engine is run ahead on a few candidates.

The policy's likeliest actions are the candidates. Each is carried out in a copy of the simulation,
which then continues for a while (`run_ahead`). Its outcome is the reward until then: with
`completion`, minus the jobs in the system times time. The target of the decision is the policy's
own distribution, shifted towards the candidates that came out better:

    target(a) ~ policy(a) · exp((outcome(a) - mean outcome) / (temperature · spread))

Actions that were not tried keep their probability. The spread is that of all outcomes of the
iteration about their decision's mean, so the shift is small where a single outcome is mostly luck,
and luck cancels over many decisions. The policy learns the targets by cross-entropy.

An iteration plays whole episodes with drawn actions, as PPO does, so that the decisions are those
to which the policy leads.

Source: Anthony, Tian, Barber, Thinking Fast and Slow with Deep Learning and Tree Search, NeurIPS
2017; the soft target is that of Abdolmaleki et al., Maximum a Posteriori Policy Optimisation, ICLR
2018. Page: docs/learned.md.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from math import inf
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from roost_train.environments.decision_run import Choices, DecisionRun, Seen
from roost_train.environments.decisions import Decision, DecisionBatch, Trial, batches
from roost_train.environments.slot_run import SlotRun
from roost_train.errors import TrainError
from roost_train.improvement.improvement import Lesson
from roost_train.improvement.rollout_engine import Player, Rollout
from roost_train.improvement.run_ahead import Ahead
from roost_train.improvement.selector_agent import SelectorAgent
from roost_train.networks.policy_net import PolicyNet
from roost_train.networks.selector_net import masked_logs

_LEAST_SPREAD = 1e-6
_SAMPLE_STREAM = 43  # keeps the draw of the decisions that are tried apart from that of actions


class Follow(StrEnum):
    """The policy that decides in a simulation that is run ahead."""

    TEACHER = "teacher"
    SELECTOR = "selector"


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpertParameters:
    """How a selector is improved.

    Attributes:
        seed: of the episodes, the actions, the decisions that are tried, and the order of batches.
        first_episode: seed of the first episode; validation takes others.
        episode_count: played in one iteration.
        sampled_frac: share of the decisions with a choice that are tried.
        candidate_count: actions that are tried at each of them, the likeliest.
        ahead_s: how far the engine is run ahead; inf: to the end of the episode.
        follow: the policy that decides there. The selector's own best choices make it a step of
            policy iteration; the teacher's cost about a tenth.
        temperature: of the targets; the smaller, the more an outcome counts.
        passes: over the tried decisions of an iteration.
        batch_count: decisions in a step.
        rate: learning rate.
        most_divergence: passes end when the policy has moved so far, in nats.
        explore_frac: how often an action is forced in a bad state, see `exploration`.
    """

    seed: int = 0
    first_episode: int = 1_000_000
    episode_count: int = 16
    sampled_frac: float = 0.1
    candidate_count: int = 3
    ahead_s: float = 86_400.0
    follow: Follow = Follow.TEACHER
    temperature: float = 1.0
    passes: int = 4
    batch_count: int = 64
    rate: float = 2e-4
    most_divergence: float = 0.03
    explore_frac: float = 0.0


def target_of(trial: Trial, scale: float) -> NDArray[np.float64]:
    """Return the target of a decision, [job + 1]; it sums to 1.

    Args:
        trial: what was tried.
        scale: temperature times spread: so much more outcome makes an action e times as likely.
    """
    own = trial.probabilities[trial.candidates]
    gains = (trial.outcomes - trial.outcomes.mean()) / scale
    shifted = own * np.exp(gains - gains.max())
    target = trial.probabilities.copy()
    target[trial.candidates] = shifted * (own.sum() / shifted.sum())
    return target


class ExpertIteration:
    """An improvement.Learner; see the module.

    Args:
        net: the selector; it is changed in place.
        parameters: everything else.
    """

    def __init__(self, net: PolicyNet, parameters: ExpertParameters) -> None:
        self.net, self.parameters = net, parameters
        self._optimiser = torch.optim.Adam(net.parameters(), lr=parameters.rate)

    def player(self, draw_seed: int) -> Player:
        """See improvement.Learner: actions are drawn, and some decisions are tried."""
        return _TryingPlayer(self.net, self.parameters, draw_seed)

    def state(self) -> dict[str, Any]:
        """See improvement.Learner."""
        return {"optimiser": self._optimiser.state_dict()}

    def restore(self, state: dict[str, Any]) -> None:
        """See improvement.Learner."""
        self._optimiser.load_state_dict(state["optimiser"])

    def learn(self, played: Rollout, generator: torch.Generator, done_count: int) -> Lesson:
        """See improvement.Learner.

        Raises:
            TrainError: no decision was tried.
        """
        trials = played.trials
        if not trials:
            raise TrainError("no decision was tried: take more episodes or a larger sampled_frac")
        scale = self.parameters.temperature * spread_of(trials)
        trial_of = {id(one.decision): one for one in trials}
        targets = {key: target_of(one, scale) for key, one in trial_of.items()}
        olds = {key: one.probabilities for key, one in trial_of.items()}
        decisions, moved, entropy = [one.decision for one in trials], 0.0, 0.0
        self.net.train()
        for _ in range(self.parameters.passes):
            if moved > self.parameters.most_divergence:
                break
            found = [
                self._step(DecisionBatch.of(part), _lines(part, targets), _lines(part, olds))
                for part in batches(decisions, self.parameters.batch_count, generator)
            ]
            moved, entropy = (float(mean) for mean in np.mean(found, axis=0))
        return Lesson(
            divergence=moved,
            entropy=entropy,
            ahead_count=len(trials),
            regret_s=float(np.mean([one.outcomes.max() - one.outcomes[0] for one in trials])),
        )

    def _step(
        self, batch: DecisionBatch, targets: torch.Tensor, olds: torch.Tensor
    ) -> tuple[float, float]:
        """Change the policy once; return its divergence from the one that played, and entropy."""
        logs = masked_logs(self.net(batch.jobs, batch.cluster), batch.mask)
        logs = logs.masked_fill(~batch.mask, 0.0)
        loss = -(targets * logs).sum(dim=1).mean()
        self._optimiser.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.net.parameters(), 0.5)
        self._optimiser.step()
        with torch.no_grad():
            old_logs = olds.clamp(min=1e-30).log()
            moved = (olds * (old_logs - logs)).sum(dim=1).mean()
            entropy = -(logs.exp() * logs).sum(dim=1).mean()
        return float(moved), float(entropy)


def spread_of(trials: Sequence[Trial]) -> float:
    """Return the standard deviation of all outcomes about the mean of their decision."""
    around = np.concatenate([one.outcomes - one.outcomes.mean() for one in trials])
    return max(float(np.sqrt(np.mean(around**2))), _LEAST_SPREAD)


def _lines(part: Sequence[Decision], values: dict[int, NDArray[np.float64]]) -> torch.Tensor:
    """Return values of decisions as DecisionBatch lays them out: [decision, most jobs + 1]."""
    most = max(len(one.jobs) for one in part)
    found = np.zeros((len(part), most + 1), dtype=np.float32)
    for place, one in enumerate(part):
        line = values[id(one)]
        found[place, : len(line) - 1], found[place, -1] = line[:-1], line[-1]
    return torch.from_numpy(found)


def _likeliest(
    logs: NDArray[np.float64], count: int, rng: np.random.Generator | None
) -> NDArray[np.intp]:
    """Return the likeliest actions, or the likeliest one and others drawn by their probability."""
    if rng is None:
        return np.argsort(-logs, kind="stable")[:count]
    # The largest of logarithms plus Gumbel noise are a draw without replacement.
    noisy = logs + rng.gumbel(size=len(logs))
    noisy[int(logs.argmax())] = inf
    return np.argsort(-noisy, kind="stable")[:count]


class _TryingPlayer:
    """A rollout_engine.Player that draws actions, and tries candidates at some decisions."""

    def __init__(self, net: PolicyNet, parameters: ExpertParameters, draw_seed: int) -> None:
        self._agent = SelectorAgent(net, draw_seed, parameters.explore_frac)
        self._parameters, self._draw_seed = parameters, draw_seed
        follow = SelectorAgent(net) if parameters.follow is Follow.SELECTOR else None
        self._ahead = Ahead(parameters.ahead_s, follow)
        self._rngs: dict[int, np.random.Generator] = {}
        self.trials: list[Trial] = []

    def __call__(
        self, runs: Sequence[DecisionRun], choices: Sequence[Choices[Seen]]
    ) -> Sequence[int]:
        """See rollout.Decider."""
        actions = []
        for run, one, logs in zip(runs, choices, self._agent.logs_of(choices), strict=True):
            if one.mask.sum() > 1 and self._is_tried(run):
                self.trials.append(self._try(run, one, logs))
            actions.append(self._agent.draw(run, one, logs))
        return actions

    def _is_tried(self, run: DecisionRun) -> bool:
        rng = self._rngs.get(run.seed)
        if rng is None:
            streams = [_SAMPLE_STREAM, self._draw_seed, run.seed]
            rng = self._rngs[run.seed] = np.random.default_rng(streams)
        return bool(rng.random() < self._parameters.sampled_frac)

    def _try(self, run: DecisionRun, choices: Choices[Any], logs: NDArray[np.float64]) -> Trial:
        count = min(int((logs > -inf).sum()), self._parameters.candidate_count)
        # Placements come in dozens that are equally likely: of these some are drawn.
        rng = self._rngs[run.seed] if isinstance(run, SlotRun) else None
        candidates = _likeliest(logs, count, rng)
        outcomes = self._ahead.outcomes(run, choices, candidates.tolist())
        best = int(candidates[np.argmax(outcomes)])
        seen = choices.seen
        return Trial(
            decision=Decision(seen.jobs, seen.cluster, choices.mask, best),
            probabilities=np.exp(logs),
            candidates=candidates,
            outcomes=outcomes,
        )
