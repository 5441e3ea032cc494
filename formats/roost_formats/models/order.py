"""The job selector that asks an ONNX file of kind order. Page: docs/models.md."""

import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from roost_engine.domain.errors import PolicyError
from roost_engine.queue.selector_columns import CLUSTER_COLUMNS, JOB_COLUMNS
from roost_formats.models.checked_model import CheckedModel
from roost_formats.models.loader import load_model
from roost_formats.models.signature import ORDER

BUILTIN_SELECTOR = Path(__file__).parent.parent / "data" / "selector.onnx"
JOBS_NAME, CLUSTER_NAME = (tensor.name for tensor in ORDER.inputs)
RANK_NAME = ORDER.outputs[0].name


class OnnxSelector:
    """A queue.selector.RankModel; load_onnx_selector makes one."""

    def __init__(self, model: CheckedModel) -> None:
        self.name = model.name
        self._model = model

    def ranks(self, jobs: NDArray[np.float32], cluster: NDArray[np.float32]) -> NDArray[np.float32]:
        """See queue.selector.RankModel."""
        answer: NDArray[np.float32] = self._model.ask({JOBS_NAME: jobs, CLUSTER_NAME: cluster})[
            RANK_NAME
        ]
        return answer


def load_onnx_selector(path: Path, clock: Callable[[], float] = time.perf_counter) -> OnnxSelector:
    """Load a job selector after every check of loader.load_model.

    Args:
        path: of the ONNX file; its manifest stands beside it.
        clock: seconds, never backwards; of a simulation one that stands still.

    Raises:
        PolicyError: a check failed, or the model reads other columns; the message says which.
    """
    model = load_model(path, ORDER.kind, clock)
    for name, wanted in ((JOBS_NAME, JOB_COLUMNS), (CLUSTER_NAME, CLUSTER_COLUMNS)):
        if model.columns.get(name) != wanted:
            raise PolicyError(f"{name} has other columns than this version's job selector reads")
    return OnnxSelector(model)
