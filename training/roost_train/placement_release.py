"""Turning a network of the placement slot into the two files that a daemon loads."""

from collections.abc import Mapping, Sequence
from itertools import combinations
from pathlib import Path

import numpy as np

from roost_engine.cluster.features import COLUMNS
from roost_formats.models.loader import open_session
from roost_formats.models.onnx_file import read_onnx
from roost_formats.models.score import INPUT_NAME, OUTPUT_NAME, load_onnx_score
from roost_formats.models.signature import SCORE
from roost_train.decisions import Decision
from roost_train.errors import TrainError
from roost_train.model_files import write_model_files
from roost_train.numpy_policy import run_all
from roost_train.onnx_export import export_onnx
from roost_train.placement_net import PlacementNet
from roost_train.release import torch_scores
from roost_train.selector_release import TOLERANCE, Readings, provenance

MODEL_FILE = "placement.onnx"
_CANARY_CANDIDATES = 16


def write_placement(
    net: PlacementNet, saved: Sequence[Decision], card: Mapping[str, object], folder: Path
) -> Path:
    """Write placement.onnx and placement.json, and load them as the daemon would.

    Args:
        net: the network.
        saved: decisions on which the readings must agree; one of them becomes the canary.
        card: what the manifest says of data, training and results.
        folder: made if it is missing.

    Raises:
        TrainError: the readings differ by more than TOLERANCE, or no decision is saved.
        PolicyError: the daemon would refuse the model.
        OSError: the folder cannot be written.
    """
    model = export_onnx(net.score_net())
    readings = compare_scores(model, saved)
    if readings.worst_difference > TOLERANCE:
        raise TrainError(f"torch, numpy and ONNX differ by {readings.worst_difference:.2g}")
    canary = max(saved, key=lambda one: len(one.jobs)).jobs[:_CANARY_CANDIDATES]
    path = folder / MODEL_FILE
    write_model_files(
        path,
        model,
        SCORE,
        {INPUT_NAME: COLUMNS},
        ({INPUT_NAME: canary}, {OUTPUT_NAME: torch_scores(model, canary)}),
        {**card, **provenance(readings, SCORE.schema_version)},
    )
    load_onnx_score(path, lambda: 0.0)
    return path


def compare_scores(model: bytes, saved: Sequence[Decision]) -> Readings:
    """Compare what torch, numpy and ONNX Runtime answer to decisions.

    Raises:
        TrainError: there is no decision.
    """
    if not saved:
        raise TrainError("no decision to compare the readings on: take more jobs")
    graph, session = read_onnx(model, SCORE), open_session(model, SCORE)
    count, worst = 0, 0.0
    for one in saved:
        inputs = {INPUT_NAME: one.jobs}
        answers = (
            torch_scores(model, one.jobs),
            run_all(graph, inputs)[graph.outputs[0].name].reshape(-1),
            session.run(inputs)[OUTPUT_NAME].reshape(-1),
        )
        count += len(one.jobs)
        worst = max(worst, *(float(np.abs(a - b).max()) for a, b in combinations(answers, 2)))
    return Readings(rank_count=count, worst_difference=worst)
