"""The jobs of a journal under another policy, beside what happened to them.

Arrivals, requests, nodes, topology, faults and run times are the journal's; so are the outsiders,
which stay where and when they were. What the simulation cannot know is said in
docs/simulator/replay.md.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from roost_engine.cluster.cluster import Cluster
from roost_engine.cluster.link_table import mask_of
from roost_engine.domain.events import Event, JobEnded
from roost_engine.domain.model import JobId, JobSpec, NodeShare, Shape
from roost_engine.engine import Engine, EngineConfig
from roost_engine.plugins import Policies
from roost_sim.information.progress import ProgressBook
from roost_sim.replays.journal_history import Fate, History, RecordedJob
from roost_sim.runs.driver import Driver
from roost_sim.traces.arrival import Arrival
from roost_sim.worlds.restart_cost import RestartRule, restart_s
from roost_sim.worlds.world import FullSpeed

Shapes = Callable[[tuple[Shape, ...]], tuple[Shape, ...]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Spell:
    """What became of one job.

    Attributes:
        wait_s: time without GPUs, from `RecordedJob.since_s` to its end.
        jct_s: from there to its end.
        started_s: first.
        shares: what it held; first in the record, last in a simulation.
    """

    wait_s: float
    jct_s: float
    started_s: float
    shares: tuple[NodeShare, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Simulated:
    """The journal's jobs under one policy.

    Attributes:
        spells: of the jobs that ended here, but for those that left the queue in the record.
        cluster: as it was in the end; only its links and racks are looked at.
        preemption_count: of all jobs.
    """

    spells: Mapping[JobId, Spell]
    cluster: Cluster
    preemption_count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """What a column of the comparison says. None: there is nothing to take it from.

    Attributes:
        jobs: that were compared; the same in every column.
        avg_wait_s, median_wait_s, p95_wait_s: of their waits.
        avg_jct_s, median_jct_s, p95_jct_s: from the same instant to the end.
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
class Moves:
    """Where a simulation puts the compared jobs, against the record."""

    same_gpus: int
    other_gpus: int  # of the same nodes
    other_nodes: int


def simulate_history(
    history: History,
    policies: Policies,
    config: EngineConfig,
    *,
    shapes: Shapes = lambda asked: asked,
    start_delay_s: float = 0.0,
    book: ProgressBook | None = None,
) -> Simulated:
    """Run a journal's jobs through a fresh engine.

    Args:
        history: what the journal tells.
        policies: of the engine.
        config: its numbers.
        shapes: which of the shapes that a job accepts the policy would use.
        start_delay_s: from a placement to the start.
        book: that the policies look into; None: they look into none.
    """
    kept_count = len(history.jobs) + len(history.outside)  # every record is read in the end
    engine = Engine(replace(config, ended_job_count=kept_count), policies)
    work_s = work_of(history)
    jobs = [job for job in history.jobs if _takes_part(job)]
    arrivals = [_arrival(job, work_s[job.spec.job_id], shapes) for job in jobs]
    outside = sorted((*history.outside, *_told_of_jobs(jobs, shapes)), key=_at_s)
    driver = Driver(
        engine,
        FullSpeed(),
        start_delay_s=start_delay_s,
        restart_s=measured_restart_s,
        book=book or ProgressBook(),
    )
    outcome = driver.run((), arrivals, outside)
    spells: dict[JobId, Spell] = {}
    for job, found in zip(jobs, outcome.jobs, strict=True):
        if job.fate in _CUT_SHORT or found.ended_s is None or found.started_s is None:
            continue
        jct_s = found.ended_s - job.since_s
        spells[job.spec.job_id] = Spell(
            wait_s=jct_s - work_s[job.spec.job_id],
            jct_s=jct_s,
            started_s=found.started_s,
            shares=engine.record(job.spec.job_id).shares,
        )
    return Simulated(
        spells=spells,
        cluster=engine.cluster,
        preemption_count=sum(found.preempted_count for found in outcome.jobs),
    )


def recorded_spells(history: History) -> dict[JobId, Spell]:
    """What happened to the jobs that ended."""
    return {
        job.spec.job_id: Spell(
            wait_s=job.ended_s - job.since_s - job.held_s,
            jct_s=job.ended_s - job.since_s,
            started_s=job.started_s,
            shares=job.shares,
        )
        for job in history.jobs
        if job.fate is Fate.ENDED and job.started_s is not None
    }


def figures_of(spells: Sequence[Spell], cluster: Cluster) -> Figures:
    """The figures of some jobs.

    Args:
        spells: of the compared jobs.
        cluster: knows the links and racks.
    """
    waits_s, jcts_s = [spell.wait_s for spell in spells], [spell.jct_s for spell in spells]
    scores = [_link_scores(spell.shares, cluster) for spell in spells]
    tiers = [_tier(spell.shares, cluster) for spell in spells]
    return Figures(
        jobs=len(spells),
        avg_wait_s=_mean(waits_s),
        median_wait_s=_percentile(waits_s, 50),
        p95_wait_s=_percentile(waits_s, 95),
        avg_jct_s=_mean(jcts_s),
        median_jct_s=_percentile(jcts_s, 50),
        p95_jct_s=_percentile(jcts_s, 95),
        link_score=_mean([score for score, _ in scores]),
        link_frac=_mean([score / best for score, best in scores if best > 0]),
        tier_counts=(tiers.count(0), tiers.count(1), tiers.count(2)),
    )


def moves_of(
    job_ids: Sequence[JobId], recorded: Mapping[JobId, Spell], simulated: Mapping[JobId, Spell]
) -> Moves:
    """How many jobs went elsewhere."""
    same = nodes = 0
    for job_id in job_ids:
        here, there = (_gpus(spells[job_id].shares) for spells in (recorded, simulated))
        same += here == there
        nodes += here.keys() != there.keys()
    return Moves(same_gpus=same, other_gpus=len(job_ids) - same - nodes, other_nodes=nodes)


def narrowed(asked: tuple[Shape, ...], liked: tuple[Shape, ...]) -> tuple[Shape, ...]:
    """The shapes that a job accepts and a policy likes; all it accepts where there is none.

    A policy may be choosier than the job, never less so: the request is the user's.
    """
    counts = {(shape.node_count, shape.gpus_per_node) for shape in liked}
    both = tuple(shape for shape in asked if (shape.node_count, shape.gpus_per_node) in counts)
    return both or asked


def work_of(history: History) -> dict[JobId, float]:
    """How long each job runs, also in the simulation.

    As long as it did. Of a job that had not ended when the journal did, nobody knows: it gets the
    median of the jobs that ended and ran at least as long as it had; where none did, that.
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
    """Whether it was there for any time."""
    return job.fate is not Fate.LEFT or job.ended_s > job.arrived_s


def _arrival(job: RecordedJob, work_s: float, shapes: Shapes) -> Arrival:
    return Arrival(
        spec=_bound(job.spec, shapes),
        work_s=work_s,
        gpu_count=job.spec.gpu_count,
        told_s=job.arrived_s,
    )


def _told_of_jobs(jobs: Sequence[RecordedJob], shapes: Shapes) -> Iterator[Event]:
    """Changes of requests, and the ends of jobs that their owners cancelled while they waited."""
    for job in jobs:
        for change in job.changes:
            yield replace(change, job=_bound(change.job, shapes))
        if job.fate is Fate.LEFT:
            yield JobEnded(at_s=job.ended_s, job_id=job.spec.job_id)


def _bound(spec: JobSpec, shapes: Shapes) -> JobSpec:
    """The request with Roost in charge, also where it only watched."""
    return replace(spec, binding=True, shapes=shapes(spec.shapes))


def measured_restart_s(job_id: JobId, gpu_count: int) -> float:
    """What a stop costs a job; its model's size is not known."""
    return restart_s(RestartRule.MEASURED, None, gpu_count)


def _at_s(event: Event) -> float:
    return event.at_s


# -- out of it ---------------------------------------------------------------------------------


def _gpus(shares: tuple[NodeShare, ...]) -> dict[str, tuple[int, ...]]:
    return {share.node: share.gpu_indices for share in shares}


def _link_scores(shares: tuple[NodeShare, ...], cluster: Cluster) -> tuple[int, int]:
    """The link score of what a job held, and of the best that its nodes have when idle."""
    score = best = 0
    for share in shares:
        row = cluster.row.get(share.node)
        if row is None:
            continue
        table = cluster.table(row)
        indices = tuple(gpu for gpu in share.gpu_indices if gpu < table.gpu_count)
        score += int(table.set_scores[mask_of(indices)])
        best += table.best_score(table.full_mask, len(indices))
    return score, best


def _tier(shares: tuple[NodeShare, ...], cluster: Cluster) -> int:
    rows = [cluster.row[share.node] for share in shares if share.node in cluster.row]
    if len(rows) < 2:
        return 0
    return 1 if len({int(cluster.rack_id[row]) for row in rows}) == 1 else 2


def _mean(values: Sequence[float]) -> float | None:
    return float(np.mean(values)) if values else None


def _percentile(values: Sequence[float], percent: float) -> float | None:
    return float(np.percentile(values, percent)) if values else None
