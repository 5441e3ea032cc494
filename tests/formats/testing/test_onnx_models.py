"""The encoder of test models, against the reader that the product uses."""

from pathlib import Path

import numpy as np
import pytest

from roost_engine.cluster.features import COLUMNS
from roost_engine.scoring.heuristic import HeuristicScore
from roost_formats.models.onnx_file import read_onnx
from roost_formats.models.score import INPUT_NAME, load_onnx_score
from roost_formats.models.signature import ORDER, SCORE
from roost_formats.testing.onnx_models import (
    ModelParts,
    doubling_parts,
    install_model,
    order_parts,
    varint,
)


@pytest.mark.parametrize(
    ("value", "encoded"),
    [
        (0, b"\x00"),
        (127, b"\x7f"),
        (128, b"\x80\x01"),
        (300, b"\xac\x02"),
        (-1, b"\xff" * 9 + b"\x01"),
    ],
)
def test_varints_are_protobufs(value: int, encoded: bytes) -> None:
    assert varint(value) == encoded


def test_the_standard_model_answers_as_the_heuristic_does(tmp_path: Path) -> None:
    policy = load_onnx_score(install_model(tmp_path, ModelParts().encode()), lambda: 0.0)
    features = np.random.default_rng(1).random((5, len(COLUMNS))).astype(np.float32)
    np.testing.assert_allclose(
        policy.score(features), HeuristicScore().score(features), rtol=1e-5, atol=1e-5
    )


def test_a_doubling_model_doubles_as_often_as_asked() -> None:
    graph = read_onnx(doubling_parts(3, axis=1).encode(), SCORE)
    doubled = [node for node in graph.nodes if node.operator == "Concat"]
    assert [node.attributes["axis"] for node in doubled] == [1, 1, 1]
    assert doubled[0].inputs == (INPUT_NAME, INPUT_NAME)


def test_the_order_model_has_the_ends_of_its_kind() -> None:
    graph = read_onnx(order_parts().encode(), ORDER)
    assert {value.name for value in graph.inputs} == {"jobs", "cluster"}
    assert [value.name for value in graph.outputs] == ["rank"]
