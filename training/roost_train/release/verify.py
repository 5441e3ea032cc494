"""One model, three readings: numpy, torch and ONNX Runtime must give the same scores."""

from dataclasses import dataclass
from itertools import combinations
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from roost_engine.cluster.features import COLUMNS
from roost_formats.models.loader import open_session
from roost_formats.models.manifest import Manifest, manifest_path
from roost_formats.models.onnx_file import read_onnx
from roost_formats.models.score import INPUT_NAME, OUTPUT_NAME, load_onnx_score
from roost_formats.models.signature import SCORE
from roost_train.distillation.groups import LARGEST_GROUP, SMALLEST_GROUP, draw_groups
from roost_train.export.numpy_policy import run_graph
from roost_train.release.score_release import torch_scores

TOLERANCE = 1e-5
_SEED = 1_000_037
_BATCH_COUNT = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """The largest difference between any two readings, and over how many candidates.

    Attributes:
        candidate_count: candidates scored.
        worst_difference: NaN where a reading is no number.
    """

    candidate_count: int
    worst_difference: float

    @property
    def is_same(self) -> bool:
        """Whether the readings agree as closely as they must."""
        return self.worst_difference <= TOLERANCE


def verify(path: Path) -> Verdict:
    """Load a model as the daemon would, then compare the readings.

    Args:
        path: of a model with its manifest beside it.

    Raises:
        PolicyError: the daemon would refuse it.
        ModelError: torch cannot load it: it was not exported by roost-train.
    """
    load_onnx_score(path, lambda: 0.0)
    model = path.read_bytes()
    graph, session = read_onnx(model, SCORE), open_session(model, SCORE)
    count, worst = 0, 0.0
    for batch in _batches(path):
        readings = (
            run_graph(graph, batch),
            torch_scores(model, batch),
            session.run({INPUT_NAME: batch})[OUTPUT_NAME].reshape(len(batch)),
        )
        count += len(batch)
        differences = [np.abs(a - b).max() for a, b in combinations(readings, 2)]
        # Not max(): it passes over NaN, and a reading that is no number agrees with nothing.
        worst = float(np.max([worst, *differences]))
    return Verdict(candidate_count=count, worst_difference=worst)


def _batches(path: Path) -> list[NDArray[np.float32]]:
    """The manifest's own batch, the corners of the range, and groups of many sizes."""
    manifest = Manifest.from_json(manifest_path(path).read_text(encoding="utf-8"), SCORE)
    corners = np.stack([np.zeros(len(COLUMNS)), np.ones(len(COLUMNS)), *np.eye(len(COLUMNS))])
    rng = np.random.default_rng(_SEED)
    sizes = np.linspace(SMALLEST_GROUP, LARGEST_GROUP, _BATCH_COUNT).astype(int)
    groups = [draw_groups(rng, 1, int(size))[0].astype(np.float32) for size in sizes]
    return [manifest.canary_inputs[INPUT_NAME], corners.astype(np.float32), *groups]
