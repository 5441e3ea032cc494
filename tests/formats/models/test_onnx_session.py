import re

import numpy as np
import pytest

from roost_engine.domain.errors import PolicyError
from roost_formats.models.onnx_session import OnnxSession
from roost_formats.testing.onnx_models import (
    ModelParts,
    attribute,
    number,
    operation,
    order_parts,
    value_info,
)

FEATURES = np.random.default_rng(3).random((5, 18)).astype(np.float32)


def test_answers_every_output_by_name() -> None:
    parts = order_parts()
    parts.outputs.append(value_info("gains", [3]))
    session = OnnxSession(parts.encode(), ("rank", "gains"))
    answers = session.run(
        {
            "jobs": np.array([[5, 1, 9], [2, 2, 9]], np.float32),
            "cluster": np.array([10, 99], np.float32),
        }
    )
    assert answers["rank"].tolist() == [[40.0], [0.0]]
    assert answers["gains"].tolist() == [10.0, -10.0, 0.0]


def test_same_batch_same_answer_to_the_last_bit() -> None:
    session = OnnxSession(ModelParts().encode(), ("score",))
    first, again = (session.run({"features": FEATURES})["score"] for _ in range(2))
    np.testing.assert_array_equal(first, again)


@pytest.mark.parametrize(
    "model",
    [
        b"",
        b"not a model",
        ModelParts(nodes=[operation("Relu", ["features"], ["score"], attribute("no", 1))]).encode(),
        ModelParts(nodes=[operation("MatMul", ["features", "absent"], ["score"])]).encode(),
        ModelParts(opsets=[number(2, 9999)]).encode(),
        ModelParts(inputs=[value_info("features", ["candidate", 18], 7)]).encode(),
    ],
)
def test_refused_models_are_policy_errors(model: bytes) -> None:
    with pytest.raises(PolicyError, match="onnxruntime refuses the model"):
        OnnxSession(model, ("score",))


@pytest.mark.parametrize(
    "inputs",
    [
        {"features": FEATURES[:, :17]},
        {"features": FEATURES.astype(np.float64)},
        {"features": FEATURES[0]},
        {"others": FEATURES},
        {},
    ],
)
def test_failing_runs_are_policy_errors(inputs: dict[str, np.ndarray]) -> None:
    session = OnnxSession(ModelParts().encode(), ("score",))
    with pytest.raises(PolicyError, match="onnxruntime failed"):
        session.run(inputs)


def test_an_output_that_the_model_lacks_is_a_policy_error() -> None:
    session = OnnxSession(ModelParts().encode(), ("rank",))
    with pytest.raises(PolicyError, match=re.escape("onnxruntime failed")):
        session.run({"features": FEATURES})
