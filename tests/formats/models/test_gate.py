"""The adapter of a gate's file."""

from pathlib import Path

import numpy as np
import pytest

from roost_engine.domain.errors import PolicyError
from roost_engine.gate.offer_features import CONTEXT_COLUMNS, OFFER_COLUMNS
from roost_formats.models.gate import CONTEXT_NAME, OFFER_NAME, RANK_NAME, load_onnx_gate
from roost_formats.models.signature import GATE
from roost_formats.testing.onnx_models import (
    ModelParts,
    install_kind,
    operation,
    tensor,
    value_info,
)
from roost_formats.testing.sessions import FakeClock

OFFERS = np.eye(2, len(OFFER_COLUMNS), dtype=np.float32)
CONTEXT = np.ones((2, len(CONTEXT_COLUMNS)), dtype=np.float32)


def install(folder: Path, columns: tuple[str, ...] = OFFER_COLUMNS) -> Path:
    """Rank = sum of the offer's columns - sum of the context's."""
    sizes = len(OFFER_COLUMNS), len(CONTEXT_COLUMNS)
    parts = ModelParts(
        nodes=[
            operation("MatMul", [OFFER_NAME, "of_offer"], ["own"]),
            operation("MatMul", [CONTEXT_NAME, "of_context"], ["other"]),
            operation("Add", ["own", "other"], [RANK_NAME]),
        ],
        weights=[
            tensor("of_offer", np.ones((sizes[0], 1), np.float32)),
            tensor("of_context", -np.ones((sizes[1], 1), np.float32)),
        ],
        inputs=[value_info(OFFER_NAME, ["n", sizes[0]]), value_info(CONTEXT_NAME, ["n", sizes[1]])],
        outputs=[value_info(RANK_NAME, ["n", 1])],
    )
    return install_kind(
        folder,
        parts.encode(),
        GATE,
        columns={OFFER_NAME: columns, CONTEXT_NAME: CONTEXT_COLUMNS},
        canary_inputs={OFFER_NAME: OFFERS, CONTEXT_NAME: CONTEXT},
        canary_outputs={RANK_NAME: np.full(2, 1.0 - sizes[1], np.float32)},
    )


def test_a_gate_answers_one_offer(tmp_path: Path) -> None:
    model = load_onnx_gate(install(tmp_path), FakeClock())
    assert model.name.startswith("onnx:")
    assert model.rank(20 * OFFERS[:1], CONTEXT[0]) == 20.0 - len(CONTEXT_COLUMNS)


def test_a_model_that_reads_other_columns_is_refused(tmp_path: Path) -> None:
    with pytest.raises(PolicyError, match="columns"):
        load_onnx_gate(install(tmp_path, ("mood", *OFFER_COLUMNS[1:])), FakeClock())
