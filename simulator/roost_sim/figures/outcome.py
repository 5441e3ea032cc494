"""What a simulation yields, before anything is worked out from it."""

from dataclasses import dataclass

from roost_engine.domain.model import JobId


@dataclass(slots=True, kw_only=True)
class JobResult:
    """What became of one arrival. Times are engine times.

    Attributes:
        held_gpu_count: GPUs of the placement.
        tier: 0 one node, 1 one rack, 2 across racks.
        link_score, best_link_score: of the placement, and of the same shape on idle nodes.
        preempted_count: how often it was stopped; a lease renewed on the same GPUs is none.
        ran_s: how long it held GPUs, all runs together.
        left_out: why the engine would not place it; "" for every other job.
    """

    job_id: JobId
    submit_s: float
    work_s: float
    gpu_count: int
    started_s: float | None = None
    ended_s: float | None = None
    held_gpu_count: int = 0
    tier: int | None = None
    link_score: int = 0
    best_link_score: int = 0
    preempted_count: int = 0
    ran_s: float = 0.0
    left_out: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """Everything that one simulation yields.

    Attributes:
        jobs: in order of arrival.
        event_count: events that the engine took in, those that describe the cluster included.
        decision_s: wall time of each decision: of a step that placed, shared by what it placed.
    """

    jobs: tuple[JobResult, ...]
    event_count: int
    decision_s: tuple[float, ...]
