"""Turning a trained net into the two files that a daemon loads: model and manifest."""

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from roost_engine.cluster.features import COLUMNS
from roost_formats.models.loader import open_session
from roost_formats.models.onnx_file import read_onnx
from roost_formats.models.score import INPUT_NAME, OUTPUT_NAME, load_onnx_score
from roost_formats.models.signature import SCORE
from roost_train.distillation.agreement import Agreement, compare, merge
from roost_train.distillation.distil import HyperParameters, teacher_scores
from roost_train.distillation.groups import LARGEST_GROUP, SMALLEST_GROUP, GroupMix, draw_groups
from roost_train.export.model_files import library_versions, write_model_files
from roost_train.export.onnx_export import OPSET
from roost_train.networks.score_net import ScoreNet
from roost_train.networks.score_onnx import export_onnx

MODEL_FILE = "policy.onnx"
CANARY_COUNT = 16
_HELD_OUT_SEED = 1_000_003  # away from any seed that a person would train with
_CANARY_SEED = 1_000_033
_GROUPS_PER_SIZE = 200


def write_release(
    net: ScoreNet, parameters: HyperParameters, folder: Path, command: str
) -> tuple[Path, Agreement]:
    """Write policy.onnx and policy.json, and load them as the daemon would.

    Args:
        net: the trained net.
        parameters: the parameters of its training.
        folder: made if it is missing.
        command: the command that repeats the training.

    Returns:
        The model's path and the figures on groups that training never saw.

    Raises:
        PolicyError: the daemon would refuse the model.
        OSError: the folder cannot be written.
    """
    model = export_onnx(net)
    agreement = held_out_agreement(model)
    drawn = draw_groups(np.random.default_rng(_CANARY_SEED), 1, CANARY_COUNT)[0]
    canary = drawn.astype(np.float32)
    path = folder / MODEL_FILE
    write_model_files(
        path,
        model,
        SCORE,
        {INPUT_NAME: COLUMNS},
        ({INPUT_NAME: canary}, {OUTPUT_NAME: torch_scores(model, canary)}),
        _card(parameters, agreement, command),
    )
    load_onnx_score(path, lambda: 0.0)
    return path, agreement


def held_out_agreement(model: bytes, groups_per_size: int = _GROUPS_PER_SIZE) -> Agreement:
    """Compare an exported model with the heuristic on groups of every size that it never saw."""
    session = open_session(model, SCORE)
    rng = np.random.default_rng(_HELD_OUT_SEED)
    parts = list[Agreement]()
    for size in range(SMALLEST_GROUP, LARGEST_GROUP + 1):
        for mix in (GroupMix(), GroupMix(near_tie_frac=1.0, scattered_frac=0.0)):
            groups = draw_groups(rng, groups_per_size, size, mix)
            flat = groups.reshape(-1, len(COLUMNS)).astype(np.float32)
            scores = session.run({INPUT_NAME: flat})[OUTPUT_NAME].reshape(-1, size)
            parts.append(compare(teacher_scores(groups), scores))
    return merge(parts)


def torch_scores(model: bytes, features: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return the scores that torch computes with an exported model's weights.

    Raises:
        ModelError: the file was not exported by roost-train.
        PolicyError: it is no model that the daemon would read.
    """
    net = ScoreNet.from_weights(read_onnx(model, SCORE).weights)
    with torch.inference_mode():
        scores: NDArray[np.float32] = net.forward(torch.from_numpy(features)).numpy()
    return scores


def _card(parameters: HyperParameters, agreement: Agreement, command: str) -> Mapping[str, object]:
    return {
        "name": parameters.run_name,
        "teacher": "the heuristic of roost_engine.cluster.features",
        "training_command": command,
        "hyper_parameters": asdict(parameters),
        "held_out": {key: round(value, 9) for key, value in asdict(agreement).items()},
        "opset": OPSET,
        "versions": library_versions(),
    }
