r"""Networks for the placement and the gate slot: small, the same weights for every option.

    context line -> context -+
    option line ------------- head -> one logit an option
                              \-- less that of "none", which comes from the context alone

They take and answer what the job selector does (`selector_net`), so the same improvement trains
them.
"""

from dataclasses import dataclass

import torch

from roost_engine.gate.offer_features import CONTEXT_COLUMNS, OFFER_COLUMNS
from roost_train.environments.slot_run import Slot
from roost_train.environments.slot_views import PLACEMENT_COLUMNS
from roost_train.errors import TrainError


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotSizes:
    """How wide a network is.

    Attributes:
        option: columns of an option.
        context: columns of everything else.
        hidden: of the context and of the head's layers.
    """

    option: int
    context: int = len(CONTEXT_COLUMNS)
    hidden: int = 32

    @classmethod
    def of(cls, slot: Slot) -> "SlotSizes":
        """Return the sizes for a slot.

        Raises:
            TrainError: the order slot has a network of its own.
        """
        match slot:
            case Slot.PLACEMENT:
                return cls(option=len(PLACEMENT_COLUMNS))
            case Slot.GATE:
                return cls(option=len(OFFER_COLUMNS))
            case Slot.ORDER:
                raise TrainError("the order slot is decided by a job selector")


class SlotNet(torch.nn.Module):  # type: ignore[misc]
    """See the module; weights are drawn from torch's global generator."""

    def __init__(self, sizes: SlotSizes) -> None:
        super().__init__()
        self.sizes = sizes
        self.context = torch.nn.Linear(sizes.context, sizes.hidden)
        self.head1 = torch.nn.Linear(sizes.option + sizes.hidden, sizes.hidden)
        self.head2 = torch.nn.Linear(sizes.hidden, 1)
        self.none = torch.nn.Linear(sizes.hidden, 1)

    def forward(self, jobs: torch.Tensor, cluster: torch.Tensor) -> torch.Tensor:
        """Return the ranks: logits less that of "none", [decision, option].

        Args:
            jobs: [decision, option, column].
            cluster: [decision, column].
        """
        context = self.context_of(cluster)
        return self.head2(self.hidden_of(jobs, context))[..., 0] - self.none(context)

    def context_of(self, cluster: torch.Tensor) -> torch.Tensor:
        """Return what is known beside the options, [decision, hidden]."""
        return torch.relu(self.context(cluster))

    def hidden_of(self, jobs: torch.Tensor, context: torch.Tensor) -> torch.Tensor:
        """Return the head's hidden layer, [decision, option, hidden]."""
        beside = context[:, None].expand(-1, jobs.shape[1], -1)
        return torch.relu(self.head1(torch.cat((jobs, beside), dim=-1)))

    def critic(self) -> "SlotCritic":
        """Return a critic of the same width, with weights of its own."""
        return SlotCritic(self.sizes)


class SlotCritic(torch.nn.Module):  # type: ignore[misc]
    """What the rest of an episode is worth: a network of its own."""

    def __init__(self, sizes: SlotSizes) -> None:
        super().__init__()
        self.trunk = SlotNet(sizes)
        self.value = torch.nn.Linear(2 * sizes.hidden, 1)

    def forward(
        self, jobs: torch.Tensor, cluster: torch.Tensor, present: torch.Tensor
    ) -> torch.Tensor:
        """Return the value of each decision, [decision].

        Args:
            jobs: see SlotNet.
            cluster: see SlotNet.
            present: bool [decision, option], where there is an option.
        """
        context = self.trunk.context_of(cluster)
        hidden = self.trunk.hidden_of(jobs, context) * present[..., None]
        mean = hidden.sum(dim=1) / present.sum(dim=1, keepdim=True).clamp(min=1)
        value: torch.Tensor = self.value(torch.cat((context, mean), dim=1))[:, 0]
        return value
