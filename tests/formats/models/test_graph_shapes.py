from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from roost_engine.cluster.features import HEURISTIC_WEIGHTS
from roost_engine.domain.errors import PolicyError
from roost_engine.scoring.heuristic import HeuristicScore
from roost_formats.models.graph_shapes import check_shapes, infer_shapes
from roost_formats.models.loader import check_graph, open_session
from roost_formats.models.onnx_file import OnnxGraph, read_onnx
from roost_formats.models.score import BUILTIN_MODEL, INPUT_NAME, OUTPUT_NAME
from roost_formats.models.shapes import describe
from roost_formats.models.signature import ORDER, SCORE, Limits
from roost_formats.testing.onnx_models import (
    ModelParts,
    attribute,
    doubling_parts,
    operation,
    order_parts,
    tensor,
)


def graph_of(parts: ModelParts) -> OnnxGraph:
    return read_onnx(parts.encode(), SCORE)


def with_node(*nodes: bytes, **weights: np.ndarray) -> OnnxGraph:
    """The heuristic's graph after some other operations."""
    parts = ModelParts()
    parts.nodes[:0] = nodes
    parts.weights += [tensor(name, values) for name, values in weights.items()]
    return graph_of(parts)


def test_infers_every_value_of_the_shipped_model() -> None:
    shapes = infer_shapes(read_onnx(BUILTIN_MODEL.read_bytes(), SCORE), SCORE)
    assert describe(shapes["first_active"]) == "[candidate, 32]"
    assert describe(shapes[OUTPUT_NAME]) == "[candidate, 1]"


def test_infers_with_several_inputs() -> None:
    graph = read_onnx(order_parts().encode(), ORDER)
    fixed = check_graph(graph, ORDER)
    shapes = infer_shapes(graph, fixed)
    assert {name: describe(shapes[name]) for name in ("gains", "weighted", "rank")} == {
        "gains": "[3]",
        "weighted": "[job, 3]",
        "rank": "[job, 1]",
    }


@pytest.mark.parametrize("axis", [0, 1])
def test_the_runtime_takes_a_doubling_model_at_its_word(axis: int) -> None:
    """The attack is real: no check at the model's ends can notice it."""
    features = np.random.default_rng(0).random((4, 18)).astype(np.float32)
    session = open_session(doubling_parts(3, axis).encode(), SCORE)
    np.testing.assert_allclose(
        session.run({INPUT_NAME: features})[OUTPUT_NAME][:, 0],
        HeuristicScore().score(features),
        rtol=0,
        atol=1e-5,
    )


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("times", [10, 24, 250])
def test_doubling_is_refused_where_it_passes_the_limit(times: int, axis: int) -> None:
    # 18 numbers a candidate doubled ten times are 18,432: the first to pass 16,384.
    with pytest.raises(
        PolicyError, match="'doubled10' holds 18,432 numbers for one candidate; 16,384 are allowed"
    ):
        check_graph(graph_of(doubling_parts(times, axis)), SCORE)


def test_a_little_doubling_is_no_harm() -> None:
    check_graph(graph_of(doubling_parts(3, axis=0)), SCORE)


def test_values_that_are_small_one_by_one_count_together() -> None:
    # The ninth doubling makes 9,216 numbers, all nine 18,396; what follows adds 9,561.
    with pytest.raises(PolicyError, match="the model holds 27,957 numbers for one candidate"):
        check_graph(graph_of(doubling_parts(9, axis=0)), SCORE)


def test_a_square_of_the_batch_is_refused() -> None:
    square = operation("Gemm", [INPUT_NAME, INPUT_NAME], ["square"], attribute("transB", 1))
    with pytest.raises(
        PolicyError, match=r"'square' has the shape \[candidate, candidate\], which grows faster"
    ):
        check_shapes(with_node(square), SCORE)


def test_weights_multiplied_out_at_load_are_refused() -> None:
    names = ["wide", *(f"wider{step}" for step in range(12))]
    nodes = [
        operation("Concat", [before, before], [after], attribute("axis", 0))
        for before, after in pairwise(names)
    ]
    with pytest.raises(
        PolicyError, match="'wider1' holds 4,194,304 numbers from weights alone; 2,500,000 are"
    ):
        check_shapes(with_node(*nodes, wide=np.zeros((1024, 1024), np.float32)), SCORE)


def test_many_weights_count_together() -> None:
    copies = [operation("Identity", ["wide"], [f"copy{step}"]) for step in range(2)]
    wide = np.zeros((1024, 1024), np.float32)
    check_shapes(with_node(copies[0], wide=wide), SCORE)
    with pytest.raises(PolicyError, match="the model holds 3,145,746 numbers from weights alone"):
        check_shapes(with_node(*copies, wide=wide), SCORE)


def test_limits_are_those_of_the_signature() -> None:
    narrow = replace(SCORE, limits=Limits(intermediate_elements=0))
    with pytest.raises(PolicyError, match="'score' holds 1 numbers for one candidate; 0 are"):
        check_shapes(graph_of(ModelParts()), narrow)


@pytest.mark.parametrize(
    ("graph", "message"),
    [
        (
            with_node(operation("Relu", ["absent"], ["x"])),
            "the shape of 'x' cannot be inferred: Relu reads 'absent', which nothing before it",
        ),
        (with_node(operation("Relu", ["x"], ["x"])), "Relu reads 'x', which nothing before it"),
        (with_node(operation("Add", ["", INPUT_NAME], ["x"])), "Add reads '', which nothing"),
        (
            with_node(operation("Add", [INPUT_NAME, "two"], ["x"]), two=np.zeros(2, np.float32)),
            r"cannot be inferred: Add of \[candidate, 18\] and \[2\]: sizes 18 and 2 do not fit",
        ),
        (with_node(operation("Relu", [INPUT_NAME], ["weight"])), "two values named 'weight'"),
        (with_node(operation("Relu", [INPUT_NAME], ["score"])), "two values named 'score'"),
        (with_node(operation("Relu", [INPUT_NAME], [INPUT_NAME])), "two values named 'features'"),
        (with_node(operation("Relu", [INPUT_NAME], ["x", "y"])), "Relu has 2 outputs"),
        (with_node(operation("Relu", [INPUT_NAME], [""])), "Relu has 1 outputs; want a named one"),
        (
            graph_of(ModelParts(nodes=[operation("Relu", [INPUT_NAME], ["x"])])),
            "no operation of the model gives its output 'score'",
        ),
        (
            graph_of(ModelParts(nodes=[operation("Relu", [INPUT_NAME], ["score"])])),
            r"computes score\[candidate, 18\]; want score\[candidate\]",
        ),
        (
            graph_of(
                ModelParts(
                    nodes=[operation("Concat", ["raw", "raw"], ["score"], attribute("axis", 0))],
                    weights=[tensor("raw", HEURISTIC_WEIGHTS[:, None])],
                )
            ),
            r"computes score\[36, 1\]; want score\[candidate\]",
        ),
    ],
)
def test_refuses(graph: OnnxGraph, message: str) -> None:
    with pytest.raises(PolicyError, match=message):
        check_shapes(graph, SCORE)


def test_absent_last_inputs_are_no_inputs() -> None:
    node = operation("Gemm", [INPUT_NAME, "weight", ""], ["x"])
    assert describe(infer_shapes(with_node(node), SCORE)["x"]) == "[candidate, 1]"


def test_a_value_may_not_have_more_dimensions_than_the_signature_allows() -> None:
    deep = replace(SCORE, limits=Limits(rank=3))
    graph = read_onnx(
        ModelParts(
            nodes=[
                operation("Add", [INPUT_NAME, "deep"], ["x"]),
                operation("MatMul", [INPUT_NAME, "weight"], [OUTPUT_NAME]),
            ],
            weights=[
                tensor("deep", np.zeros((1, 1, 1), np.float32)),
                tensor("weight", HEURISTIC_WEIGHTS[:, None]),
            ],
        ).encode(),
        deep,
    )
    check_shapes(graph, deep)
    with pytest.raises(PolicyError, match=r"'x' has the shape \[1, candidate, 18\]; want at most"):
        check_shapes(graph, SCORE)
