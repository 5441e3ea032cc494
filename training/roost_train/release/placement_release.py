"""Turning a network of the placement slot into the two files that a daemon loads."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from roost_engine.cluster.features import COLUMNS
from roost_formats.models.loader import open_session
from roost_formats.models.onnx_file import read_onnx
from roost_formats.models.score import INPUT_NAME, OUTPUT_NAME, load_onnx_score
from roost_formats.models.signature import SCORE
from roost_train.environments.decisions import Decision
from roost_train.export.numpy_policy import run_all
from roost_train.networks.placement_net import PlacementNet
from roost_train.networks.score_onnx import export_onnx
from roost_train.release.score_release import torch_scores
from roost_train.release.slot_release import Readings, compare, write_slot_model

MODEL_FILE = "placement.onnx"
_CANARY_CANDIDATES = 16


def write_placement(
    net: PlacementNet, saved: Sequence[Decision], card: Mapping[str, object], folder: Path
) -> Path:
    """Write placement.onnx and placement.json; see slot_release, also for what it raises.

    Args:
        net: the network.
        saved: decisions on which the readings must agree; one of them becomes the canary.
        card: what the manifest says of data, training and results.
        folder: made if it is missing.
    """
    model = export_onnx(net.score_net())
    readings = compare_scores(model, saved)
    canary = max(saved, key=lambda one: len(one.jobs)).jobs[:_CANARY_CANDIDATES]
    return write_slot_model(
        folder / MODEL_FILE,
        model,
        SCORE,
        {INPUT_NAME: COLUMNS},
        ({INPUT_NAME: canary}, {OUTPUT_NAME: torch_scores(model, canary)}),
        card,
        readings=readings,
        features_version=SCORE.schema_version,
        load=lambda path: load_onnx_score(path, lambda: 0.0),
    )


def compare_scores(model: bytes, saved: Sequence[Decision]) -> Readings:
    """Compare what torch, numpy and ONNX Runtime answer to decisions; see slot_release."""
    graph, session = read_onnx(model, SCORE), open_session(model, SCORE)

    def answers(one: Decision) -> tuple[NDArray[np.float32], ...]:
        inputs = {INPUT_NAME: one.jobs}
        return (
            torch_scores(model, one.jobs),
            run_all(graph, inputs)[graph.outputs[0].name].reshape(-1),
            session.run(inputs)[OUTPUT_NAME].reshape(-1),
        )

    return compare(map(answers, saved))
