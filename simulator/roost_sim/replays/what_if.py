"""What if: simulates the jobs of a journal under another policy.

Arrivals, requests, nodes, topology, faults and run times are the journal's. Outsiders, the jobs
that Slurm started without asking, keep their recorded nodes and times. Limits of the simulation:
docs/simulator/replay.md.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from roost_engine.cluster.cluster import Cluster
from roost_engine.cluster.link_table import mask_of
from roost_engine.domain.events import Event, JobEnded
from roost_engine.domain.model import JobId, JobSpec, NodeShare, Shape
from roost_engine.domain.tier import Tier
from roost_engine.engine import Engine, EngineConfig
from roost_engine.plugins.plugins import Policies
from roost_sim.figures.metrics import mean_or_none, percentile_or_none
from roost_sim.figures.outcome import Outcome
from roost_sim.information.progress import ProgressTable
from roost_sim.replays.journal_history import Fate, History, RecordedJob
from roost_sim.runs.driver import Driver
from roost_sim.traces.arrival import Arrival
from roost_sim.worlds.restart_cost import RestartRule, restart_s
from roost_sim.worlds.world import FullSpeed, World

Shapes = Callable[[tuple[Shape, ...]], tuple[Shape, ...]]
_Bind = Callable[[JobSpec], JobSpec]


@dataclass(frozen=True, slots=True, kw_only=True)
class CompletedJob:
    """The wait, completion time and GPUs of one job that ended, in the record or in a simulation.

    Attributes:
        wait_s: time without GPUs between `RecordedJob.since_s` and the job's end.
        jct_s: from `RecordedJob.since_s` to the job's end.
        started_s: the first start.
        shares: the GPUs of the first start in the record, of the last one in a simulation.
    """

    wait_s: float
    jct_s: float
    started_s: float
    shares: tuple[NodeShare, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Simulated:
    """The journal's jobs under one policy.

    Attributes:
        completed: the jobs that ended in the simulation, without those that left the queue or
            ended unobserved in the record.
        cluster: its state at the end; only links and racks are read.
        preemption_count: preemptions of all jobs.
    """

    completed: Mapping[JobId, CompletedJob]
    cluster: Cluster
    preemption_count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class JobFigures:
    """The figures in one column of the comparison. None: no job has such a figure.

    Attributes:
        jobs: compared jobs; the same in every column.
        avg_wait_s, median_wait_s, p95_wait_s: of the jobs' waits.
        avg_jct_s, median_jct_s, p95_jct_s: of the jobs' completion times.
        link_score: mean over jobs, summed over a job's nodes; docs/links.md.
        link_frac: mean of that score over the best that idle nodes could give, 0..1, over jobs
            that have links.
        tier_counts: jobs on one node, in one rack, across racks.
    """

    jobs: int
    avg_wait_s: float | None
    median_wait_s: float | None
    p95_wait_s: float | None
    avg_jct_s: float | None
    median_jct_s: float | None
    p95_jct_s: float | None
    link_score: float | None
    link_frac: float | None
    tier_counts: tuple[int, int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacementChanges:
    """How many of the compared jobs a simulation places elsewhere than the record does.

    Attributes:
        same_gpus: jobs on the recorded GPUs.
        other_gpus: jobs on the recorded nodes, on other GPUs.
        other_nodes: jobs on other nodes.
    """

    same_gpus: int
    other_gpus: int
    other_nodes: int


def simulate_history(
    history: History,
    policies: Policies,
    config: EngineConfig,
    *,
    shapes: Shapes = lambda asked: asked,
    may_stop_any: bool = False,
    start_delay_s: float = 0.0,
    progress: ProgressTable | None = None,
    world: World | None = None,
    work_s: Mapping[JobId, float] | None = None,
) -> Simulated:
    """Run a journal's jobs through a fresh engine.

    Args:
        history: what the journal recorded.
        policies: the engine's plug-ins.
        config: the engine's numbers.
        shapes: selects, of the shapes that a job accepts, those that the policy would use.
        may_stop_any: whether jobs that state no checkpoint may be stopped too.
        start_delay_s: from a placement to the start.
        progress: the table that the policies read; None: they read none.
        world: how fast jobs run where they are; None: everywhere as in the record.
        work_s: the run time of each job at full speed in that world; None: `work_of`.
    """
    record_count = len(history.jobs) + len(history.outside)  # all records are read at the end
    engine = Engine(replace(config, ended_job_count=record_count), policies)
    work_s = work_of(history) if work_s is None else work_s
    jobs = [job for job in history.jobs if _takes_part(job)]

    def bound(spec: JobSpec) -> JobSpec:
        """Return the request with `binding` set, also where roostd ran in shadow or advise."""
        checkpoint_s = 0.0 if may_stop_any else spec.checkpoint_s
        return replace(spec, binding=True, shapes=shapes(spec.shapes), checkpoint_s=checkpoint_s)

    arrivals = [_arrival(job, work_s[job.spec.job_id], bound) for job in jobs]
    outside = sorted((*history.outside, *_job_events(jobs, bound)), key=_at_s)
    driver = Driver(
        engine,
        world or FullSpeed(),
        start_delay_s=start_delay_s,
        restart_s=measured_restart_s,
        progress=progress or ProgressTable(),
    )
    outcome = driver.run((), arrivals, outside)
    return Simulated(
        completed=_completed(jobs, outcome, engine, work_s),
        cluster=engine.cluster,
        preemption_count=sum(found.preempted_count for found in outcome.jobs),
    )


def _completed(
    jobs: Sequence[RecordedJob], outcome: Outcome, engine: Engine, work_s: Mapping[JobId, float]
) -> dict[JobId, CompletedJob]:
    """Return the jobs that ended in the simulation and were not cut short in the record."""
    completed: dict[JobId, CompletedJob] = {}
    for job, found in zip(jobs, outcome.jobs, strict=True):
        if job.fate in _CUT_SHORT or found.ended_s is None or found.started_s is None:
            continue
        jct_s = found.ended_s - job.since_s
        completed[job.spec.job_id] = CompletedJob(
            wait_s=jct_s - work_s[job.spec.job_id],
            jct_s=jct_s,
            started_s=found.started_s,
            shares=engine.record(job.spec.job_id).shares,
        )
    return completed


def completed_in_record(history: History) -> dict[JobId, CompletedJob]:
    """Return the jobs that ended in the record, by id."""
    return {
        job.spec.job_id: CompletedJob(
            wait_s=job.ended_s - job.since_s - job.held_s,
            jct_s=job.ended_s - job.since_s,
            started_s=job.started_s,
            shares=job.shares,
        )
        for job in history.jobs
        if job.fate is Fate.ENDED and job.started_s is not None
    }


def figures_of(completed: Sequence[CompletedJob], cluster: Cluster) -> JobFigures:
    """Compute the figures of one column.

    Args:
        completed: the compared jobs.
        cluster: for links and racks.
    """
    waits_s, jcts_s = [job.wait_s for job in completed], [job.jct_s for job in completed]
    scores = [_link_scores(job.shares, cluster) for job in completed]
    tiers = [_tier(job.shares, cluster) for job in completed]
    return JobFigures(
        jobs=len(completed),
        avg_wait_s=mean_or_none(waits_s),
        median_wait_s=percentile_or_none(waits_s, 50),
        p95_wait_s=percentile_or_none(waits_s, 95),
        avg_jct_s=mean_or_none(jcts_s),
        median_jct_s=percentile_or_none(jcts_s, 50),
        p95_jct_s=percentile_or_none(jcts_s, 95),
        link_score=mean_or_none([score for score, _ in scores]),
        link_frac=mean_or_none([score / best for score, best in scores if best > 0]),
        tier_counts=(
            tiers.count(Tier.NODE),
            tiers.count(Tier.RACK),
            tiers.count(Tier.CLUSTER),
        ),
    )


def placement_changes(
    job_ids: Sequence[JobId],
    recorded: Mapping[JobId, CompletedJob],
    simulated: Mapping[JobId, CompletedJob],
) -> PlacementChanges:
    """Count the jobs that a simulation places elsewhere than the record does."""
    same = nodes = 0
    for job_id in job_ids:
        before, after = (_gpus(completed[job_id].shares) for completed in (recorded, simulated))
        same += before == after
        nodes += before.keys() != after.keys()
    return PlacementChanges(
        same_gpus=same, other_gpus=len(job_ids) - same - nodes, other_nodes=nodes
    )


def narrowed(asked: tuple[Shape, ...], used: tuple[Shape, ...]) -> tuple[Shape, ...]:
    """Return the shapes that a job accepts and a policy uses; all accepted ones if none is both.

    A policy may use fewer shapes than the job accepts, never others: the request is the user's.
    """
    counts = {(shape.node_count, shape.gpus_per_node) for shape in used}
    both = tuple(shape for shape in asked if (shape.node_count, shape.gpus_per_node) in counts)
    return both or asked


def work_of(history: History) -> dict[JobId, float]:
    """Return the run time of each job in the simulation: its recorded run time.

    The run time of a job that was still running at the end of the journal is unknown: it gets the
    median of the ended jobs that ran at least as long as it had by then, or what it had run by
    then if no ended job ran longer.
    """
    known_s = sorted(job.held_s for job in history.jobs if job.fate is Fate.ENDED)

    def run_s(job: RecordedJob) -> float:
        longer_s = known_s[bisect_left(known_s, job.held_s) :]
        if job.fate in (Fate.ENDED, Fate.LOST) or not longer_s:
            return job.held_s
        return longer_s[len(longer_s) // 2]

    return {job.spec.job_id: run_s(job) for job in history.jobs}


# -- into the simulation -----------------------------------------------------------------------


_CUT_SHORT = (Fate.LEFT, Fate.LOST)


def _takes_part(job: RecordedJob) -> bool:
    """Whether the job was in the queue for any time."""
    return job.fate is not Fate.LEFT or job.ended_s > job.arrived_s


def _arrival(job: RecordedJob, work_s: float, bound: _Bind) -> Arrival:
    return Arrival(
        spec=bound(job.spec),
        work_s=work_s,
        gpu_count=job.spec.gpu_count,
        reported_s=job.arrived_s,
    )


def _job_events(jobs: Sequence[RecordedJob], bound: _Bind) -> Iterator[Event]:
    """Yield the changes of requests, and the ends of jobs that were cancelled while they waited."""
    for job in jobs:
        for change in job.changes:
            yield replace(change, job=bound(change.job))
        if job.fate is Fate.LEFT:
            yield JobEnded(at_s=job.ended_s, job_id=job.spec.job_id)


def measured_restart_s(job_id: JobId, gpu_count: int) -> float:
    """Seconds that a preemption costs a job; the size of its model is unknown."""
    return restart_s(RestartRule.MEASURED, None, gpu_count)


def _at_s(event: Event) -> float:
    return event.at_s


# -- out of it ---------------------------------------------------------------------------------


def _gpus(shares: tuple[NodeShare, ...]) -> dict[str, tuple[int, ...]]:
    return {share.node: share.gpu_indices for share in shares}


def _link_scores(shares: tuple[NodeShare, ...], cluster: Cluster) -> tuple[int, int]:
    """Return the link score of a job's GPUs, and the best that its nodes offer when idle."""
    score = best = 0
    for share in shares:
        node = cluster.index_of.get(share.node)
        if node is None:
            continue
        table = cluster.table(node)
        indices = tuple(gpu for gpu in share.gpu_indices if gpu < table.gpu_count)
        score += int(table.set_scores[mask_of(indices)])
        best += table.best_score(table.full_mask, len(indices))
    return score, best


def _tier(shares: tuple[NodeShare, ...], cluster: Cluster) -> Tier:
    nodes = [cluster.index_of[share.node] for share in shares if share.node in cluster.index_of]
    if len(nodes) < 2:
        return Tier.NODE
    return Tier.RACK if len({cluster.rack_of[node] for node in nodes}) == 1 else Tier.CLUSTER
