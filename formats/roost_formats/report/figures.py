"""The figures of a report, as `tally` computes them from the journal."""

from dataclasses import dataclass

SAME_START_S = 5.0  # Slurm starts a job this long after its decision without being late


@dataclass(frozen=True, slots=True)
class Estimate:
    """A figure and its 95 % interval.

    All None where no job shows it; no interval where all jobs are of one user and one day.
    """

    value: float | None = None
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupFigures:
    """The figures of some jobs.

    Attributes:
        job_count, started_count: all jobs, and those that ran.
        gpu_hours: of their last runs.
        chosen_count: started jobs for which Roost had chosen GPUs.
        same_frac: of these, the fraction that ran on just the chosen GPUs.
        real_link_frac, planned_link_frac, stock_link_frac: link score over the best possible, each
            job by its GPUs: of what the jobs got, what Roost chose, and what plain Slurm takes on
            the same nodes.
        planned_gain_frac: planned less real. stock_gain_frac: real less stock.
        sooner_count: Roost had chosen GPUs more than SAME_START_S before Slurm started the job.
        later_count: Slurm started the job before Roost would have.
        sooner_s: mean of the former.
        waiting_gpu_hours: GPUs times the time by which starts would have been sooner.
        running_gpu_hours: run time that the chosen places would have spared, by expected speeds.
    """

    job_count: int
    started_count: int
    gpu_hours: float
    chosen_count: int
    same_frac: Estimate
    real_link_frac: Estimate
    planned_link_frac: Estimate
    stock_link_frac: Estimate
    planned_gain_frac: Estimate
    stock_gain_frac: Estimate
    sooner_count: int
    later_count: int
    sooner_s: Estimate
    waiting_gpu_hours: Estimate
    running_gpu_hours: Estimate


@dataclass(frozen=True, slots=True)
class LimitFigures:
    """One of Slurm's limits that kept jobs waiting."""

    limit: str
    job_count: int
    wait_s: float


@dataclass(frozen=True, slots=True)
class GroupPair:
    """The figures of a partition's or a user's jobs; None: none were watched, or enforced."""

    name: str
    watched: GroupFigures | None
    enforced: GroupFigures | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportFigures:
    """All figures of a report.

    Attributes:
        since_s, until_s: seconds since 1970.
        left: why Roost placed jobs not at all, and how many.
        users: by user id.
    """

    since_s: float
    until_s: float
    job_count: int
    watched: GroupFigures | None
    enforced: GroupFigures | None
    limits: tuple[LimitFigures, ...]
    left: tuple[tuple[str, int], ...]
    partitions: tuple[GroupPair, ...]
    users: tuple[GroupPair, ...]
