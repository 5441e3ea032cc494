"""What the engine asks the edge to do, each with the reason in it."""

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from roost_engine.domain.lazy import Late
from roost_engine.domain.model import JobId, NodeShare, Placement


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Decision(Late):
    """How one job's placement came about: the raw material of `explain`.

    Attributes:
        at_s: engine time of the decision.
        candidates: what was scored, best first; candidates[0] is what was chosen.
        features: float32 [candidate, feature], columns cluster.features.COLUMNS.
        scores: float32 [candidate], descending but for ties.
        link_scores: int64 [candidate], summed over nodes.
        best_link_score: what the shape could reach on an idle node of the chosen kind.
        exclusions: (reason, number of nodes), for nodes ruled out before scoring.
        free_before: the free GPUs of the chosen nodes, before the job took its share.
        policy: who scored: "heuristic", or "onnx:" and twelve digits of the model's sha256.
        fallback_reason: why the heuristic answered instead of the model; "" when it did not.
    """

    at_s: float
    candidates: tuple[Placement, ...]
    features: NDArray[np.float32]
    scores: NDArray[np.float32]
    link_scores: NDArray[np.int64]
    best_link_score: int
    exclusions: tuple[tuple[str, int], ...]
    free_before: tuple[NodeShare, ...]
    policy: str
    fallback_reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Make Slurm start the job on exactly these GPUs, now."""

    job_id: JobId
    placement: Placement
    decision: Decision


@dataclass(frozen=True, slots=True, kw_only=True)
class Wait(Late):
    """Keep the job waiting. Sent when it begins to wait and when reason or deadline change.

    Attributes:
        until_s: engine time at which it will be decided at the latest; None: when something
            changes.
        exclusions: (reason, number of nodes): why no node takes it now.
    """

    job_id: JobId
    reason: str
    until_s: float | None
    exclusions: tuple[tuple[str, int], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Preempt:
    """Stop a running job and let it wait again.

    Answered by JobsStopped, by JobQueued where the job may ask for something else when it comes
    back, as under Slurm, or by PreemptionRefused.

    Attributes:
        for_job: who gets its GPUs; None: whoever is next, it may be the job itself.
    """

    job_id: JobId
    reason: str
    for_job: JobId | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LetGo:
    """Hand the job back to plain Slurm: Roost can do nothing for it."""

    job_id: JobId
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class WakeAt:
    """Send a Tick at this time, unless an earlier event makes it needless."""

    at_s: float


Action: TypeAlias = Place | Wait | Preempt | LetGo | WakeAt
