"""The metrics of a run: completion times, queueing, use of the cluster, decisions.

Job times are over the measured jobs: the completed jobs without the first and the last tenth of the
arrivals, while the cluster fills and empties. The jobs left out still load the cluster.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from roost_engine.domain.model import JobId
from roost_engine.domain.tier import Tier
from roost_sim.figures.bound import Demand, average_jct_bound_s
from roost_sim.figures.communication import communication_of
from roost_sim.figures.fairness import Fairness, fairness_of
from roost_sim.figures.occupancy import Holds, occupancy_of
from roost_sim.figures.outcome import JobResult, Outcome
from roost_sim.figures.sharing import PairLog, SharingFigures, sharing_of
from roost_sim.figures.users import UserSlowdowns, user_slowdowns

TIER_NAMES = ("on one node", "in one rack", "across racks")
LARGE_GPUS = 8  # jobs of a whole node or more, for which a busy cluster has to be cleared


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """Which arrivals are measured.

    Attributes:
        warm_up_frac, cool_down_frac: fractions of all arrivals by number that are not measured;
            together below 1; rounded down, so that of a few jobs all are measured.
    """

    warm_up_frac: float = 0.1
    cool_down_frac: float = 0.1

    def __post_init__(self) -> None:
        if min(self.warm_up_frac, self.cool_down_frac) < 0 or (
            self.warm_up_frac + self.cool_down_frac >= 1
        ):
            raise ValueError(
                f"warm-up {self.warm_up_frac:g} and cool-down {self.cool_down_frac:g} leave no job "
                "to measure; want fractions of 0 or more that add up to less than 1"
            )

    def range_of(self, submit_s: Sequence[float] | NDArray[np.float64]) -> tuple[int, int]:
        """Return the first and the past-the-last position of the measured arrivals.

        A batch has no steady state: if all jobs arrive at once, all are measured.
        """
        count = len(submit_s)
        if not count or submit_s[0] == submit_s[-1]:
            return 0, count
        return int(self.warm_up_frac * count), count - int(self.cool_down_frac * count)


@dataclass(frozen=True, slots=True, kw_only=True)
class Metrics:
    """The figures of one run. None: no job has such a figure.

    Attributes:
        jobs: jobs that arrived.
        completed: jobs that completed; the others were left out, see `left_out`.
        measured: completed jobs whose times are measured.
        avg_jct_s, median_jct_s, p95_jct_s, p99_jct_s: from submission to end.
        avg_queue_s: waiting for GPUs: before the first start and after each stop.
        longest_queue_s: the longest queueing of a measured job.
        makespan_s: from the first submission to the last end.
        occupancy: GPU-seconds held over the cluster's GPU-seconds in the makespan, 0..1.
        occupancy_loss: GPU-seconds idle while jobs waited for as many, over the same, 0..1.
        avg_comm_s: mean exposed communication of a measured job; None: the speed model has none.
        comm_share: GPU-seconds of it over GPU-seconds run, of the measured jobs, 0..1.
        fairness: finish-time fairness of the measured jobs.
        users: how the users of the measured jobs fared; None: no job has a user.
        large_p99_queue_s: the 99th percentile of queueing of the measured jobs with LARGE_GPUS or
            more.
        preemptions: how often jobs were preempted and started again.
        tier_counts: placements on one node, in one rack, across racks.
        link_frac: mean of a placement's link score over that of the same shape on idle nodes,
            0..1; over placements that have links.
        decisions: placements decided, of all jobs.
        decision_p50_ms, decision_p99_ms: wall time of one decision.
        pins_per_job: how often Slurm was asked to change the request of a job, per job that
            arrived; see Outcome.
        updates_per_s: the same per second of the makespan.
        standing_pins: the standing pins among these.
        bound_avg_jct_s: lower bound of avg_jct_s of the measured jobs over all schedules.
        left_out: (reason, number of jobs), most first.
        sharing: what partners on shared GPUs did; None: no job may share.
    """

    jobs: int
    completed: int
    measured: int
    avg_jct_s: float | None
    median_jct_s: float | None
    p95_jct_s: float | None
    p99_jct_s: float | None
    avg_queue_s: float | None
    longest_queue_s: float | None
    large_p99_queue_s: float | None
    makespan_s: float | None
    occupancy: float | None
    occupancy_loss: float | None
    avg_comm_s: float | None
    comm_share: float | None
    fairness: Fairness | None
    users: UserSlowdowns | None
    preemptions: int
    tier_counts: tuple[int, int, int]
    link_frac: float | None
    decisions: int
    decision_p50_ms: float | None
    decision_p99_ms: float | None
    pins_per_job: float | None
    updates_per_s: float | None
    standing_pins: int
    bound_avg_jct_s: float | None
    left_out: tuple[tuple[str, int], ...]
    sharing: SharingFigures | None = None


def no_restart_s(job_id: JobId, gpu_count: int) -> float:
    """A restarted job makes progress at once."""
    return 0.0


def measure(
    outcome: Outcome,
    cluster_gpu_count: int,
    span: Span,
    *,
    holds: Holds | None = None,
    compute_frac: Callable[[JobId, int], float] | None = None,
    restart_s: Callable[[JobId, int], float] = no_restart_s,
    pair_log: PairLog | None = None,
) -> Metrics:
    """Compute the figures of a run.

    Args:
        outcome: what the driver returned.
        cluster_gpu_count: GPUs that can be used.
        span: the jobs whose times are measured.
        holds: how many GPUs were held when; None: no job was ever preempted.
        compute_frac: see roost_sim.worlds.world_spec.BuiltWorld.
        restart_s: see BuiltWorld.
        pair_log: what partners on shared GPUs did; None: no job may share.
    """
    begin, end = span.range_of([job.submit_s for job in outcome.jobs])
    measured = [job for job in outcome.jobs[begin:end] if job.ended_s is not None]
    jct_s, queue_s = _columns(measured)
    large = np.array([job.gpu_count for job in measured], dtype=np.int64) >= LARGE_GPUS
    decision_ms = np.array(outcome.decision_s) * 1000
    used = occupancy_of(outcome.jobs, holds or Holds.of_jobs(outcome.jobs), cluster_gpu_count)
    makespan_s = _makespan_s(outcome.jobs)
    waited = communication_of(measured, compute_frac, restart_s)
    return Metrics(
        jobs=len(outcome.jobs),
        completed=sum([job.ended_s is not None for job in outcome.jobs]),
        measured=len(measured),
        avg_jct_s=mean_or_none(jct_s),
        median_jct_s=percentile_or_none(jct_s, 50),
        p95_jct_s=percentile_or_none(jct_s, 95),
        p99_jct_s=percentile_or_none(jct_s, 99),
        avg_queue_s=mean_or_none(queue_s),
        longest_queue_s=float(queue_s.max()) if measured else None,
        large_p99_queue_s=percentile_or_none(queue_s[large], 99),
        makespan_s=makespan_s,
        occupancy=None if used is None else used.held_frac,
        occupancy_loss=None if used is None else used.lost_frac,
        avg_comm_s=None if waited is None else waited.mean_s,
        comm_share=None if waited is None else waited.share_frac,
        fairness=fairness_of(outcome.jobs, begin, end, cluster_gpu_count),
        users=user_slowdowns(measured),
        preemptions=sum([job.preempted_count for job in outcome.jobs]),
        tier_counts=_tier_counts(outcome.jobs),
        link_frac=_link_frac(outcome.jobs),
        decisions=len(decision_ms),
        decision_p50_ms=percentile_or_none(decision_ms, 50),
        decision_p99_ms=percentile_or_none(decision_ms, 99),
        pins_per_job=outcome.update_count / len(outcome.jobs) if outcome.jobs else None,
        updates_per_s=outcome.update_count / makespan_s if makespan_s else None,
        standing_pins=outcome.standing_count,
        bound_avg_jct_s=_bound_s(measured, cluster_gpu_count, can_share=pair_log is not None),
        left_out=_left_out(outcome.jobs),
        sharing=None if pair_log is None else sharing_of(pair_log),
    )


def _tier_counts(jobs: Sequence[JobResult]) -> tuple[int, int, int]:
    tiers = [job.tier for job in jobs]
    return tiers.count(Tier.NODE), tiers.count(Tier.RACK), tiers.count(Tier.CLUSTER)


def _link_frac(jobs: Sequence[JobResult]) -> float | None:
    done = [job for job in jobs if job.ended_s is not None and job.best_link_score > 0]
    return mean_or_none([job.link_score / job.best_link_score for job in done])


def _bound_s(
    measured: Sequence[JobResult], cluster_gpu_count: int, *, can_share: bool
) -> float | None:
    demand = Demand.of(
        [job.submit_s for job in measured],
        [job.work_s for job in measured],
        [job.gpu_count for job in measured],
    )
    # Two jobs share a GPU at full speed at best, as if there were twice as many.
    return average_jct_bound_s(demand, cluster_gpu_count * (2 if can_share else 1))


def _makespan_s(jobs: Sequence[JobResult]) -> float | None:
    ends_s = [job.ended_s for job in jobs if job.ended_s is not None]
    return max(ends_s) - jobs[0].submit_s if ends_s else None


def _columns(
    measured: Sequence[JobResult],
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return how long jobs that ended took, and how long each was without GPUs: float64 [job]."""
    submit_s = np.array([job.submit_s for job in measured])
    jct_s = np.array([job.ended_s for job in measured], dtype=np.float64) - submit_s
    # Start minus submission is exact for a job that was never preempted; the difference of
    # completion and run time has a rounding error.
    queue_s = np.array([job.started_s for job in measured], dtype=np.float64) - submit_s
    for position, job in enumerate(measured):
        if job.preempted_count:
            queue_s[position] = max(jct_s[position] - job.ran_s, 0.0)
    return jct_s, queue_s


def _left_out(jobs: Sequence[JobResult]) -> tuple[tuple[str, int], ...]:
    counts: dict[str, int] = {}
    for job in jobs:
        if job.left_out:
            counts[job.left_out] = counts.get(job.left_out, 0) + 1
    return tuple(sorted(counts.items(), key=lambda item: (-item[1], item[0])))


def mean_or_none(values: Sequence[float] | NDArray[np.float64]) -> float | None:
    """Return the mean; None of no values."""
    return float(np.mean(values)) if len(values) else None


def percentile_or_none(
    values: Sequence[float] | NDArray[np.float64], percent: float
) -> float | None:
    """Return a percentile, 0 to 100; None of no values."""
    return float(np.percentile(values, percent)) if len(values) else None
