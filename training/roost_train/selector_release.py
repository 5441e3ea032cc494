"""Turning a trained job selector into the two files that a daemon loads: model and manifest."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from roost_engine.queue.selector_columns import CLUSTER_COLUMNS, JOB_COLUMNS, SCHEMA_VERSION
from roost_formats.models.loader import open_session
from roost_formats.models.onnx_file import read_onnx
from roost_formats.models.order import (
    CLUSTER_NAME,
    JOBS_NAME,
    RANK_NAME,
    load_onnx_selector,
)
from roost_formats.models.signature import ORDER
from roost_train.decisions import Decision
from roost_train.errors import TrainError
from roost_train.model_files import library_versions, write_model_files
from roost_train.numpy_policy import run_all
from roost_train.onnx_export import OPSET

MODEL_FILE = "selector.onnx"
TOLERANCE = 1e-5
_CANARY_JOBS = 12


class Exportable(Protocol):
    """A selector that can be written as a model file: `selector_net` or `score_selector`."""

    def ranks(self, jobs: NDArray[np.float32], cluster: NDArray[np.float32]) -> NDArray[np.float32]:
        """See queue.selector.RankModel."""

    def to_onnx(self) -> bytes:
        """Return the model file; the same weights give the same bytes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Readings:
    """How far the selector itself, numpy and ONNX Runtime differ on decisions.

    Attributes:
        rank_count: ranks compared.
        worst_difference: between any two of the three.
    """

    rank_count: int
    worst_difference: float


def write_selector(
    net: Exportable, saved: Sequence[Decision], card: Mapping[str, object], folder: Path
) -> Path:
    """Write selector.onnx and selector.json, and load them as the daemon would.

    Args:
        net: the selector.
        saved: decisions on which the readings must agree; one of them becomes the canary.
        card: what the manifest says of data, training and results.
        folder: made if it is missing.

    Raises:
        TrainError: the readings differ by more than TOLERANCE, or no decision is saved.
        PolicyError: the daemon would refuse the model.
        OSError: the folder cannot be written.
    """
    model = net.to_onnx()
    readings = compare_readings(net, model, saved)
    if readings.worst_difference > TOLERANCE:
        raise TrainError(f"the selector, numpy and ONNX differ by {readings.worst_difference:.2g}")
    canary = max(saved, key=lambda one: min(len(one.jobs), _CANARY_JOBS))
    jobs, path = canary.jobs[:_CANARY_JOBS], folder / MODEL_FILE
    asked = {JOBS_NAME: jobs, CLUSTER_NAME: canary.cluster}
    write_model_files(
        path,
        model,
        ORDER,
        {JOBS_NAME: JOB_COLUMNS, CLUSTER_NAME: CLUSTER_COLUMNS},
        (asked, {RANK_NAME: net.ranks(jobs, canary.cluster)}),
        {**card, **provenance(readings, SCHEMA_VERSION)},
    )
    load_onnx_selector(path, lambda: 0.0)
    return path


def compare_readings(net: Exportable, model: bytes, saved: Sequence[Decision]) -> Readings:
    """Compare what a selector, numpy and ONNX Runtime answer to decisions.

    Raises:
        TrainError: there is no decision.
    """
    if not saved:
        raise TrainError("no decision to compare the readings on: take more jobs")
    graph, session = read_onnx(model, ORDER), open_session(model, ORDER)
    count, worst = 0, 0.0
    for one in saved:
        inputs = {JOBS_NAME: one.jobs, CLUSTER_NAME: one.cluster}
        answers = (
            net.ranks(one.jobs, one.cluster),
            run_all(graph, inputs)[graph.outputs[0].name].reshape(-1),
            session.run(inputs)[RANK_NAME].reshape(-1),
        )
        count += len(one.jobs)
        worst = max(worst, *(float(np.abs(a - b).max()) for a, b in combinations(answers, 2)))
    return Readings(rank_count=count, worst_difference=worst)


def provenance(readings: Readings, features_version: int) -> Mapping[str, object]:
    """Return what every card says of how a model was made."""
    return {
        "features_version": features_version,
        "readings": {
            "ranks": readings.rank_count,
            "worst_difference": round(readings.worst_difference, 9),
        },
        "opset": OPSET,
        "versions": library_versions(),
    }
