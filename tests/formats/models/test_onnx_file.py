import re
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from roost_engine.cluster.features import COLUMNS, HEURISTIC_WEIGHTS
from roost_engine.domain.errors import PolicyError
from roost_formats.models.onnx_file import read_onnx
from roost_formats.models.score import BUILTIN_MODEL, INPUT_NAME, OUTPUT_NAME
from roost_formats.models.signature import FLOAT32, INT64, ORDER, SCORE, Limits
from roost_formats.testing.onnx_models import (
    ModelParts,
    attribute,
    blob,
    number,
    operation,
    single,
    tensor,
    value_info,
)

WEIGHTS = HEURISTIC_WEIGHTS[:, None]


def test_reads_names_shapes_and_weights() -> None:
    graph = read_onnx(ModelParts().encode(), SCORE)
    assert [node.operator for node in graph.nodes] == ["MatMul"]
    assert graph.inputs[0].name == INPUT_NAME
    assert graph.inputs[0].dtype == FLOAT32
    assert graph.inputs[0].dimensions == (None, len(COLUMNS))
    assert graph.outputs[0].name == OUTPUT_NAME
    np.testing.assert_array_equal(graph.weights["weight"], WEIGHTS)


def test_reads_weights_stored_as_a_list_of_floats() -> None:
    floats = b"".join(single(4, float(value)) for value in HEURISTIC_WEIGHTS)
    message = number(1, len(COLUMNS)) + number(1, 1) + number(2, 1) + blob(8, "weight") + floats
    graph = read_onnx(ModelParts(weights=[message]).encode(), SCORE)
    np.testing.assert_array_equal(graph.weights["weight"], WEIGHTS)


def test_reads_number_attributes() -> None:
    attributes = blob(5, blob(1, "alpha") + single(2, 0.5)) + blob(
        5, blob(1, "transB") + number(3, 1)
    )
    node = operation("Gemm", [INPUT_NAME, "weight"], [OUTPUT_NAME], attributes)
    assert read_onnx(ModelParts(nodes=[node]).encode(), SCORE).nodes[0].attributes == {
        "alpha": 0.5,
        "transB": 1,
    }


@pytest.mark.parametrize(("code", "dtype"), [(1, FLOAT32), (7, INT64), (11, None)])
def test_reads_the_types_that_signatures_use(code: int, dtype: object) -> None:
    parts = ModelParts(inputs=[value_info("x", [3], code)])
    assert read_onnx(parts.encode(), SCORE).inputs[0].dtype == dtype


def test_weights_listed_among_the_inputs_need_not_be_fed() -> None:
    parts = ModelParts()
    parts.inputs.append(value_info("weight", [len(COLUMNS), 1]))
    fed = read_onnx(parts.encode(), SCORE).fed_inputs()
    assert [value.name for value in fed] == [INPUT_NAME]


def test_refusals_name_the_kind_of_model() -> None:
    model = ModelParts(model_extra=blob(25, b"")).encode()
    for signature, title in ((SCORE, "a score policy"), (ORDER, "an order policy")):
        with pytest.raises(PolicyError, match=f"functions of its own; {title} may not"):
            read_onnx(model, signature)


def test_operators_and_limits_are_those_of_the_signature() -> None:
    no_products = replace(SCORE, allowed_operators=frozenset({"Add"}))
    with pytest.raises(PolicyError, match="'MatMul'; allowed are Add"):
        read_onnx(ModelParts().encode(), no_products)
    narrow = replace(SCORE, limits=Limits(dimension=17))
    with pytest.raises(PolicyError, match="want at most 2 dimensions of 1 to 17"):
        read_onnx(ModelParts().encode(), narrow)
    with pytest.raises(PolicyError, match="1 operations; want 1 to 0"):
        read_onnx(ModelParts().encode(), replace(SCORE, limits=Limits(node_count=0)))


def _replace(**parts: object) -> Callable[[], ModelParts]:
    def make() -> ModelParts:
        made = ModelParts()
        for name, value in parts.items():
            setattr(made, name, value)
        return made

    return make


def _weight(extra: bytes = b"", values: np.ndarray | None = None) -> list[bytes]:
    return [tensor("weight", WEIGHTS if values is None else values) + extra]


def _node(operator: str, extra: bytes = b"") -> list[bytes]:
    return [operation(operator, [INPUT_NAME, "weight"], [OUTPUT_NAME], extra)]


SUBGRAPH = blob(5, blob(1, "body") + blob(6, b""))
TEXT = blob(5, blob(1, "mode") + blob(4, "wrap"))
EXTERNAL = blob(13, blob(1, "location") + blob(2, "/etc/shadow")) + number(14, 1)

FORBIDDEN = {
    "loop": (_replace(nodes=_node("Loop", SUBGRAPH)), "uses the operator 'Loop'"),
    "file constant": (_replace(nodes=_node("ConstantOfShape")), "operator 'ConstantOfShape'"),
    "custom operator": (_replace(nodes=_node("MatMul", blob(7, "evil"))), "'evil.MatMul'"),
    "subgraph": (_replace(nodes=_node("MatMul", SUBGRAPH)), "a subgraph"),
    "text attribute": (_replace(nodes=_node("MatMul", TEXT)), "has text"),
    "attribute twice": (
        _replace(nodes=_node("Gemm", attribute("transA", 0) + attribute("transA", 1))),
        "attribute 'transA' of Gemm is there twice",
    ),
    "external data": (_replace(weights=_weight(EXTERNAL)), "lies in another file"),
    "location alone": (_replace(weights=_weight(number(14, 1))), "lies in another file"),
    "functions": (_replace(model_extra=blob(25, b"")), "functions of its own"),
    "training": (_replace(model_extra=blob(20, b"")), "training information"),
    "sparse weights": (_replace(graph_extra=blob(15, b"")), "sparse weights"),
    "other domain": (_replace(opsets=[blob(1, "com.evil") + number(2, 1)]), "'com.evil'"),
    "old opset": (_replace(opsets=[number(2, 5)]), "operator set versions are [5]"),
    "no opset": (_replace(opsets=[]), "operator set versions are []"),
    "no operation": (_replace(nodes=[]), "0 operations"),
    "too many operations": (
        _replace(nodes=_node("MatMul") * (SCORE.limits.node_count + 1)),
        "257 operations",
    ),
    "two weights of one name": (_replace(weights=_weight() * 2), "two weights named"),
    "NaN weight": (
        _replace(weights=_weight(values=np.full_like(WEIGHTS, np.nan))),
        "NaN or infinity",
    ),
    "infinite weight": (
        _replace(weights=_weight(values=np.full_like(WEIGHTS, np.inf))),
        "NaN or infinity",
    ),
    "float64 weight": (
        _replace(weights=[number(1, 1) + number(2, 11) + blob(8, "w") + blob(9, bytes(8))]),
        "not of type float32",
    ),
    "huge weight": (
        _replace(weights=[tensor("w", np.zeros((1, SCORE.limits.dimension + 1), np.float32))]),
        "dimensions",
    ),
    "deep weight": (_replace(weights=[tensor("w", np.zeros((1, 1, 1), np.float32))]), "dimensions"),
    "short weight": (
        _replace(weights=[number(1, 3) + number(2, 1) + blob(8, "w") + blob(9, bytes(8))]),
        "has 8 bytes; want 12",
    ),
    "negative dimension": (
        _replace(weights=[number(1, (1 << 64) - 1) + number(2, 1) + blob(8, "w")]),
        "shape [-1]",
    ),
    "weight stored twice": (_replace(weights=_weight(single(4, 1.0))), "numbers twice"),
    "two graphs": (_replace(model_extra=blob(7, b"")), "field 7 2 times"),
}


@pytest.mark.parametrize("name", FORBIDDEN)
def test_refuses(name: str) -> None:
    make, message = FORBIDDEN[name]
    with pytest.raises(PolicyError, match=re.escape(message)):
        read_onnx(make().encode(), SCORE)


def test_refuses_every_truncation() -> None:
    model = ModelParts().encode()
    for length in range(len(model)):
        with pytest.raises(PolicyError):
            read_onnx(model[:length], SCORE)


@given(st.binary(max_size=400))
def test_answers_any_bytes_with_a_policy_error(content: bytes) -> None:
    with pytest.raises(PolicyError):
        read_onnx(content, SCORE)


@given(data=st.data())
def test_damage_is_a_policy_error_or_harmless(data: st.DataObject) -> None:
    model = bytearray(BUILTIN_MODEL.read_bytes())
    for _ in range(data.draw(st.integers(1, 4))):
        model[data.draw(st.integers(0, len(model) - 1))] = data.draw(st.integers(0, 255))
    try:
        graph = read_onnx(bytes(model), SCORE)
    except PolicyError:
        return
    assert all(np.isfinite(weight).all() for weight in graph.weights.values())
