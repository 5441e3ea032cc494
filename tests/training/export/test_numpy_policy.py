import numpy as np
import pytest

from roost_engine.cluster.features import COLUMNS
from roost_formats.models.loader import open_session
from roost_formats.models.onnx_file import read_onnx
from roost_formats.models.score import BUILTIN_MODEL, INPUT_NAME, OUTPUT_NAME
from roost_formats.models.signature import KINDS, PLAIN_OPERATORS, SCORE
from roost_formats.testing.onnx_models import ModelParts, attribute, operation, tensor
from roost_train.export.numpy_policy import operators, run_graph

FEATURES = np.random.default_rng(5).random((33, len(COLUMNS))).astype(np.float32)


def test_knows_every_allowed_operator() -> None:
    assert operators() == frozenset.union(*(kind.allowed_operators for kind in KINDS.values()))


def test_agrees_with_the_runtime_on_the_shipped_model() -> None:
    model = BUILTIN_MODEL.read_bytes()
    ours = run_graph(read_onnx(model, SCORE), FEATURES)
    theirs = open_session(model, SCORE).run({INPUT_NAME: FEATURES})[OUTPUT_NAME].reshape(-1)
    np.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-5)


GEMM = attribute("alpha", 0.5) + attribute("beta", 2.0) + attribute("transB", 1)


def test_agrees_with_the_runtime_on_every_operator() -> None:
    rng = np.random.default_rng(1)
    nodes = [
        operation("Gemm", [INPUT_NAME, "wide", "bias"], ["a"], GEMM),
        operation("Tanh", ["a"], ["b"]),
        operation("Sigmoid", ["a"], ["c"]),
        operation("Concat", ["b", "c"], ["d"], attribute("axis", 1)),
        operation("Softmax", ["d"], ["e"], attribute("axis", 1)),
        operation("Sub", ["d", "e"], ["f"]),
        operation("Mul", ["f", "f"], ["g"]),
        operation("Identity", ["g"], ["h"]),
        operation("Relu", ["h"], ["i"]),
        operation("MatMul", ["i", "narrow"], ["j"]),
        operation("Div", ["j", "three"], ["k"]),
        operation("Add", ["k", "three"], [OUTPUT_NAME]),
    ]
    weights = {
        "wide": rng.normal(size=(4, len(COLUMNS))),
        "bias": rng.normal(size=4),
        "narrow": rng.normal(size=(8, 1)),
        "three": np.full(1, 3.0),
    }
    parts = ModelParts(
        nodes=nodes, weights=[tensor(n, w.astype(np.float32)) for n, w in weights.items()]
    )
    graph = read_onnx(parts.encode(), SCORE)
    assert {node.operator for node in graph.nodes} == PLAIN_OPERATORS
    theirs = open_session(parts.encode(), SCORE).run({INPUT_NAME: FEATURES})[OUTPUT_NAME]
    np.testing.assert_allclose(run_graph(graph, FEATURES), theirs.reshape(-1), rtol=0, atol=1e-5)


def test_value_that_nothing_computes_is_an_error() -> None:
    parts = ModelParts(nodes=[operation("MatMul", [INPUT_NAME, "absent"], [OUTPUT_NAME])])
    with pytest.raises(KeyError, match="absent"):
        run_graph(read_onnx(parts.encode(), SCORE), FEATURES)
