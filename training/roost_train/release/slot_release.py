"""What the releases of all slots have in common: order, placement and gate.

A network becomes two files, the model and its manifest. torch, numpy and ONNX Runtime must agree on
saved decisions, some of which become the canary, and the daemon's own loader must take the files.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from roost_formats.models.signature import Signature
from roost_train.errors import TrainError
from roost_train.export.model_files import Tensors, library_versions, write_model_files
from roost_train.export.onnx_export import OPSET

TOLERANCE = 1e-5


@dataclass(frozen=True, slots=True, kw_only=True)
class Readings:
    """How far the network itself, numpy and ONNX Runtime differ on decisions.

    Attributes:
        rank_count: ranks compared.
        worst_difference: between any two of the three, relative to the larger answer where that is
            above 1: a rank of 40 has float32 steps of 4e-6, so three exact readings of it may
            differ by more than 1e-5.
    """

    rank_count: int
    worst_difference: float


def compare(answers: Iterable[tuple[NDArray[np.float32], ...]]) -> Readings:
    """Compare the answers of the three, question by question.

    Raises:
        TrainError: there is no question.
    """
    count, worst = 0, 0.0
    for one in answers:
        count += len(one[0])
        # Not max(): it passes over NaN, and an answer that is no number must not be released.
        worst = float(np.max([worst, *(_difference(a, b) for a, b in combinations(one, 2))]))
    if not count:
        raise TrainError("no decision to compare the readings on: take more jobs")
    return Readings(rank_count=count, worst_difference=worst)


def _difference(a: NDArray[np.float32], b: NDArray[np.float32]) -> float:
    size = np.maximum(np.maximum(np.abs(a), np.abs(b)), 1.0)
    return float((np.abs(a - b) / size).max())


def write_slot_model(
    path: Path,
    model: bytes,
    signature: Signature,
    columns: Mapping[str, tuple[str, ...]],
    canary: tuple[Tensors, Tensors],
    card: Mapping[str, object],
    *,
    readings: Readings,
    features_version: int,
    load: Callable[[Path], object],
) -> Path:
    """Write a model and its manifest, and load them as the daemon would.

    Args:
        path: of the model.
        model: the ONNX file.
        signature: of its kind.
        columns: what it reads, by input.
        canary: inputs and the right answers to them.
        card: what the manifest says of data, training and results.
        readings: of this model.
        features_version: of the columns.
        load: the daemon's loader.

    Raises:
        TrainError: the readings differ by more than TOLERANCE; nothing is written.
        PolicyError: the daemon would refuse the model.
        OSError: the folder cannot be written.
    """
    if not readings.worst_difference <= TOLERANCE:  # NaN too
        raise TrainError(f"torch, numpy and ONNX differ by {readings.worst_difference:.2g}")
    about = {
        **card,
        "features_version": features_version,
        "readings": {
            "ranks": readings.rank_count,
            "worst_difference": round(readings.worst_difference, 9),
        },
        "opset": OPSET,
        "versions": library_versions(),
    }
    write_model_files(path, model, signature, columns, canary, about)
    load(path)
    return path
