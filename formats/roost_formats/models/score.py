"""The score policies that ask a model, and the choice of a daemon's score policy.

A model of kind score reads each candidate's columns; one of kind graph reads the cluster too.

Page: docs/models.md.
"""

import time
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from roost_engine.domain.errors import PolicyError
from roost_engine.policies.protocols import ScorePolicy
from roost_engine.prediction.interference.interference_estimates import InterferenceEstimates
from roost_engine.scoring.graph_score import GraphScore
from roost_engine.scoring.heuristic import HeuristicScore
from roost_engine.scoring.neighbours import NeighbourScore
from roost_formats.models.checked_model import CheckedModel
from roost_formats.models.interference import SHIPPED_INTERFERENCE, load_onnx_interference
from roost_formats.models.loader import kind_of, load_model
from roost_formats.models.signature import GRAPH, INTERFERENCE, SCORE

BUILTIN_MODEL = Path(__file__).parent.parent / "data" / "policy.onnx"
GRAPH_MODEL = BUILTIN_MODEL.with_name("graph.onnx")
SHIPPED_MODELS = {
    "builtin": BUILTIN_MODEL,
    "graph": GRAPH_MODEL,
    "neighbours": SHIPPED_INTERFERENCE,
}


def score_file(model: str) -> Path | None:
    """Return the file of a model by its name or path; None for `none`, the heuristic."""
    return None if model == "none" else SHIPPED_MODELS.get(model) or Path(model)


INPUT_NAME, OUTPUT_NAME = SCORE.inputs[0].name, SCORE.outputs[0].name


class OnnxScore:
    """A ScorePolicy that asks a model of kind score. load_onnx_score makes one."""

    def __init__(self, model: CheckedModel) -> None:
        self.name = model.name
        self._model = model

    def score(self, features: NDArray[np.float32]) -> NDArray[np.float32]:
        """See policies.ScorePolicy."""
        return self._model.ask({INPUT_NAME: features})[OUTPUT_NAME]


class OnnxGraphModel:
    """A scoring.graph_tree.GraphModel; load_onnx_graph makes a score policy of one."""

    def __init__(self, model: CheckedModel) -> None:
        self.name = model.name
        self._model = model

    def ask(self, inputs: Mapping[str, NDArray[np.float32]]) -> Mapping[str, NDArray[np.float32]]:
        """See scoring.graph_tree.GraphModel."""
        return self._model.ask(inputs)


def load_score_policy(
    model: str, clock: Callable[[], float] = time.perf_counter
) -> tuple[ScorePolicy, str | None]:
    """Choose the score policy of a daemon. Never raises: a bad model must not stop placement.

    Args:
        model: "builtin", "graph" or "neighbours" for the models that ship with Roost, "none", or
            the path of a model of kind score, graph or interference with its manifest beside it.
        clock: see CheckedModel.

    Returns:
        The policy, and what was wrong with the model; None where nothing was.
    """
    path = score_file(model)
    if path is None:
        return HeuristicScore(), None
    try:
        return load_any_score(path, clock), None
    except PolicyError as error:
        return HeuristicScore(), f"{path}: {error}; the heuristic answers instead"


def load_onnx_score(path: Path, clock: Callable[[], float]) -> OnnxScore:
    """Load a score policy after every check of loader.load_model.

    Raises:
        PolicyError: a check failed; the message says which.
    """
    return OnnxScore(load_model(path, SCORE.kind, clock))


def load_onnx_graph(path: Path, clock: Callable[[], float]) -> GraphScore:
    """Load a graph score policy after every check of loader.load_model.

    Raises:
        PolicyError: a check failed; the message says which.
    """
    return GraphScore(OnnxGraphModel(load_model(path, GRAPH.kind, clock)))


def load_any_score(path: Path, clock: Callable[[], float]) -> ScorePolicy:
    """Load a score policy of the kind that its manifest states.

    Raises:
        PolicyError: a check failed; the message says which.
    """
    kind = kind_of(path)
    if kind == GRAPH.kind:
        return load_onnx_graph(path, clock)
    if kind == INTERFERENCE.kind:
        return NeighbourScore(InterferenceEstimates(load_onnx_interference(path, clock)))
    return load_onnx_score(path, clock)
