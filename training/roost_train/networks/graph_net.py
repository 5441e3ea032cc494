"""The graph network: mean up from GPU to node, rack and pod; then a score for each candidate.

One layer a level, shared by all items of the level, so the network reads any topology. The score is
linear in the candidate's columns plus a small net that also reads the embeddings broadcast down.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import torch
from numpy.typing import NDArray

from roost_engine.scoring import graph_columns as names
from roost_engine.scoring.graph_columns import HIDDEN

_COLUMNS = len(names.CANDIDATE_COLUMNS)
_LEVELS = (
    ("gpu", len(names.GPU_COLUMNS), False),
    ("node", len(names.NODE_COLUMNS), True),
    ("rack", len(names.RACK_COLUMNS), True),
    ("pod", len(names.POD_COLUMNS), True),
)
WIDTHS = (32, 16)


@dataclass(slots=True)
class GraphNet:
    """The weights by the names that the exported file calls them.

    Attributes:
        weights: float; `LEVEL_weight` [column, hidden], `LEVEL_mean` [hidden, hidden] for the mean
            of the level below, `LEVEL_bias`; `head_weightN` and `head_biasN`; `skip` [column, 1].
    """

    weights: dict[str, torch.Tensor]

    @classmethod
    def random(cls, seed: int) -> "GraphNet":
        """Draw a network; its score begins near 0."""
        generator = torch.Generator().manual_seed(seed)

        def drawn(rows: int, columns: int, gain: float = 2.0) -> torch.Tensor:
            return torch.randn(rows, columns, generator=generator) * (gain / rows) ** 0.5

        weights = dict[str, torch.Tensor]()
        for level, columns, has_below in _LEVELS:
            weights[f"{level}_weight"] = drawn(columns, HIDDEN)
            weights[f"{level}_bias"] = torch.zeros(HIDDEN)
            if has_below:
                weights[f"{level}_mean"] = drawn(HIDDEN, HIDDEN, 1.0)
        sizes = (_COLUMNS + names.CONTEXT_WIDTH, *WIDTHS, 1)
        for number, (rows, columns) in enumerate(pairwise(sizes), start=1):
            weights[f"head_weight{number}"] = drawn(rows, columns, 2.0 if columns > 1 else 0.01)
            weights[f"head_bias{number}"] = torch.zeros(columns)
        weights["skip"] = torch.zeros(_COLUMNS, 1)
        return cls(weights)

    @classmethod
    def from_weights(cls, weights: Mapping[str, NDArray[np.float32]]) -> "GraphNet":
        """Rebuild the network of an exported file."""
        return cls({name: torch.from_numpy(array.copy()) for name, array in weights.items()})

    def to_weights(self) -> dict[str, NDArray[np.float32]]:
        """Return the weights of the exported file."""
        return {
            name: tensor.detach().numpy().astype(np.float32)
            for name, tensor in self.weights.items()
        }

    def parameters(self) -> list[torch.Tensor]:
        """Return every weight, for an optimiser."""
        return list(self.weights.values())

    def gpus(self, rows: torch.Tensor) -> torch.Tensor:
        """Embed GPUs: [gpu, column] to [gpu, hidden]."""
        return torch.relu(rows @ self.weights["gpu_weight"] + self.weights["gpu_bias"])

    def level(self, level: str, rows: torch.Tensor, means: torch.Tensor) -> torch.Tensor:
        """Embed the items of a level above the GPUs.

        Args:
            level: "node", "rack" or "pod".
            rows: [item, column].
            means: [item, hidden] of the level below.
        """
        own = rows @ self.weights[f"{level}_weight"] + self.weights[f"{level}_bias"]
        return torch.relu(means @ self.weights[f"{level}_mean"] + own)

    def scores(self, candidates: torch.Tensor, context: torch.Tensor) -> torch.Tensor:
        """Score candidates: [candidate, column] and [candidate, context] to [candidate]."""
        hidden = torch.cat((candidates, context), dim=1)
        for number in range(1, len(WIDTHS) + 2):
            hidden = hidden @ self.weights[f"head_weight{number}"]
            hidden = hidden + self.weights[f"head_bias{number}"]
            if number <= len(WIDTHS):
                hidden = torch.relu(hidden)
        return (candidates @ self.weights["skip"] + hidden)[:, 0]

    def answer(self, inputs: Mapping[str, NDArray[np.float32]]) -> dict[str, NDArray[np.float32]]:
        """Answer a call of the exported file; see roost_engine.scoring.graph_tree.GraphModel."""
        read = {name: torch.from_numpy(array) for name, array in inputs.items()}
        with torch.inference_mode():
            gpus = self.gpus(read[names.GPUS])
            nodes = self.level(
                "node", read[names.NODES], read[names.GPU_SHARES] @ gpus + read[names.NODE_REST]
            )
            racks = self.level(
                "rack", read[names.RACKS], read[names.NODE_SHARES] @ nodes + read[names.RACK_REST]
            )
            pods = self.level(
                "pod", read[names.PODS], read[names.RACK_SHARES] @ racks + read[names.POD_REST]
            )
            scores = self.scores(read[names.CANDIDATES], read[names.CONTEXT])
        values = (gpus, nodes, racks, pods, scores)
        return {name: value.numpy() for name, value in zip(names.OUTPUT_SIZES, values, strict=True)}


class TorchGraph:
    """A GraphModel that needs no file: the network as training has it."""

    name = "graph in training"

    def __init__(self, net: GraphNet) -> None:
        self._net = net

    def ask(self, inputs: Mapping[str, NDArray[np.float32]]) -> Mapping[str, NDArray[np.float32]]:
        """See roost_engine.scoring.graph_tree.GraphModel."""
        return self._net.answer(inputs)
