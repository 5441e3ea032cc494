"""What the engine asks the edge to do, each with the reason in it."""

from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from roost_engine.domain.lazy import Lazy
from roost_engine.domain.model import JobId, NodeShare, Placement

Exclusions: TypeAlias = tuple[tuple[str, int], ...]
"""(reason, number of nodes) for the nodes that were ruled out before scoring."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Decision:
    """How a job's placement was chosen: the raw material of `explain`.

    Attributes:
        at_s: engine time of the decision.
        candidates: the scored placements, best first; candidates[0] is the chosen one.
        features: float32 [candidate, feature], columns cluster.features.COLUMNS.
        scores: float32 [candidate], descending but for ties.
        link_scores: int64 [candidate], summed over nodes.
        best_link_score: link score of the best such placement on idle nodes of the chosen kinds.
        exclusions: the nodes that were ruled out before scoring.
        free_before: the free GPUs of the chosen nodes before the job took its share.
        policy: the policy that scored: "heuristic", or "onnx:" and twelve digits of the model's
            sha256.
        fallback_reason: why the heuristic answered instead of the model; "" when it did not.
    """

    at_s: float
    candidates: tuple[Placement, ...]
    features: NDArray[np.float32]
    scores: NDArray[np.float32]
    link_scores: NDArray[np.int64]
    best_link_score: int
    exclusions: Exclusions
    free_before: tuple[NodeShare, ...]
    policy: str
    fallback_reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Make Slurm start the job on exactly these GPUs, now."""

    job_id: JobId
    placement: Placement
    decision: Lazy[Decision]


@dataclass(frozen=True, slots=True, kw_only=True)
class Wait:
    """Keep the job waiting. Sent when its wait begins and when its reason or deadline changes.

    Attributes:
        until_s: engine time at which the job is decided at the latest; None: when something
            changes.
        exclusions: why no node takes the job now.
    """

    job_id: JobId
    reason: str
    until_s: float | None
    exclusions: Lazy[Exclusions] = field(default_factory=lambda: Lazy.of(()))


@dataclass(frozen=True, slots=True, kw_only=True)
class Preempt:
    """Stop a running job and let it wait again.

    Answered by JobsStopped, by JobQueued where the job may ask for something else when it comes
    back, as under Slurm, or by PreemptionRefused.

    Attributes:
        for_job: the job that gets its GPUs; None: the next one in order, perhaps the same job.
    """

    job_id: JobId
    reason: str
    for_job: JobId | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LetGo:
    """Release the job to plain Slurm: Roost can do nothing for it."""

    job_id: JobId
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class WakeAt:
    """Send a Tick at this time, unless an earlier event makes it needless."""

    at_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyFailed:
    """A policy failed and the heuristic beside it answered: to be logged and counted.

    Attributes:
        slot: "order", "gate" or "preemption"; a failed score is told in the Decision.
        policy: its name.
        reason: the first fault of this step.
    """

    slot: str
    policy: str
    reason: str


Action: TypeAlias = Place | Wait | Preempt | LetGo | WakeAt | PolicyFailed
