"""The outcome of a run: the result of each job, before any figure is computed."""

from dataclasses import dataclass

from roost_engine.domain.model import JobId

NO_USER = -1  # the trace does not tell the user of a job


@dataclass(slots=True, kw_only=True)
class JobResult:
    """The result of one arrival. Times are engine times.

    Attributes:
        started_s: first start; None: it never started.
        ended_s: None: it did not end.
        held_gpu_count: GPUs of the placement.
        tier: 0 one node, 1 one rack, 2 across racks.
        link_score, best_link_score: of the placement, and of the same shape on idle nodes.
        preempted_count: how often it was preempted, without leases renewed on the same GPUs.
        ran_s: how long it held GPUs, all runs together.
        user_id: NO_USER: not in the trace.
        left_out: why it did not complete; "" for a job that did.
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
    user_id: int = NO_USER


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """Everything that one run yields.

    Attributes:
        jobs: in order of arrival.
        event_count: events fed to the engine, including those that describe the cluster.
        decision_s: wall time of each decision: the time of the step over the jobs that it placed.
        update_count: how often Slurm was asked to change the request of a job: a pin, a standing
            pin or the end of one. Renewed leases are not counted.
        standing_count: the standing pins among them.
    """

    jobs: tuple[JobResult, ...]
    event_count: int
    decision_s: tuple[float, ...]
    update_count: int = 0
    standing_count: int = 0
