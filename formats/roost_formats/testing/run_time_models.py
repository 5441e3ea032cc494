"""Small models of run times for tests."""

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from roost_engine.prediction.run_time.run_time_features import COLUMNS
from roost_engine.prediction.run_time.run_times import BAND_COUNT
from roost_formats.models.run_times import INPUT_NAME, OUTPUT_NAME
from roost_formats.models.signature import RUN_TIMES
from roost_formats.testing.onnx_models import (
    ModelParts,
    attribute,
    install_kind,
    operation,
    tensor,
    value_info,
)

_HUGE = np.float32(3e38)


def install_run_times(
    folder: Path,
    *,
    band: int | None = None,
    breaks_on_gangs: bool = False,
    columns: tuple[str, ...] = COLUMNS,
    canary_off: float = 0.0,
) -> Path:
    """Write a model that answers with the history's own shares, and its manifest.

    Args:
        folder: where to; made if it is missing.
        band: nearly all jobs end in this band instead.
        breaks_on_gangs: the answer is NaN for jobs of 4 GPUs and more.
        columns: those that the manifest names.
        canary_off: the manifest's answers are off by this much.

    Returns:
        The model's path.
    """
    weight = np.zeros((len(COLUMNS), BAND_COUNT), np.float32)
    bias = np.zeros(BAND_COUNT, np.float32)
    weight[:BAND_COUNT] = np.eye(BAND_COUNT) if band is None else 0.0
    if band is not None:
        bias[band] = 20.0
    if breaks_on_gangs:
        weight[COLUMNS.index("gpus"), 0] = _HUGE  # times ln 4, that is infinite
    parts = ModelParts(
        nodes=[
            operation("MatMul", [INPUT_NAME, "weight"], ["weighted"]),
            operation("Add", ["weighted", "bias"], ["logits"]),
            operation("Softmax", ["logits"], [OUTPUT_NAME], attribute("axis", 1)),
        ],
        weights=[tensor("weight", weight), tensor("bias", bias)],
        inputs=[value_info(INPUT_NAME, ["job", len(COLUMNS)])],
        outputs=[value_info(OUTPUT_NAME, ["job", BAND_COUNT])],
    )
    folder.mkdir(parents=True, exist_ok=True)
    answers = np.exp(run_time_features() @ weight + bias)
    answers /= answers.sum(axis=1, keepdims=True)
    return install_kind(
        folder,
        parts.encode(),
        RUN_TIMES,
        columns={INPUT_NAME: columns},
        canary_inputs={INPUT_NAME: run_time_features()},
        canary_outputs={OUTPUT_NAME: (answers + canary_off).astype(np.float32)},
    )


def run_time_features() -> NDArray[np.float32]:
    """Return the features of three jobs of one GPU, float32 [job, column]."""
    drawn = np.random.default_rng(0).random((3, BAND_COUNT)) + 0.1
    table = np.zeros((3, len(COLUMNS)), np.float32)
    table[:, :BAND_COUNT] = np.log(drawn / drawn.sum(axis=1, keepdims=True))
    return table
