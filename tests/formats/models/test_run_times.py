"""Models of kind runtimes, from the file to the engine's answer."""

from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from roost_engine.domain.errors import PolicyError
from roost_engine.prediction.run_time_features import COLUMNS
from roost_engine.prediction.run_times import BAND_COUNT
from roost_formats.models.run_times import INPUT_NAME, OUTPUT_NAME, load_onnx_run_times
from roost_formats.models.signature import RUN_TIMES
from roost_formats.testing.onnx_models import (
    ModelParts,
    attribute,
    install_kind,
    operation,
    tensor,
    value_info,
)
from roost_formats.testing.sessions import FakeClock


def install(folder: Path, columns: tuple[str, ...] = COLUMNS, scale: float = 1.0) -> Path:
    """A model that answers with the history's own shares."""
    weight = np.zeros((len(COLUMNS), BAND_COUNT), np.float32)
    weight[:BAND_COUNT] = scale * np.eye(BAND_COUNT)
    parts = ModelParts(
        nodes=[
            operation("MatMul", [INPUT_NAME, "weight"], ["logits"]),
            operation("Softmax", ["logits"], [OUTPUT_NAME], attribute("axis", 1)),
        ],
        weights=[tensor("weight", weight)],
        inputs=[value_info(INPUT_NAME, ["job", len(COLUMNS)])],
        outputs=[value_info(OUTPUT_NAME, ["job", BAND_COUNT])],
    )
    return install_kind(
        folder,
        parts.encode(),
        RUN_TIMES,
        columns={INPUT_NAME: columns},
        canary_inputs={INPUT_NAME: features()},
        canary_outputs={OUTPUT_NAME: shares()},
    )


def shares() -> NDArray[np.float32]:
    drawn = np.random.default_rng(0).random((3, BAND_COUNT)) + 0.1
    found: NDArray[np.float32] = (drawn / drawn.sum(axis=1, keepdims=True)).astype(np.float32)
    return found


def features() -> NDArray[np.float32]:
    table = np.zeros((3, len(COLUMNS)), np.float32)
    table[:, :BAND_COUNT] = np.log(shares())
    return table


def test_a_model_answers_with_a_share_for_each_band(tmp_path: Path) -> None:
    model = load_onnx_run_times(install(tmp_path), FakeClock())
    assert model.name.startswith("onnx:")
    assert model.ending_fracs(features()) == pytest.approx(shares(), abs=1e-5)


def test_features_of_another_width_are_refused(tmp_path: Path) -> None:
    model = load_onnx_run_times(install(tmp_path), FakeClock())
    with pytest.raises(PolicyError, match=r"features are float32\[1, 5\]"):
        model.ending_fracs(np.zeros((1, 5), np.float32))


def test_a_model_of_other_columns_is_refused(tmp_path: Path) -> None:
    path = install(tmp_path, columns=(*COLUMNS[:-1], "phase_of_the_moon"))
    with pytest.raises(PolicyError, match="train it again with this version's roost-train"):
        load_onnx_run_times(path, FakeClock())


def test_a_model_that_answers_otherwise_than_where_it_was_made_is_refused(tmp_path: Path) -> None:
    with pytest.raises(PolicyError, match="is off by"):
        load_onnx_run_times(install(tmp_path, scale=0.5), FakeClock())
