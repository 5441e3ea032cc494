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
from roost_engine.prediction.interference.interference_model import Cases, Slowdowns
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
        chosen = left.take(self.rows, axis=1)
        if self.values.shape[1] > 1:
            return weighted_sums(chosen, self.values)
        # Cases side by side in memory: else numpy adds 8 numbers and more in another order.
        sums: Array = np.add.reduce(np.multiply(chosen.T, self.values, order="C"), axis=0)
        return sums[:, None]


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
        """See interference_model.InterferenceModel."""
        own, beside, matrix = cases.own, cases.beside, self._matrix
        mean = self._by_host(own, beside)
        spread = self._host_spread * mean + matrix["tier_spread"].times(cases.tier)
        spread += np.tanh(matrix["other"].times(beside))
        if self._has_gpu(beside):
            parts = self._parts(own)
            mean = mean + self._by_gpu(parts, beside)
            unknown = np.maximum(matrix["unknown"].times(own), 0.0)
            on_gpu = matrix["part_spread"].times(parts) + unknown
            spread = spread + on_gpu * np.tanh(matrix["any_gpu"].times(beside))
        return Slowdowns(mean[:, 0], spread[:, 0])

    def means(self, cases: Cases) -> Array:
        """See interference_model.InterferenceModel."""
        own, beside = cases.own, cases.beside
        mean = self._by_host(own, beside)
        if self._has_gpu(beside):
            mean = mean + self._by_gpu(self._parts(own), beside)
        return mean[:, 0]

    def _by_host(self, own: Array, beside: Array) -> Array:
        """Return what neighbours on the node and in the rack cost: [case, 1]."""
        duty = self._matrix["duty"].times(own)
        pressure = self._matrix["pressure"].times(beside)
        by_host: Array = np.maximum(duty, 0.0) * np.maximum(pressure, 0.0)
        return by_host

    def _has_gpu(self, beside: Array) -> bool:
        """Return whether a neighbour in any case shares a GPU."""
        return bool(np.count_nonzero(beside.take(self._on_gpu, 1)))

    def _parts(self, own: Array) -> Array:
        logits = self._matrix["partition"].times(own)
        powers = np.exp(logits - logits.max(axis=1, keepdims=True))
        parts: Array = powers / powers.sum(axis=1, keepdims=True)
        return parts

    def _by_gpu(self, parts: Array, beside: Array) -> Array:
        """Return what neighbours on the same GPU cost: [case, 1]."""
        matrix = self._matrix
        loads = np.tanh(matrix["slopes"].times(beside) + self._offsets) - self._at_rest
        return matrix["add_up"].times(matrix["costs"].times(parts) * loads)


def net_of(graph: OnnxGraph) -> InterferenceNet | None:
    """Return a graph as numpy computes it; None where it is of another form."""
    found = tuple((node.operator, *node.inputs) for node in graph.nodes)
    return InterferenceNet(graph.weights) if found == _NODES else None
