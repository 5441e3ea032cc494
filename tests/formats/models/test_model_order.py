"""Models of kind order, from the file to the ranks."""

from pathlib import Path

import numpy as np
import pytest

from roost_engine.domain.errors import PolicyError
from roost_engine.prediction.predictors import Predictors
from roost_engine.queue.model_order import ModelOrder, order_by
from roost_engine.queue.selector import SelectorOrder
from roost_formats.models.model_order import OnnxOrder, load_onnx_order
from roost_formats.models.order import BUILTIN_SELECTOR, OnnxSelector
from roost_formats.models.signature import ORDER
from roost_formats.testing.onnx_models import (
    ModelParts,
    install_kind,
    operation,
    tensor,
    value_info,
)
from roost_formats.testing.sessions import FakeClock


def install(folder: Path, job_columns: tuple[str, ...] = ("gpu_log", "waited_log")) -> Path:
    """Rank = waited_log - gpu_log."""
    parts = ModelParts(
        nodes=[
            operation("MatMul", ["jobs", "of_job"], ["own"]),
            operation("MatMul", ["cluster", "of_cluster"], ["shared"]),
            operation("Add", ["own", "shared"], ["rank"]),
        ],
        weights=[
            tensor("of_job", np.array([[-1], [1]], np.float32)),
            tensor("of_cluster", np.zeros((1, 1), np.float32)),
        ],
        inputs=[value_info("jobs", ["n", 2]), value_info("cluster", [1])],
        outputs=[value_info("rank", ["n", 1])],
    )
    return install_kind(
        folder,
        parts.encode(),
        ORDER,
        columns={"jobs": job_columns, "cluster": ("free_frac",)},
        canary_inputs={
            "jobs": np.array([[1, 5], [3, 4]], np.float32),
            "cluster": np.array([1], np.float32),
        },
        canary_outputs={"rank": np.array([4, 1], np.float32)},
    )


def test_a_model_ranks_and_names_its_columns(tmp_path: Path) -> None:
    model = load_onnx_order(install(tmp_path), FakeClock())
    assert isinstance(model, OnnxOrder)
    assert model.name.startswith("onnx:")
    assert (model.job_columns, model.cluster_columns) == (("gpu_log", "waited_log"), ("free_frac",))
    ranks = model.rank(np.array([[0, 2], [2, 0]], np.float32), np.array([1], np.float32))
    assert ranks.tolist() == [2.0, -2.0]


def test_a_column_that_roost_does_not_know_is_refused(tmp_path: Path) -> None:
    path = install(tmp_path, ("gpu_log", "shoe_size"))
    with pytest.raises(PolicyError, match="reads shoe_size of jobs; known are gpu_log"):
        load_onnx_order(path, FakeClock())


def test_a_file_that_was_changed_is_refused(tmp_path: Path) -> None:
    path = install(tmp_path)
    path.write_bytes(path.read_bytes() + b"\0")
    with pytest.raises(PolicyError):
        load_onnx_order(path, FakeClock())


def test_a_job_selector_is_known_by_its_columns() -> None:
    model = load_onnx_order(BUILTIN_SELECTOR, FakeClock())
    assert isinstance(model, OnnxSelector)
    assert isinstance(order_by(model, Predictors()), SelectorOrder)


def test_any_other_model_of_the_kind_reads_the_columns_it_names(tmp_path: Path) -> None:
    assert isinstance(
        order_by(load_onnx_order(install(tmp_path), FakeClock()), Predictors()), ModelOrder
    )
