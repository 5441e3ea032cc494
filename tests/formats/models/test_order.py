"""The adapter of a job selector's file."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from roost_engine.domain.errors import PolicyError
from roost_engine.queue.selector_columns import CLUSTER_COLUMNS, JOB_COLUMNS
from roost_formats.models.checked_model import CheckedModel
from roost_formats.models.order import (
    CLUSTER_NAME,
    JOBS_NAME,
    RANK_NAME,
    OnnxSelector,
    load_onnx_selector,
)
from roost_formats.models.signature import ORDER
from roost_formats.testing.onnx_models import (
    ModelParts,
    install_kind,
    operation,
    tensor,
    value_info,
)
from roost_formats.testing.sessions import FakeClock, FakeSession, NanSession, SlowSession

JOBS = np.eye(3, len(JOB_COLUMNS), dtype=np.float32)
CLUSTER = np.ones(len(CLUSTER_COLUMNS), dtype=np.float32)


def installed(folder: Path, columns: Sequence[str] = JOB_COLUMNS) -> Path:
    """A model that ranks a job by the sum of its columns."""
    parts = ModelParts(
        nodes=[
            operation("MatMul", ["jobs", "of_job"], ["own"]),
            operation("MatMul", ["cluster", "of_cluster"], ["shared"]),
            operation("Add", ["own", "shared"], ["rank"]),
        ],
        weights=[
            tensor("of_job", np.ones((len(columns), 1), np.float32)),
            tensor("of_cluster", np.zeros((len(CLUSTER_COLUMNS), 1), np.float32)),
        ],
        inputs=[value_info("jobs", ["n", len(columns)]), value_info("cluster", [len(CLUSTER)])],
        outputs=[value_info("rank", ["n", 1])],
    )
    return install_kind(
        folder,
        parts.encode(),
        ORDER,
        columns={JOBS_NAME: tuple(columns), CLUSTER_NAME: CLUSTER_COLUMNS},
        canary_inputs={JOBS_NAME: JOBS[:, : len(columns)], CLUSTER_NAME: CLUSTER},
        canary_outputs={RANK_NAME: np.ones(3, np.float32)},
    )


def test_a_selector_ranks_jobs(tmp_path: Path) -> None:
    model = load_onnx_selector(installed(tmp_path), FakeClock())
    assert model.name.startswith("onnx:")
    assert model.ranks(2 * JOBS, CLUSTER).tolist() == [2.0, 2.0, 2.0]


def test_a_model_that_reads_other_columns_is_refused(tmp_path: Path) -> None:
    path = installed(tmp_path, ("waited_min", *JOB_COLUMNS[1:]))
    with pytest.raises(PolicyError, match="jobs has other columns"):
        load_onnx_selector(path, FakeClock())


def checked(session: FakeSession | NanSession | SlowSession, clock: FakeClock) -> OnnxSelector:
    columns = {JOBS_NAME: JOB_COLUMNS, CLUSTER_NAME: CLUSTER_COLUMNS}
    sizes = {"feature": len(JOB_COLUMNS), "cluster_feature": len(CLUSTER_COLUMNS)}
    model = CheckedModel(
        session, ORDER.with_sizes(sizes), sha256="0" * 64, columns=columns, clock=clock
    )
    return OnnxSelector(model)


def answering() -> FakeSession:
    return FakeSession(lambda inputs: {RANK_NAME: np.zeros(len(inputs[JOBS_NAME]), np.float32)})


def test_an_answer_that_is_no_number_is_refused() -> None:
    with pytest.raises(PolicyError, match="NaN or infinity"):
        checked(NanSession(answering()), FakeClock()).ranks(JOBS, CLUSTER)


def test_a_selector_that_is_too_slow_three_times_is_out_of_service() -> None:
    clock, slow_s = FakeClock(), 2 * ORDER.budget.answer_s
    selector = checked(SlowSession(answering(), clock, slow_s, slow_s, slow_s), clock)
    for _ in range(2):
        selector.ranks(JOBS, CLUSTER)
    with pytest.raises(PolicyError, match="3 times in a row"):
        selector.ranks(JOBS, CLUSTER)
    with pytest.raises(PolicyError, match="out of service"):
        selector.ranks(JOBS, CLUSTER)
