"""The network of the placement slot: a score for each candidate, by the candidate alone.

It is a ScoreNet, so a trained one is a model of kind score, which roostd takes as `policy.model`.
At first it scores as the heuristic does.
"""

from dataclasses import dataclass, fields

import numpy as np
import torch

from roost_engine.cluster.features import HEURISTIC_WEIGHTS
from roost_train.environments.slot_run import Slot
from roost_train.networks.score_net import ScoreNet
from roost_train.networks.slot_net import SlotCritic, SlotSizes

_SHARPNESS = 10.0  # logits a point: a tenth of a point makes a candidate e times as likely
_QUIET_GAIN = 0.02  # of the residual at the start, beside scores


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacementSizes:
    """How wide a network is.

    Attributes:
        hidden: of both hidden layers.
    """

    hidden: int = 32


class PlacementNet(torch.nn.Module):  # type: ignore[misc]
    """See the module; weights are drawn from torch's global generator."""

    def __init__(self, sizes: PlacementSizes | None = None) -> None:
        super().__init__()
        self.sizes = sizes or PlacementSizes()
        drawn = ScoreNet.random(
            HEURISTIC_WEIGHTS.astype(np.float64), self.sizes.hidden, _QUIET_GAIN
        )
        for field in fields(drawn):
            weight = getattr(drawn, field.name).float()
            self.register_parameter(field.name, torch.nn.Parameter(weight))

    @classmethod
    def residual(cls) -> "PlacementNet":
        """Return a network that scores exactly as the heuristic: its last layer is zero."""
        net = cls()
        with torch.no_grad():
            net.weight3.zero_()
        return net

    def forward(self, jobs: torch.Tensor, cluster: torch.Tensor) -> torch.Tensor:
        """Return the logits, [decision, candidate]; "none" has 0, and is never allowed.

        Args:
            jobs: [decision, candidate, PLACEMENT_COLUMNS].
            cluster: [decision, CONTEXT_COLUMNS], not read: a model of kind score has no such input.
        """
        return _SHARPNESS * self.score_net().forward(jobs)

    def score_net(self) -> ScoreNet:
        """Return the weights as they are exported."""
        return ScoreNet(**{field.name: getattr(self, field.name) for field in fields(ScoreNet)})

    def critic(self) -> SlotCritic:
        """Return a critic; it reads the line of everything else too."""
        return SlotCritic(SlotSizes.of(Slot.PLACEMENT))
