"""Order models that ask an ONNX file of kind order. Page: docs/models.md."""

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from roost_engine.domain.errors import PolicyError
from roost_engine.queue import selector_columns
from roost_engine.queue.model_order import CLUSTER_COLUMNS, JOB_COLUMNS
from roost_formats.models.checked_model import CheckedModel
from roost_formats.models.loader import load_model
from roost_formats.models.order import OnnxSelector
from roost_formats.models.signature import ORDER

JOBS, CLUSTER = (tensor.name for tensor in ORDER.inputs)
RANK = ORDER.outputs[0].name


class OnnxOrder:
    """A queue.model_order.OrderModel; load_onnx_order makes one."""

    def __init__(self, model: CheckedModel) -> None:
        self.name, self._model = model.name, model
        self.job_columns = _known(model, JOBS, JOB_COLUMNS)
        self.cluster_columns = _known(model, CLUSTER, CLUSTER_COLUMNS)

    def rank(self, jobs: NDArray[np.float32], cluster: NDArray[np.float32]) -> NDArray[np.float32]:
        """See queue.model_order.OrderModel."""
        return self._model.ask({JOBS: jobs, CLUSTER: cluster})[RANK]


def load_onnx_order(path: Path, clock: Callable[[], float]) -> OnnxOrder | OnnxSelector:
    """Load an order model after every check of loader.load_model.

    What its manifest says of its columns decides whether it is a job selector.

    Args:
        path: of the ONNX file; its manifest stands beside it.
        clock: seconds, never backwards; roostd passes time.perf_counter.

    Raises:
        PolicyError: a check failed, or the model reads a column that Roost does not know.
    """
    model = load_model(path, ORDER.kind, clock)
    if model.columns.get(JOBS) == selector_columns.JOB_COLUMNS:
        return OnnxSelector(model)
    return OnnxOrder(model)


def _known(model: CheckedModel, name: str, columns: Sequence[str]) -> Sequence[str]:
    wanted = model.columns.get(name, ())
    unknown = [column for column in wanted if column not in columns]
    if unknown:
        raise PolicyError(
            f"the model reads {', '.join(unknown)} of {name}; known are {', '.join(columns)}"
        )
    return wanted
