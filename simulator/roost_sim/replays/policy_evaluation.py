"""Compares two choices of policies on a site's own journal, with intervals.

Both are simulated: the same jobs, nodes and faults, and run times that follow the tiers of the GPUs
by the speeds that the site has measured. The jobs are paired, and the intervals are a bootstrap
over windows of time, because jobs that waited in the same queue are not independent.
Page: docs/policies.md.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from roost_engine.domain.events import NodeSeen
from roost_engine.domain.model import JobId, JobSpec, NodeName, NodeShare
from roost_engine.domain.tier import Tier
from roost_engine.plugins.plugins import Knowledge
from roost_engine.prediction.speed.speed_predictor import SpeedPredictor
from roost_engine.prediction.speed.speed_table import TableOfSpeeds
from roost_formats.journal.evaluation import (
    Contender,
    Evaluation,
    EvaluationTask,
    PolicyFigures,
    Ratio,
)
from roost_sim.replays.journal_history import Fate, History, HistoryBuilder
from roost_sim.replays.recording import ModelShelf, Recording, RecordingError, Run
from roost_sim.replays.what_if import (
    CompletedJob,
    Simulated,
    completed_in_record,
    simulate_history,
    work_of,
)
from roost_sim.worlds.world import PlacedWorld

WINDOW_COUNT = 28  # of 6 hours in a week
_DRAWS = 1_000
_INTERVAL_PERCENT = (2.5, 97.5)
_FEWEST_JOBS = 2

_Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class _SiteSpeeds:
    """How fast each job runs where, by what the site has measured.

    Attributes:
        speed: of any job, by tier.
        racks: the rack of every node that the journal names.
        specs: the jobs.
    """

    speed: SpeedPredictor
    racks: Mapping[NodeName, str]
    specs: Mapping[JobId, JobSpec]

    def rate(self, job_id: JobId, shares: tuple[NodeShare, ...]) -> float:
        return self.speed.estimate(self.specs[job_id]).speeds.at(self._tier(shares))

    def _tier(self, shares: Sequence[NodeShare]) -> Tier:
        nodes = {share.node for share in shares}
        if len(nodes) < 2:
            return Tier.NODE
        racks = {self.racks.get(node, "") for node in nodes}
        return Tier.RACK if len(racks) == 1 else Tier.CLUSTER


def evaluate(task: EvaluationTask) -> Evaluation:
    """Simulate a journal's jobs under both choices of policies and compare them.

    Raises:
        RecordingError: the journal or a model cannot be used, or nothing can be compared.
    """
    with Recording(Path(task.journal)) as recording:
        runs = recent_runs(recording.runs, task.last_s)
        history = _history(recording, runs)
        known = recording.plugins(runs[0]).knowledge
        learned = recording.plugins(runs[-1]).knowledge
    models = ModelShelf(tuple(map(Path, task.model_paths)))
    speeds = _speeds(task, history, learned)
    run_s = work_of(history)
    work_s = {
        job.spec.job_id: run_s[job.spec.job_id] * speeds.rate(job.spec.job_id, job.shares)
        for job in history.jobs
    }
    delay_s = min(history.start_delay_s or 0.0, task.config.start_timeout_s / 2)

    def simulated(contender: Contender) -> Simulated:
        plugins = replace(contender.plugins, knowledge=known)
        where = f"{task.journal}: {contender.score}"
        policies = plugins.policies(
            models.score(contender.score, where), models=models.models_of(plugins, where)
        )
        return simulate_history(
            history,
            policies,
            task.config,
            start_delay_s=delay_s,
            world=PlacedWorld(speeds.rate),
            work_s=work_s,
        )

    return compare(history, simulated(task.active), simulated(task.candidate), work_s, task)


def recent_runs(runs: Sequence[Run], last_s: float) -> Sequence[Run]:
    """Return the runs that hold the last so many seconds: from the last that began before them.

    Every run begins with the state of the cluster, so earlier ones are not needed.

    Raises:
        RecordingError: there is no run.
    """
    if not runs:
        raise RecordingError("the journal holds no run yet; let roostd run for a while")
    from_s = runs[-1].head.began_s - last_s
    first = max((n for n, run in enumerate(runs) if run.head.began_s <= from_s), default=0)
    return runs[first:]


def compare(
    history: History,
    active: Simulated,
    candidate: Simulated,
    work_s: Mapping[JobId, float],
    task: EvaluationTask,
) -> Evaluation:
    """Compare the jobs of the window that ended in the record and in both simulations.

    Raises:
        RecordingError: there are fewer than two.
    """
    from_s = max(history.ended_s - task.last_s, history.began_s)
    recorded = completed_in_record(history)
    wanted = [
        job
        for job in history.jobs
        if job.arrived_s >= from_s and job.fate is Fate.ENDED and job.spec.job_id in recorded
    ]
    job_ids = [
        job.spec.job_id
        for job in wanted
        if job.spec.job_id in active.completed and job.spec.job_id in candidate.completed
    ]
    if len(job_ids) < _FEWEST_JOBS:
        raise RecordingError(
            f"{task.journal}: {len(job_ids)} jobs of the last {task.last_s:g} s can be compared;"
            " take a longer window, or let roostd run for longer"
        )
    arrived_s = {job.spec.job_id: job.arrived_s for job in wanted}
    windows = windows_of([arrived_s[job_id] for job_id in job_ids], from_s, history.ended_s)
    ours, theirs = (
        np.array([side.completed[job_id].jct_s for job_id in job_ids])
        for side in (active, candidate)
    )
    draws = _drawn(windows, np.random.default_rng(task.seed))
    return Evaluation(
        job_count=len(job_ids),
        left_out_count=len(wanted) - len(job_ids),
        window_s=history.ended_s - from_s,
        active=_figures(ours, active, job_ids, work_s),
        candidate=_figures(theirs, candidate, job_ids, work_s),
        avg_ratio=ratio_of(ours, theirs, _mean, draws),
        p99_ratio=ratio_of(ours, theirs, _p99, draws),
        recorded_avg_jct_s=_mean(np.array([recorded[job_id].jct_s for job_id in job_ids])),
    )


def windows_of(
    arrived_s: Sequence[float], from_s: float, until_s: float
) -> Sequence[NDArray[np.int64]]:
    """Return the positions of the jobs of each window of time that has any."""
    span_s = max(until_s - from_s, 1e-9)
    numbers = np.minimum(
        ((np.array(arrived_s) - from_s) / span_s * WINDOW_COUNT).astype(np.int64), WINDOW_COUNT - 1
    )
    return [np.flatnonzero(numbers == number) for number in np.unique(numbers)]


def ratio_of(
    active: _Floats,
    candidate: _Floats,
    figure: Callable[[_Floats], float],
    draws: Sequence[NDArray[np.int64]],
) -> Ratio:
    """Return the candidate's figure over the active policy's, and its interval over the draws."""
    ratios = [figure(candidate[drawn]) / max(figure(active[drawn]), 1e-9) for drawn in draws]
    low, high = np.percentile(ratios, _INTERVAL_PERCENT)
    value = figure(candidate) / max(figure(active), 1e-9)
    return Ratio(value=value, low=float(low), high=float(high))


def _drawn(
    windows: Sequence[NDArray[np.int64]], random: np.random.Generator
) -> Sequence[NDArray[np.int64]]:
    """Return the jobs of as many windows as there are, drawn with replacement, many times."""
    count = len(windows)
    return [
        np.concatenate([windows[number] for number in random.integers(count, size=count)])
        for _ in range(_DRAWS)
    ]


def _figures(
    jcts_s: _Floats, simulated: Simulated, job_ids: Sequence[JobId], work_s: Mapping[JobId, float]
) -> PolicyFigures:
    lost = [lost_frac(simulated.completed[job_id], work_s[job_id]) for job_id in job_ids]
    return PolicyFigures(
        avg_jct_s=_mean(jcts_s),
        p99_jct_s=_p99(jcts_s),
        lost_frac=sum(lost) / len(lost),
        preemption_count=simulated.preemption_count,
    )


def lost_frac(job: CompletedJob, work_s: float) -> float:
    """Return the share of its completion time that a job did not use for its work, 0 to 1."""
    return min(max(1.0 - work_s / max(job.jct_s, 1e-9), 0.0), 1.0)


def _mean(values: _Floats) -> float:
    return float(values.mean())


def _p99(values: _Floats) -> float:
    return float(np.percentile(values, 99))


def _history(recording: Recording, runs: Sequence[Run]) -> History:
    builder = HistoryBuilder()
    for run in runs:
        builder.begin_run(run.head.began_s)
        for entry in recording.entries(run):
            builder.apply(recording.event(entry), recording.actions(entry))
    return builder.finish()


def _speeds(task: EvaluationTask, history: History, learned: Knowledge) -> _SiteSpeeds:
    speed = SpeedPredictor(TableOfSpeeds(task.active.plugins.speeds))
    if learned.predictors is not None:
        speed.restore(learned.predictors.speed)
    racks = {
        event.node.name: event.node.rack for event in history.outside if isinstance(event, NodeSeen)
    }
    return _SiteSpeeds(speed, racks, {job.spec.job_id: job.spec for job in history.jobs})
