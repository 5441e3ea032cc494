"""The interference model that asks an ONNX file. Page: docs/interference.md."""

import time
from collections.abc import Callable
from pathlib import Path

from roost_engine.domain.errors import PolicyError
from roost_engine.prediction.interference_model import (
    BESIDE,
    OWN,
    SLOWDOWN,
    TIER,
    Cases,
    InterferenceModel,
    PriorModel,
    Slowdowns,
    checked,
)
from roost_formats.models.checked_model import CheckedModel
from roost_formats.models.loader import load_model
from roost_formats.models.signature import INTERFERENCE

SHIPPED_INTERFERENCE = Path(__file__).parent.parent / "data" / "interference.onnx"


class OnnxInterference:
    """A prediction.interference_model.InterferenceModel; load_onnx_interference makes one."""

    def __init__(self, model: CheckedModel) -> None:
        self.name = model.name
        self._model = model

    def slowdowns(self, cases: Cases) -> Slowdowns:
        """See prediction.interference_model.InterferenceModel; one call for the whole batch."""
        inputs = {OWN: cases.own, BESIDE: cases.beside, TIER: cases.tier}
        found = self._model.ask(inputs)[SLOWDOWN]
        return checked(self.name, Slowdowns(found[:, 0], found[:, 1]), len(cases.own))


def load_interference(
    path: Path = SHIPPED_INTERFERENCE, clock: Callable[[], float] = time.perf_counter
) -> tuple[InterferenceModel, str | None]:
    """Choose the interference model. Never raises: the prior needs no file.

    Returns:
        The model, and what was wrong with the file; None where nothing was.
    """
    try:
        return load_onnx_interference(path, clock), None
    except PolicyError as error:
        return PriorModel(), f"{path}: {error}; the prior answers instead"


def load_onnx_interference(path: Path, clock: Callable[[], float]) -> OnnxInterference:
    """Load a model after every check of loader.load_model.

    Raises:
        PolicyError: a check failed; the message says which.
    """
    return OnnxInterference(load_model(path, INTERFERENCE.kind, clock))
