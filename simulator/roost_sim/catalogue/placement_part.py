"""One placement rule of the catalogue, and how one that roostd has too is made."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from roost_engine.domain.config import WIDER_AFTER_S
from roost_engine.domain.errors import PolicyError
from roost_engine.plugins.policy_kinds import make_candidates
from roost_engine.plugins.stacks import GRAPH_MODEL, NEIGHBOURS_MODEL, NO_MODEL, PlacementKind
from roost_engine.policies.heuristics import ShapeByShape
from roost_engine.policies.protocols import CandidatePolicy, ScorePolicy
from roost_engine.scoring.heuristic import HeuristicScore
from roost_formats.models import score as models
from roost_sim.errors import SimError
from roost_sim.information.policy_information import PolicyInformation
from roost_sim.traces.shapes import JobShapeRule, ShapeRule, every_even_shape
from roost_sim.worlds.fidelity import Regime


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacementPart:
    """One placement rule: how to build it, and what it needs to know.

    Attributes:
        source: its definition in a line, with the paper.
        shapes: the shapes that a job of so many GPUs accepts.
        candidates: makes the plug-in that proposes placements.
        score: makes the plug-in that scores them.
        shapes_by_job: in place of `shapes`, for a rule whose shapes depend on the job too.
        regime: what it knows about run times.
        kind: of a rule that roostd has too: the engine's plug-ins make it, in place of
            `candidates`.
        model: the model that scores, by its name in roostd.yaml.
        agents: into how many parts the cluster is split.
        forwards: whether an agent may give a job to another one.
        wider_after_s: see EngineConfig.
    """

    source: str
    shapes: ShapeRule = every_even_shape
    candidates: Callable[[PolicyInformation], CandidatePolicy] = lambda information: ShapeByShape()
    score: Callable[[PolicyInformation], ScorePolicy] = lambda information: HeuristicScore()
    shapes_by_job: Callable[[PolicyInformation], JobShapeRule] | None = None
    regime: Regime = Regime.NONE
    kind: PlacementKind | None = None
    model: str = NO_MODEL
    agents: int = 1
    forwards: bool = True
    wider_after_s: float = WIDER_AFTER_S


def of_roostd(
    kind: PlacementKind,
    source: str,
    shapes: ShapeRule,
    model: str = NO_MODEL,
    agents: int = 1,
) -> PlacementPart:
    """Take a rule from the engine.

    Args:
        kind: the rule.
        source: its definition in a line.
        shapes: the shapes that a job of so many GPUs accepts.
        model: the model that scores, by its name in roostd.yaml.
        agents: into how many parts the cluster is split.
    """
    return PlacementPart(
        source=source,
        shapes=shapes,
        candidates=lambda information: make_candidates(kind),
        score=lambda information: _score_of(model),
        kind=kind,
        model=model,
        agents=agents,
    )


def scored_by(part: PlacementPart, file: str) -> PlacementPart:
    """Return a rule whose places the model of a file scores."""
    path = Path(file)
    return replace(
        part,
        source=f"{part.source}; scored by {path.name}",
        score=lambda information: _score_of_file(path),
        model=file,
    )


def _score_of(model: str) -> ScorePolicy:
    """Load a model with a clock that stands still: a slow machine must not change a result.

    Raises:
        SimError: the model, or what runs it, is not there.
    """
    if model == NO_MODEL:
        return HeuristicScore()
    try:
        if model == GRAPH_MODEL:
            return models.load_onnx_graph(models.GRAPH_MODEL, lambda: 0.0)
        if model == NEIGHBOURS_MODEL:
            return models.load_any_score(models.SHIPPED_MODELS[model], lambda: 0.0)
        return models.load_onnx_score(models.BUILTIN_MODEL, lambda: 0.0)
    except PolicyError as error:
        cure = "; pip install 'roost[daemon]'" if "onnxruntime" in str(error) else ""
        raise SimError(f"the model that ships with Roost: {error}{cure}") from error


def _score_of_file(path: Path) -> ScorePolicy:
    """Load the model of a site, as `_score_of` loads those of Roost.

    Raises:
        SimError: the model cannot be loaded.
    """
    try:
        return models.load_any_score(path, lambda: 0.0)
    except PolicyError as error:
        raise SimError(f"{path}: {error}") from error
