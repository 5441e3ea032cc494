"""The interference model that asks an ONNX file. Page: docs/interference.md."""

import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from roost_engine.domain.errors import PolicyError
from roost_engine.prediction.interference.interference_model import (
    BESIDE,
    LEVELS,
    OWN,
    SLOWDOWN,
    TIER,
    Cases,
    InterferenceModel,
    PriorModel,
    Slowdowns,
    checked,
    checked_means,
)
from roost_formats.models.checked_model import CheckedModel
from roost_formats.models.interference_net import InterferenceNet, net_of
from roost_formats.models.loader import load_model_and_graph
from roost_formats.models.signature import INTERFERENCE

SHIPPED_INTERFERENCE = Path(__file__).parent.parent / "data" / "interference.onnx"
_MOST_OFF = 1e-5
_TRIED_COUNT = 32


class OnnxInterference:
    """An interference_model.InterferenceModel; load_onnx_interference makes one.

    Args:
        model: the file, in its runtime.
        net: the same, computed with numpy; None: the runtime answers.
    """

    def __init__(self, model: CheckedModel, net: InterferenceNet | None = None) -> None:
        self.name = model.name
        self._model, self.net = model, net

    def slowdowns(self, cases: Cases) -> Slowdowns:
        """See interference_model.InterferenceModel; one call for the whole batch."""
        if self.net is not None:
            return checked(self.name, self.net.slowdowns(cases), len(cases.own))
        return self.ask_runtime(cases)

    def means(self, cases: Cases) -> NDArray[np.float32]:
        """See interference_model.InterferenceModel."""
        if self.net is not None:
            return checked_means(self.name, self.net.means(cases), len(cases.own))
        return self.ask_runtime(cases).mean

    def ask_runtime(self, cases: Cases) -> Slowdowns:
        """Return the answer of the file itself.

        Raises:
            PolicyError: it cannot answer.
        """
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

    A model of the usual form is computed with numpy, if that agrees with the file.

    Raises:
        PolicyError: a check failed; the message says which.
    """
    loaded, graph = load_model_and_graph(path, INTERFERENCE.kind, clock)
    net, by_file = net_of(graph), OnnxInterference(loaded)
    is_same = net is not None and _agree(net, by_file)
    return OnnxInterference(loaded, net) if is_same else by_file


def _agree(net: InterferenceNet, by_file: OnnxInterference) -> bool:
    """Whether both answer alike, with and without neighbours on the GPU."""
    rng, cases = np.random.default_rng(0), Cases.empty(_TRIED_COUNT)
    for rows in (cases.own, *map(cases.level, LEVELS)):
        rows[:] = rng.random(rows.shape, dtype=np.float32) / len(LEVELS)
    cases.level("gpu")[::2] = 0.0
    without = Cases(*(rows[::2] for rows in cases))
    mine, theirs = net.slowdowns(cases), by_file.ask_runtime(cases)
    off = [np.abs(a - b).max() for a, b in zip(mine, theirs, strict=True)]
    # The terms of neighbours on the GPU are left out where no case of a batch has one.
    off += [np.abs(a - b[::2]).max() for a, b in zip(net.slowdowns(without), theirs, strict=True)]
    return bool(max(off) <= _MOST_OFF)
