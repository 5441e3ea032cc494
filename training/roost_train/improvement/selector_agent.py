"""A policy that decides in an environment: the best choice, or one drawn by its probability."""

from collections.abc import Sequence
from itertools import accumulate

import numpy as np
import torch
from numpy.typing import NDArray

from roost_train.environments.decision_run import Choices, DecisionRun, Seen
from roost_train.environments.decisions import Decision, DecisionBatch, Trial
from roost_train.improvement.exploration import forced_action
from roost_train.networks.dense_selector import DenseSelector
from roost_train.networks.policy_net import PolicyNet
from roost_train.networks.selector_net import SelectorNet

_ACTION_STREAM = 41  # keeps the draws of actions apart from those of episodes


class SelectorAgent:
    """A rollout_engine.Player.

    Each episode has draws of its own, so that its actions do not depend on those played beside it.

    Args:
        net: the policy; what it learns later is not seen.
        draw_seed: of the actions, beside the episode's; None: the best one is taken, ties by
            position.
        explore_frac: how often a draw is replaced by the action that mends a bad state.
    """

    trials: Sequence[Trial] = ()

    def __init__(
        self, net: PolicyNet, draw_seed: int | None = None, explore_frac: float = 0.0
    ) -> None:
        self._net = net
        self._dense = DenseSelector(net) if isinstance(net, SelectorNet) else None
        self._draw_seed, self._explore_frac = draw_seed, explore_frac
        self._rngs: dict[int, np.random.Generator] = {}

    def __call__(
        self, runs: Sequence[DecisionRun], choices: Sequence[Choices[Seen]]
    ) -> Sequence[int]:
        """Decide for all runs by one call of the network."""
        pairs = zip(runs, choices, self.logs_of(choices), strict=True)
        return [self.draw(run, one, logs) for run, one, logs in pairs]

    def logs_of(self, choices: Sequence[Choices[Seen]]) -> list[NDArray[np.float64]]:
        """Return the log-probability of each action of each decision: [job + 1], -inf masked."""
        pairs = zip(self._ranks_of(choices), choices, strict=True)
        return [_masked_logs(ranks, one.mask) for ranks, one in pairs]

    def _ranks_of(self, choices: Sequence[Choices[Seen]]) -> Sequence[NDArray[np.float32]]:
        """Return the ranks of each decision's options; that of "none" is 0."""
        with torch.inference_mode():
            if self._dense is None:
                batch = DecisionBatch.of(
                    [
                        Decision(one.seen.jobs, one.seen.cluster, one.mask, int(one.mask.argmax()))
                        for one in choices
                    ]
                )
                padded = self._net(batch.jobs, batch.cluster).numpy()
                return [line[: one.none] for line, one in zip(padded, choices, strict=True)]
            jobs = np.concatenate([one.seen.jobs for one in choices])
            cluster = np.stack([one.seen.cluster for one in choices])
            counts = [one.none for one in choices]
            ranks = self._dense(
                torch.from_numpy(jobs), torch.from_numpy(cluster), torch.tensor(counts)
            )
        ends = list(accumulate(counts))
        flat = ranks.numpy()
        return [flat[end - count : end] for end, count in zip(ends, counts, strict=True)]

    def draw(self, run: DecisionRun, choices: Choices[Seen], logs: NDArray[np.float64]) -> int:
        """Return an action of a run by the log-probabilities of its decision."""
        if self._draw_seed is None:
            return int(logs.argmax())
        if self._explore_frac:
            forced = forced_action(choices.seen.jobs, choices.mask)
            if forced is not None and self.rng_of(run).random() < self._explore_frac:
                return forced
        sums = np.add.accumulate(np.exp(logs))
        drawn = int(sums.searchsorted(self.rng_of(run).random() * sums[-1], side="right"))
        if drawn == len(logs):  # rounding has led behind the last action that has a probability
            drawn = int(np.flatnonzero(logs > -np.inf)[-1])
        return drawn

    def rng_of(self, run: DecisionRun) -> np.random.Generator:
        """Return what is drawn from for a run."""
        assert self._draw_seed is not None, "an agent without a seed draws nothing"
        rng = self._rngs.get(run.seed)
        if rng is None:
            streams = [_ACTION_STREAM, self._draw_seed, run.seed]
            rng = self._rngs[run.seed] = np.random.default_rng(streams)
        return rng


def _masked_logs(ranks: NDArray[np.float32], mask: NDArray[np.bool_]) -> NDArray[np.float64]:
    """Return the log-probability of each action, [option + 1]; as selector_net.masked_logs."""
    logits = np.zeros(len(mask))
    logits[:-1] = ranks
    logits[~mask] = -np.inf
    logits -= np.maximum.reduce(logits)
    logits -= np.log(np.add.reduce(np.exp(logits)))
    return logits
