"""The network of the placement slot that reads the graph: the head of a graph model.

The embeddings come from the graph model that ships and stay as they are; skip and head are trained.
It starts as Roost's heuristic, exactly: its points are the skip, and the last layer is zero. So
training begins at the placement rule that lists the candidates.
"""

from dataclasses import dataclass

import torch

from roost_engine.cluster.features import HEURISTIC_WEIGHTS
from roost_engine.scoring.graph_columns import CANDIDATE_COLUMNS
from roost_formats.models.onnx_file import read_onnx
from roost_formats.models.score import GRAPH_MODEL
from roost_formats.models.signature import GRAPH
from roost_train.environments.slot_views import GRAPH_PLACEMENT_COLUMNS
from roost_train.networks.graph_net import WIDTHS, GraphNet
from roost_train.networks.slot_net import SlotCritic, SlotSizes

_SHARPNESS = 10.0  # logits a point, as in placement_net
_COLUMN_COUNT = len(CANDIDATE_COLUMNS)


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphPlacementSizes:
    """How wide a network is: as wide as a graph model.

    Attributes:
        option: columns of an option.
    """

    option: int = len(GRAPH_PLACEMENT_COLUMNS)


class GraphPlacementNet(torch.nn.Module):  # type: ignore[misc]
    """See the module; weights are drawn from torch's global generator."""

    def __init__(self, sizes: GraphPlacementSizes | None = None) -> None:
        super().__init__()
        self.sizes = sizes or GraphPlacementSizes()
        drawn = GraphNet.random(int(torch.randint(2**31, ()).item())).weights
        drawn["skip"][: len(HEURISTIC_WEIGHTS), 0] = torch.from_numpy(HEURISTIC_WEIGHTS)
        drawn[f"head_weight{len(WIDTHS) + 1}"].zero_()
        self.head = torch.nn.ParameterDict(
            {name: weight for name, weight in drawn.items() if name.startswith(("head", "skip"))}
        )

    def forward(self, jobs: torch.Tensor, cluster: torch.Tensor) -> torch.Tensor:
        """Return the logits, [decision, candidate]; "none" has 0, and is never allowed.

        Args:
            jobs: [decision, candidate, GRAPH_PLACEMENT_COLUMNS].
            cluster: [decision, CONTEXT_COLUMNS], not read: a graph model has no such input.
        """
        lines = jobs.reshape(-1, jobs.shape[-1])
        scores = GraphNet(dict(self.head)).scores(
            lines[:, :_COLUMN_COUNT], lines[:, _COLUMN_COUNT:]
        )
        return _SHARPNESS * scores.reshape(jobs.shape[:-1])

    def graph_net(self) -> GraphNet:
        """Return the weights as they are exported: this head on the trunk of the shipped model."""
        trunk = GraphNet.from_weights(dict(read_onnx(GRAPH_MODEL.read_bytes(), GRAPH).weights))
        return GraphNet({**trunk.weights, **self.head})

    def critic(self) -> SlotCritic:
        """Return a critic; it reads the line of everything else too."""
        return SlotCritic(SlotSizes(option=self.sizes.option))
