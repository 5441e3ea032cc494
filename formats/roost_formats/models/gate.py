"""The gate model that asks an ONNX file of kind gate. Page: docs/models.md."""

import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from roost_formats.models.checked_model import CheckedModel
from roost_formats.models.loader import load_model
from roost_formats.models.signature import GATE

OFFER_NAME, CONTEXT_NAME = (tensor.name for tensor in GATE.inputs)
RANK_NAME = GATE.outputs[0].name


class OnnxGate:
    """A gate.model_gate.GateModel; load_onnx_gate makes one."""

    def __init__(self, model: CheckedModel) -> None:
        self.name = model.name
        self._model = model

    def rank(self, offer: NDArray[np.float32], context: NDArray[np.float32]) -> float:
        """See gate.model_gate.GateModel."""
        answer = self._model.ask({OFFER_NAME: offer, CONTEXT_NAME: context[None]})
        return float(answer[RANK_NAME][0])


def load_onnx_gate(path: Path, clock: Callable[[], float] = time.perf_counter) -> OnnxGate:
    """Load a gate model after every check of loader.load_model.

    Args:
        path: of the ONNX file; its manifest stands beside it.
        clock: seconds, never backwards; of a simulation one that stands still.

    Raises:
        PolicyError: a check failed; the message says which.
    """
    return OnnxGate(load_model(path, GATE.kind, clock))
