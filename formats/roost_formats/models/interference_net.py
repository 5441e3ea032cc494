"""The interference model that `roost-train interference` writes, computed with numpy.

A call of a runtime costs more than the arithmetic of so small a model. The ONNX file stays the
truth: only a graph of exactly these operations is read, and the loader compares both answers.
Weights are mostly zero, so only their columns that are not are read; where no neighbour shares a
GPU, the terms that are 0 there are not computed. Sums are in one order on every machine.
"""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from roost_engine.cluster.features import weighted_sums
from roost_engine.domain.errors import PolicyError
from roost_engine.prediction.interference_model import Cases, Slowdowns
from roost_formats.models.onnx_file import OnnxGraph

Array = NDArray[np.float32]

# Operator and inputs of each node, in the order of the file.
_NODES = (
    ("MatMul", "own", "partition"),
    ("Softmax", "logits"),
    ("Gemm", "beside", "slopes", "offsets"),
    ("Tanh", "load_sums"),
    ("Sub", "load_tanh", "at_rest"),
    ("MatMul", "parts", "costs"),
    ("Mul", "own_costs", "loads"),
    ("MatMul", "terms", "add_up"),
    ("MatMul", "own", "duty"),
    ("Relu", "duty_sum"),
    ("MatMul", "beside", "pressure"),
    ("Relu", "pressure_sum"),
    ("Mul", "own_duty", "host_pressure"),
    ("Add", "on_gpu", "on_host"),
    ("MatMul", "parts", "part_spread"),
    ("MatMul", "own", "unknown"),
    ("Relu", "unknown_sum"),
    ("Add", "known_spread", "unknown_spread"),
    ("MatMul", "beside", "any_gpu"),
    ("Tanh", "gpu_sum"),
    ("Mul", "job_spread", "has_gpu"),
    ("Mul", "on_host", "host_spread"),
    ("MatMul", "tier", "tier_spread"),
    ("MatMul", "beside", "other"),
    ("Tanh", "other_sum"),
    ("Add", "gpu_spread", "constant_spread"),
    ("Add", "spread_1", "floor_spread"),
    ("Add", "spread_2", "other_spread"),
    ("Concat", "mean", "spread"),
)


class _Sparse(NamedTuple):
    """A matrix as its rows that are not all 0.

    Attributes:
        rows: int64 [row], which.
        values: float32 [row, column].
    """

    rows: NDArray[np.int64]
    values: Array

    @classmethod
    def of(cls, matrix: Array) -> "_Sparse":
        rows = np.flatnonzero(matrix.any(axis=1))
        return cls(rows, np.ascontiguousarray(matrix[rows]))

    def times(self, left: Array) -> Array:
        """Return left · matrix: [case, column] of [case, position]."""
        return weighted_sums(left[:, self.rows], self.values)


class InterferenceNet:
    """See the module.

    Args:
        weights: of the file, by name.

    Raises:
        PolicyError: a weight is missing.
    """

    def __init__(self, weights: Mapping[str, Array]) -> None:
        try:
            self._matrix = {
                name: _Sparse.of(weights[name])
                for name in (
                    *("partition", "slopes", "costs", "add_up", "duty", "pressure"),
                    *("part_spread", "unknown", "any_gpu", "other", "tier_spread"),
                )
            }
            self._offsets, self._at_rest = weights["offsets"], weights["at_rest"]
            self._host_spread = weights["host_spread"]
        except KeyError as error:
            raise PolicyError(f"the model has no weight {error}") from error
        on_gpu = (self._matrix["slopes"].rows, self._matrix["any_gpu"].rows)
        self._on_gpu = np.unique(np.concatenate(on_gpu))

    def slowdowns(self, cases: Cases) -> Slowdowns:
        """See prediction.interference_model.InterferenceModel."""
        own, beside, matrix = cases.own, cases.beside, self._matrix
        duty, pressure = matrix["duty"].times(own), matrix["pressure"].times(beside)
        mean = np.maximum(duty, 0.0) * np.maximum(pressure, 0.0)
        spread = self._host_spread * mean + matrix["tier_spread"].times(cases.tier)
        spread += np.tanh(matrix["other"].times(beside))
        if beside[:, self._on_gpu].any():
            on_gpu, on_gpu_spread = self._on_gpus(own, beside)
            mean, spread = mean + on_gpu, spread + on_gpu_spread
        return Slowdowns(mean[:, 0], spread[:, 0])

    def _on_gpus(self, own: Array, beside: Array) -> tuple[Array, Array]:
        """Return what neighbours on the same GPU add to mean and spread."""
        matrix = self._matrix
        logits = matrix["partition"].times(own)
        powers = np.exp(logits - logits.max(axis=1, keepdims=True))
        parts = powers / powers.sum(axis=1, keepdims=True)
        loads = np.tanh(matrix["slopes"].times(beside) + self._offsets) - self._at_rest
        mean = matrix["add_up"].times(matrix["costs"].times(parts) * loads)
        unknown = np.maximum(matrix["unknown"].times(own), 0.0)
        spread = matrix["part_spread"].times(parts) + unknown
        return mean, spread * np.tanh(matrix["any_gpu"].times(beside))


def net_of(graph: OnnxGraph) -> InterferenceNet | None:
    """Return a graph as numpy computes it; None where it is of another form."""
    found = tuple((node.operator, *node.inputs) for node in graph.nodes)
    return InterferenceNet(graph.weights) if found == _NODES else None
