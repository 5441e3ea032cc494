"""The warm start's first step: the best selector that only weighs the numbers of a job.

The loss of imitation is convex in the weights of the skip alone, so they are found at once and
without a draw. On a teacher that sorts by one number a network only loses by its noise.

Source: McFadden, conditional logit, 1974.
"""

from collections.abc import Sequence

import numpy as np
import torch

from roost_engine.queue.selector_columns import JOB_NUMBERS
from roost_train.environments.decisions import Decision
from roost_train.networks.selector_net import SelectorNet, masked_logs

_MOST_DECISIONS = 8_000
_STEPS = 100
_DECAY = 1e-6  # of each squared weight; keeps a teacher that is repeated exactly from infinity


def fit_skip(net: SelectorNet, decisions: Sequence[Decision]) -> SelectorNet:
    """Fit the skip of a selector to a teacher's decisions; it is changed in place and returned.

    Args:
        net: the selector; its other weights stay, and are taken to add nothing.
        decisions: of the teacher, with a choice; of many the first are taken.
    """
    torch.set_num_threads(1)
    taken = decisions[:_MOST_DECISIONS]
    most = max(len(one.jobs) for one in taken)
    numbers = np.zeros((len(taken), most, len(JOB_NUMBERS)), dtype=np.float32)
    masks = np.zeros((len(taken), most + 1), dtype=np.bool_)
    for place, one in enumerate(taken):
        numbers[place, : len(one.jobs)] = one.jobs[:, -len(JOB_NUMBERS) :]
        masks[place, : len(one.jobs)], masks[place, -1] = one.mask[:-1], one.mask[-1]
    job_counts = np.array([len(one.jobs) for one in taken])
    actions = np.array([one.action for one in taken])
    # The action behind the last job chooses none of them, and stands last in the padded mask.
    chosen = torch.from_numpy(np.where(actions == job_counts, most, actions))[:, None]
    jobs, mask = torch.from_numpy(numbers), torch.from_numpy(masks)
    optimiser = torch.optim.LBFGS(
        [net.skip], max_iter=_STEPS, history_size=20, line_search_fn="strong_wolfe"
    )

    def loss() -> torch.Tensor:
        optimiser.zero_grad()
        missed = -masked_logs(jobs @ net.skip, mask).gather(1, chosen).mean()
        whole: torch.Tensor = missed + _DECAY * (net.skip**2).sum()
        whole.backward()
        return whole

    optimiser.step(loss)
    return net
