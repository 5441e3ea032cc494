"""The engine's requests to the edge, each with its reason."""

from dataclasses import field
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from roost_engine.domain.lazy import Lazy
from roost_engine.domain.model import JobId, NodeShare, Placement
from roost_engine.domain.value import value

Exclusions: TypeAlias = tuple[tuple[str, int], ...]
"""(reason, number of nodes) for the nodes that were ruled out before scoring."""


@value(kw_only=True, eq=False)
class Decision:
    """How a job's placement was chosen: the raw material of `explain`.

    Attributes:
        at_s: engine time of the decision.
        candidates: the scored placements, best first; candidates[0] is the chosen one.
        features: float32 [candidate, feature], columns cluster.features.COLUMNS.
        scores: float32 [candidate], in descending order.
        link_scores: int64 [candidate], link scores, summed over the nodes of a candidate.
        best_link_score: highest link score that the chosen shape could have on nodes of the chosen
            kinds if they were idle.
        exclusions: the nodes that were ruled out before scoring.
        free_before: the free GPUs of the chosen nodes before the job took its share.
        policy: the policy that scored: "heuristic", or "onnx:" and twelve digits of the model's
            sha256.
        fallback_reason: why the heuristic answered instead of the model; "" when it did not.
        neighbour: for a human: the memory that processes of no job use on the chosen GPUs, and what
            the neighbour that costs most is expected to cost; "" where there is no such memory, and
            no neighbour costs anything or the policy does not ask.
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
    neighbour: str = ""


@value(kw_only=True)
class Place:
    """Have Slurm start the job on exactly these GPUs, now."""

    job_id: JobId
    placement: Placement
    decision: Lazy[Decision]


@value(kw_only=True)
class PinStanding:
    """Let the job wait in Slurm for exactly these GPUs, some of which other jobs still hold.

    Slurm then counts its age and its limits, reserves the GPUs for it, stops the holders where its
    preemption allows that, and starts the job as soon as they are free. Replaces an earlier
    standing pin of the job; a Place, a Wait or a ReleaseToSlurm ends it.

    Attributes:
        start_s: engine time by which the GPUs are free, if their holders keep their time limits.
        is_preempting: whether Slurm is to stop the holders.
    """

    job_id: JobId
    placement: Placement
    decision: Lazy[Decision]
    start_s: float
    is_preempting: bool = False


@value(kw_only=True)
class Unpin:
    """Withdraw a standing pin: the job waits for Roost again."""

    job_id: JobId


@value(kw_only=True)
class Wait:
    """Keep the job waiting. Sent when its wait begins and when its reason or deadline changes.

    Attributes:
        until_s: engine time at which the job is decided at the latest; None: it is decided when
            something changes for it.
        exclusions: why no node takes the job now.
    """

    job_id: JobId
    reason: str
    until_s: float | None
    exclusions: Lazy[Exclusions] = field(default_factory=lambda: Lazy.of(()))


@value(kw_only=True)
class Preempt:
    """Stop a running job and let it wait again.

    The driver answers with JobsStopped; with JobQueued, as under Slurm, where the request of the
    job may have changed when it returns to the queue; or with PreemptionRefused.

    Attributes:
        for_job: the waiting job that gets the GPUs; None: the next job in order that fits, which
            may be the stopped job itself.
    """

    job_id: JobId
    reason: str
    for_job: JobId | None = None


@value(kw_only=True)
class ReleaseToSlurm:
    """Release the job to plain Slurm, because Roost cannot place it."""

    job_id: JobId
    reason: str


@value(kw_only=True)
class WakeAt:
    """Send a Tick at this time.

    A WakeAt that follows before then has an earlier time and replaces this one.
    """

    at_s: float


@value(kw_only=True)
class PolicyFailed:
    """A policy failed and the heuristic beside it answered: to be logged and counted.

    Attributes:
        slot: "order", "gate", "preemption" or "prediction"; a failed score is in the Decision.
        policy: its name.
        reason: the first fault of this step.
        questions: which questions failed in this step, as (first, count) of each stretch without a
            gap; the questions to the slot's policy are numbered from 0 since the engine began.
            With ((7, 2), (12, 1)) the policy failed to answer questions 7, 8 and 12. A replay
            needs them where a fault depends on time.
    """

    slot: str
    policy: str
    reason: str
    questions: tuple[tuple[int, int], ...] = ()


Action: TypeAlias = (
    Place | PinStanding | Unpin | Wait | Preempt | ReleaseToSlurm | WakeAt | PolicyFailed
)
