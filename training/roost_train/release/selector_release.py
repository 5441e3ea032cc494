"""Turning a trained job selector into the two files that a daemon loads: model and manifest."""

from collections.abc import Mapping, Sequence
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
from roost_train.environments.decisions import Decision
from roost_train.export.numpy_policy import run_all
from roost_train.release.slot_release import Readings, compare, write_slot_model

MODEL_FILE = "selector.onnx"
_CANARY_JOBS = 12


class Exportable(Protocol):
    """A selector that can be written as a model file: `selector_net` or `score_selector`."""

    def ranks(self, jobs: NDArray[np.float32], cluster: NDArray[np.float32]) -> NDArray[np.float32]:
        """See queue.selector.RankModel."""

    def to_onnx(self) -> bytes:
        """Return the model file; the same weights give the same bytes."""


def write_selector(
    net: Exportable, saved: Sequence[Decision], card: Mapping[str, object], folder: Path
) -> Path:
    """Write selector.onnx and selector.json; see slot_release, also for what it raises.

    Args:
        net: the selector.
        saved: decisions on which the readings must agree; one of them becomes the canary.
        card: what the manifest says of data, training and results.
        folder: made if it is missing.
    """
    model = net.to_onnx()
    readings = compare_readings(net, model, saved)
    canary = max(saved, key=lambda one: min(len(one.jobs), _CANARY_JOBS))
    jobs = canary.jobs[:_CANARY_JOBS]
    asked = {JOBS_NAME: jobs, CLUSTER_NAME: canary.cluster}
    return write_slot_model(
        folder / MODEL_FILE,
        model,
        ORDER,
        {JOBS_NAME: JOB_COLUMNS, CLUSTER_NAME: CLUSTER_COLUMNS},
        (asked, {RANK_NAME: net.ranks(jobs, canary.cluster)}),
        card,
        readings=readings,
        features_version=SCHEMA_VERSION,
        load=lambda path: load_onnx_selector(path, lambda: 0.0),
    )


def compare_readings(net: Exportable, model: bytes, saved: Sequence[Decision]) -> Readings:
    """Compare what a selector, numpy and ONNX Runtime answer to decisions; see slot_release."""
    graph, session = read_onnx(model, ORDER), open_session(model, ORDER)

    def answers(one: Decision) -> tuple[NDArray[np.float32], ...]:
        inputs = {JOBS_NAME: one.jobs, CLUSTER_NAME: one.cluster}
        return (
            net.ranks(one.jobs, one.cluster),
            run_all(graph, inputs)[graph.outputs[0].name].reshape(-1),
            session.run(inputs)[RANK_NAME].reshape(-1),
        )

    return compare(map(answers, saved))
