"""The reference evaluation of a model: its operations one by one in numpy, nothing optimised.

Slow and plain on purpose: it checks that ONNX Runtime computes what the file says.
"""

from collections.abc import Callable, Mapping

import numpy as np
from numpy.typing import NDArray

from roost_formats.models.onnx_file import OnnxGraph

Array = NDArray[np.float32]


def run_graph(graph: OnnxGraph, features: Array) -> Array:
    """Compute the answer of a model with one input.

    Args:
        graph: as roost_formats.models.onnx_file.read_onnx gave it.
        features: float32 [candidate, column].

    Returns:
        float32 [candidate].

    Raises:
        KeyError: the graph uses a value before it is computed.
    """
    (entry,) = graph.fed_inputs()
    return run_all(graph, {entry.name: features})[graph.outputs[0].name].reshape(len(features))


def run_all(graph: OnnxGraph, inputs: Mapping[str, Array]) -> dict[str, Array]:
    """Compute every output of a model.

    Args:
        graph: as roost_formats.models.onnx_file.read_onnx gave it.
        inputs: one array for each input.

    Raises:
        KeyError: the graph uses a value before it is computed.
    """
    values: dict[str, Array] = {**graph.weights, **inputs}
    # Some BLAS kernels raise the NaN flag for lanes they throw away; what counts is the answer.
    with np.errstate(invalid="ignore"):
        for node in graph.nodes:
            arguments = [values[name] for name in node.inputs if name]
            result = _OPERATORS[node.operator](arguments, node.attributes)
            values[node.outputs[0]] = np.asarray(result, dtype=np.float32)
    return {output.name: values[output.name] for output in graph.outputs}


def _gemm(inputs: list[Array], attributes: Mapping[str, float | int]) -> Array:
    a, b = inputs[0], inputs[1]
    a = a.T if attributes.get("transA", 0) else a
    b = b.T if attributes.get("transB", 0) else b
    product = np.float32(attributes.get("alpha", 1.0)) * (a @ b)
    if len(inputs) == 3:
        product = product + np.float32(attributes.get("beta", 1.0)) * inputs[2]
    return np.asarray(product, dtype=np.float32)


def _softmax(inputs: list[Array], attributes: Mapping[str, float | int]) -> Array:
    axis = int(attributes.get("axis", -1))
    powers = np.exp(inputs[0] - inputs[0].max(axis=axis, keepdims=True))
    return np.asarray(powers / powers.sum(axis=axis, keepdims=True), dtype=np.float32)


_OPERATORS: Mapping[str, Callable[[list[Array], Mapping[str, float | int]], Array]] = {
    "Add": lambda x, _: x[0] + x[1],
    "Concat": lambda x, attributes: np.concatenate(x, axis=int(attributes["axis"])),
    "Div": lambda x, _: x[0] / x[1],
    "Gemm": _gemm,
    "Identity": lambda x, _: x[0],
    "MatMul": lambda x, _: x[0] @ x[1],
    "Mul": lambda x, _: x[0] * x[1],
    "Relu": lambda x, _: np.maximum(x[0], np.float32(0)),
    "Sigmoid": lambda x, _: np.float32(1) / (np.float32(1) + np.exp(-x[0])),
    "Softmax": _softmax,
    "Sub": lambda x, _: x[0] - x[1],
    "Tanh": lambda x, _: np.tanh(x[0]),
}


def operators() -> frozenset[str]:
    """Return the operators that this evaluation supports."""
    return frozenset(_OPERATORS)
