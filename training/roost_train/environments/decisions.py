"""Decisions as training reads them: what could be chosen, and what was.

A decision of the order slot is between jobs. In the placement and gate slots `jobs` are the options
(environments.slot_views). In every slot `cluster` is the line of everything else.

Decisions for the training of a selector come from an environment, a journal or accounting.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True, eq=False)
class Decision:
    """One decision.

    Attributes:
        jobs: float32 [job, column], of the order slot as selector_features gives them.
        cluster: float32 [column].
        mask: bool [job + 1], what could be chosen; the last is "none".
        action: what was chosen: the position of a job, or behind the last job for none.
    """

    jobs: NDArray[np.float32]
    cluster: NDArray[np.float32]
    mask: NDArray[np.bool_]
    action: int

    def __post_init__(self) -> None:
        """Check the sizes.

        Raises:
            ValueError: the sizes do not go together, or the action was not allowed.
        """
        sizes = self.jobs.ndim, self.cluster.ndim, self.mask.shape
        if sizes != (2, 1, (len(self.jobs) + 1,)):
            raise ValueError(f"a decision among {len(self.jobs)} jobs has other sizes than these")
        if not self.mask[self.action]:
            raise ValueError(f"action {self.action} was not allowed")


@dataclass(frozen=True, slots=True, eq=False)
class Trial:
    """A decision at which candidates were tried.

    Attributes:
        decision: its action is the candidate that came out best.
        probabilities: [job + 1], of each action by the policy that played.
        candidates: int [candidate], actions, the likeliest first.
        outcomes: [candidate], reward until the horizon.
    """

    decision: Decision
    probabilities: NDArray[np.float64]
    candidates: NDArray[np.intp]
    outcomes: NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class DecisionBatch:
    """Decisions as tensors; lines behind the last job of a decision are 0 and masked.

    Attributes:
        jobs: [decision, job, column].
        cluster: [decision, column].
        mask: bool [decision, job + 1]; "none" is the last of each line.
        present: bool [decision, job].
        actions: int64 [decision], positions in the mask.
    """

    jobs: torch.Tensor
    cluster: torch.Tensor
    mask: torch.Tensor
    present: torch.Tensor
    actions: torch.Tensor

    @classmethod
    def of(cls, decisions: Sequence[Decision]) -> "DecisionBatch":
        """Put decisions together."""
        counts = np.array([len(one.jobs) for one in decisions])
        most = int(counts.max())
        jobs = np.zeros((len(decisions), most, decisions[0].jobs.shape[1]), dtype=np.float32)
        mask = np.zeros((len(decisions), most + 1), dtype=np.bool_)
        actions = np.array([one.action for one in decisions])
        for place, one in enumerate(decisions):
            jobs[place, : len(one.jobs)] = one.jobs
            mask[place, : len(one.jobs)], mask[place, -1] = one.mask[:-1], one.mask[-1]
        return cls(
            jobs=torch.from_numpy(jobs),
            cluster=torch.from_numpy(np.stack([one.cluster for one in decisions])),
            mask=torch.from_numpy(mask),
            present=torch.from_numpy(np.arange(most) < counts[:, None]),
            actions=torch.from_numpy(np.where(actions == counts, most, actions)),
        )


def batches(
    decisions: Sequence[Decision], batch_count: int, generator: torch.Generator
) -> Sequence[Sequence[Decision]]:
    """Return the decisions in batches drawn at random, each decision once.

    Decisions among about as many jobs share a batch, so that few lines are padding.
    """
    order = torch.randperm(len(decisions), generator=generator).tolist()
    chunk = 8 * batch_count
    found = []
    for begin in range(0, len(order), chunk):
        near = sorted(order[begin : begin + chunk], key=lambda one: len(decisions[one].jobs))
        found += [near[at : at + batch_count] for at in range(0, len(near), batch_count)]
    shuffled = torch.randperm(len(found), generator=generator).tolist()
    return [[decisions[one] for one in found[place]] for place in shuffled]
