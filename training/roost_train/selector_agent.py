"""A selector that decides in an environment: the best choice, or one drawn by its probability."""

from collections.abc import Sequence

import numpy as np
import torch

from roost_train.decisions import Decision, DecisionBatch
from roost_train.environments.paused_run import Choices, PausedRun
from roost_train.selector_net import SelectorNet, masked_logs


class SelectorAgent:
    """A rollout.Decider.

    Args:
        net: the selector.
        generator: draws the actions; None: the best one is taken, ties by position.
    """

    def __init__(self, net: SelectorNet, generator: torch.Generator | None = None) -> None:
        self._net, self._generator = net, generator

    def __call__(self, runs: Sequence[PausedRun], choices: Sequence[Choices]) -> Sequence[int]:
        """Decide for all runs by one call of the network."""
        batch = DecisionBatch.of(
            [
                Decision(one.seen.jobs, one.seen.cluster, one.mask, int(np.argmax(one.mask)))
                for one in choices
            ]
        )
        with torch.inference_mode():
            logs = masked_logs(self._net(batch.jobs, batch.cluster), batch.mask)
            if self._generator is None:
                drawn = logs.argmax(dim=1)
            else:
                drawn = torch.multinomial(logs.exp(), 1, generator=self._generator)[:, 0]
        none = batch.mask.shape[1] - 1
        positions = zip(choices, drawn.tolist(), strict=True)
        return [one.none if position == none else int(position) for one, position in positions]
