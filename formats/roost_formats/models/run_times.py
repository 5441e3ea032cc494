"""The model of run times that asks an ONNX file of kind runtimes. Page: docs/models.md."""

import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from roost_engine.domain.errors import PolicyError
from roost_formats.models.checked_model import CheckedModel
from roost_formats.models.loader import load_model
from roost_formats.models.signature import RUN_TIMES

INPUT_NAME, OUTPUT_NAME = RUN_TIMES.inputs[0].name, RUN_TIMES.outputs[0].name


class OnnxRunTimes:
    """A prediction.run_time.run_time_model.RunTimeModel; load_onnx_run_times makes one."""

    def __init__(self, model: CheckedModel) -> None:
        self.name = model.name
        self._model = model

    def ending_fracs(self, features: NDArray[np.float32]) -> NDArray[np.float32]:
        """See prediction.run_time.run_time_model.RunTimeModel."""
        return self._model.ask({INPUT_NAME: features})[OUTPUT_NAME]


def load_run_time_model(model: str) -> tuple[OnnxRunTimes | None, str | None]:
    """Choose the model of run times of a daemon. Never raises: the history needs no model.

    Args:
        model: "none", or the path of a model with its manifest beside it.

    Returns:
        The model, None if there is none; and what was wrong with it, None where nothing was.
    """
    if model == "none":
        return None, None
    try:
        return load_onnx_run_times(Path(model), time.perf_counter), None
    except PolicyError as error:
        return None, f"{model}: {error}; the history of run times answers alone"


def load_onnx_run_times(path: Path, clock: Callable[[], float]) -> OnnxRunTimes:
    """Load a model of run times after every check of loader.load_model.

    Args:
        path: of the ONNX file; its manifest stands beside it.
        clock: seconds, never backwards; roostd passes time.perf_counter.

    Raises:
        PolicyError: a check failed; the message says which.
    """
    return OnnxRunTimes(load_model(path, RUN_TIMES.kind, clock))
