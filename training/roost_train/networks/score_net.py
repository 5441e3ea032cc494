"""The net behind the candidate score: a linear skip plus a small residual.

The skip carries what is known to be right (the heuristic is linear); through the residual, later
training on measured speed can correct it without a new file format. The skip is summed in two
parts: first the columns that near-equal candidates share, then the loads in which they differ. So
float32 resolves thousandths of a load beside a score of six.
"""

from collections.abc import Mapping
from dataclasses import dataclass, fields

import numpy as np
import torch
from numpy.typing import NDArray

from roost_engine.cluster.features import COLUMN, COLUMNS, LOAD_QUANTITIES, LOAD_SCOPES
from roost_train.errors import ModelError

LOADS_BEGIN = COLUMN[f"{LOAD_SCOPES[0]}_{LOAD_QUANTITIES[0]}_frac"]


@dataclass(slots=True)
class ScoreNet:
    """The weights, one field each; the exported file calls them by these names.

    Attributes:
        skip: [column].
        weight1, weight2: [in, out] of the residual's hidden layers.
        bias1, bias2: [out].
        weight3: [hidden, 1].
        bias3: [1].
    """

    skip: torch.Tensor
    weight1: torch.Tensor
    bias1: torch.Tensor
    weight2: torch.Tensor
    bias2: torch.Tensor
    weight3: torch.Tensor
    bias3: torch.Tensor

    @classmethod
    def random(cls, skip: NDArray[np.float64], hidden: int, gain: float) -> "ScoreNet":
        """Start with a known skip and a random residual, drawn from torch's global generator.

        Args:
            skip: [column].
            hidden: width of both hidden layers.
            gain: the residual's size at the start, next to a score.
        """

        def drawn(rows: int, columns: int, scale: float) -> torch.Tensor:
            return torch.randn(rows, columns, dtype=torch.float64) * scale

        wide = len(COLUMNS)
        return cls(
            skip=torch.from_numpy(skip.copy()),
            weight1=drawn(wide, hidden, (2 / wide) ** 0.5),
            bias1=torch.zeros(hidden, dtype=torch.float64),
            weight2=drawn(hidden, hidden, (2 / hidden) ** 0.5),
            bias2=torch.zeros(hidden, dtype=torch.float64),
            weight3=drawn(hidden, 1, gain / hidden**0.5),
            bias3=torch.zeros(1, dtype=torch.float64),
        )

    @classmethod
    def from_weights(cls, weights: Mapping[str, NDArray[np.float32]]) -> "ScoreNet":
        """Rebuild the net of an exported file.

        Raises:
            ModelError: the file was not exported by roost-train.
        """
        wanted = {field.name for field in fields(cls)} - {"skip"} | {"skip_shared", "skip_load"}
        if set(weights) != wanted:
            raise ModelError(
                f"its weights are {sorted(weights)}; a file of roost-train has {sorted(wanted)}"
            )
        tensors = {name: torch.from_numpy(weight.copy()) for name, weight in weights.items()}
        skip = (tensors.pop("skip_shared") + tensors.pop("skip_load"))[:, 0]
        return cls(skip=skip, **tensors)

    def parameters(self) -> list[torch.Tensor]:
        """Every weight, for an optimiser."""
        return [getattr(self, field.name) for field in fields(self)]

    def forward(self, features: torch.Tensor) -> torch.Tensor:
        """Score candidates.

        Args:
            features: [..., candidate, column].

        Returns:
            [..., candidate].
        """
        shared = features[..., :LOADS_BEGIN] @ self.skip[:LOADS_BEGIN]
        load = features[..., LOADS_BEGIN:] @ self.skip[LOADS_BEGIN:]
        first = torch.relu(features @ self.weight1 + self.bias1)
        second = torch.relu(first @ self.weight2 + self.bias2)
        residual = (second @ self.weight3 + self.bias3)[..., 0]
        return shared + (load + residual)

    def to_weights(self) -> dict[str, NDArray[np.float32]]:
        """Return the weights of the exported file, float32."""
        arrays = {
            field.name: getattr(self, field.name).detach().numpy().astype(np.float32)
            for field in fields(self)
        }
        skip = arrays.pop("skip")[:, None]
        is_load = np.arange(len(COLUMNS))[:, None] >= LOADS_BEGIN
        arrays["skip_shared"] = np.where(is_load, np.float32(0), skip)
        arrays["skip_load"] = np.where(is_load, skip, np.float32(0))
        return arrays
