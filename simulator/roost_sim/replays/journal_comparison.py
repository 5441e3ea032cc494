"""Compares a journal's jobs as recorded with a simulation of them under another policy."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass

from roost_engine.domain.model import JobId, Shape
from roost_engine.engine import EngineConfig
from roost_sim.catalogue.composition import Composition
from roost_sim.information.policy_information import PolicyInformation
from roost_sim.information.predictions import JobKind, Predictions
from roost_sim.information.progress import ProgressTable
from roost_sim.replays.journal_history import Fate, History, HistoryBuilder
from roost_sim.replays.recording import ModelShelf, Recording, RecordingError, policies_of
from roost_sim.replays.replay import EventCounter
from roost_sim.replays.what_if import (
    CompletedJob,
    JobFigures,
    PlacementChanges,
    Simulated,
    completed_in_record,
    figures_of,
    measured_restart_s,
    narrowed,
    placement_changes,
    simulate_history,
    work_of,
)

_NO_LIMIT_S = 365 * 86_400.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """The jobs under one policy: recorded, or simulated.

    Attributes:
        placement_changes: against the record; None: this column is the record.
        preemptions: how often jobs were preempted; None in the record.
        late_starts: compared jobs that start after the end of the journal, when no job arrives
            any more and the cluster empties.
        all_jobs: compared jobs and jobs that had not ended at the end of the journal; None in the
            record.
        all_avg_wait_s, all_avg_jct_s: of all_jobs.
    """

    policy: str
    figures: JobFigures
    placement_changes: PlacementChanges | None = None
    preemptions: int | None = None
    late_starts: int = 0
    all_jobs: int | None = None
    all_avg_wait_s: float | None = None
    all_avg_jct_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class JournalComparison:
    """The recorded jobs beside their simulations.

    Attributes:
        history: what the journal recorded.
        recorded: what happened.
        repeated: a simulation of the recorded policy: its difference from the record is the error
            of the simulation. None: the recorded model is not available, see `repeated_fault`.
        repeated_fault: why the recorded policy was not simulated; "" where it was.
        simulated: the other policy.
        start_delay_s: from a placement to the start, in both simulations.
        unplaced: jobs that ended in the record and not in every simulation; they are not compared.
    """

    history: History
    recorded: Column
    repeated: Column | None
    repeated_fault: str
    simulated: Column
    start_delay_s: float
    unplaced: int

    def fates(self) -> dict[str, int]:
        """Count the recorded jobs by fate."""
        counts = Counter(job.fate for job in self.history.jobs)
        return {fate.value: counts[fate] for fate in Fate}


def read_history(recording: Recording, progress: EventCounter) -> History:
    """Read the history of jobs and nodes from all runs of a journal.

    Raises:
        RecordingError: the journal is damaged.
    """
    builder = HistoryBuilder()
    for run in recording.runs:
        builder.begin_run(run.head.began_s)
        for entry in recording.entries(run):
            builder.apply(recording.event(entry), recording.actions(entry))
            progress(1)
    return builder.finish()


def compare_with(
    recording: Recording,
    history: History,
    policy: Composition,
    models: ModelShelf,
    *,
    seed: int = 0,
) -> JournalComparison:
    """Simulate a journal's jobs under a policy, and under the policy of the journal's last run.

    Args:
        recording: the journal.
        history: read from the journal.
        policy: to compare with.
        models: where the recorded model is found.
        seed: for what the policy draws.

    Raises:
        RecordingError: no job that waited for Roost ended in the journal.
    """
    recorded = completed_in_record(history)
    if not recorded:
        raise RecordingError(
            f"{recording.path}: no job that waited for Roost has ended in it, so there is nothing"
            " to compare; take a longer journal"
        )
    run = recording.runs[-1]
    config = recording.config(run)
    delay_s = min(history.start_delay_s or 0.0, config.start_timeout_s / 2)
    other = _simulate(history, policy, config, seed, delay_s)
    again, fault = None, ""
    try:
        policies = policies_of(recording, run, models, knowledge_of=recording.runs[0])
        again = simulate_history(history, policies, config, start_delay_s=delay_s)
    except RecordingError as error:
        fault = str(error)
    everywhere = [
        job_id for job_id in other.completed if again is None or job_id in again.completed
    ]
    job_ids = [job_id for job_id in everywhere if job_id in recorded]
    happened = figures_of([recorded[job_id] for job_id in job_ids], other.cluster)
    pairs = _Pairs(job_ids, everywhere, recorded, history.ended_s)
    return JournalComparison(
        history=history,
        recorded=Column(policy=run.head.policy, figures=happened),
        repeated=None if again is None else pairs.column(run.head.policy, again),
        repeated_fault=fault,
        simulated=pairs.column(policy.name, other),
        start_delay_s=delay_s,
        unplaced=len(recorded) - len(job_ids),
    )


@dataclass(frozen=True, slots=True)
class _Pairs:
    """The compared jobs, and all jobs that end in every simulation; every column has this order."""

    job_ids: Sequence[JobId]
    everywhere: Sequence[JobId]
    recorded: Mapping[JobId, CompletedJob]
    ended_s: float

    def column(self, name: str, simulated: Simulated) -> Column:
        completed = [simulated.completed[job_id] for job_id in self.job_ids]
        every = [simulated.completed[job_id] for job_id in self.everywhere]
        return Column(
            policy=name,
            figures=figures_of(completed, simulated.cluster),
            all_jobs=len(every),
            all_avg_wait_s=sum(job.wait_s for job in every) / len(every) if every else None,
            all_avg_jct_s=sum(job.jct_s for job in every) / len(every) if every else None,
            placement_changes=placement_changes(self.job_ids, self.recorded, simulated.completed),
            preemptions=simulated.preemption_count,
            late_starts=sum(job.started_s > self.ended_s for job in completed),
        )


def _simulate(
    history: History, policy: Composition, config: EngineConfig, seed: int, delay_s: float
) -> Simulated:
    largest = history.largest_node_gpu_count()

    def shapes(asked: tuple[Shape, ...]) -> tuple[Shape, ...]:
        return narrowed(asked, policy.shapes(asked[0].gpu_count, largest))

    information = _information(history, seed)
    return simulate_history(
        history,
        policy.build(information),
        policy.engine_config(config),
        shapes=shapes,
        may_stop_any=True,
        start_delay_s=delay_s,
        progress=information.progress,
    )


def _information(history: History, seed: int) -> PolicyInformation:
    """What the policy may know: true run times for oracles, what the site knew for the others."""
    work_s = work_of(history)
    limits_s = {
        job.spec.job_id: job.spec.time_limit_s or _NO_LIMIT_S  # Slurm's UNLIMITED
        for job in history.jobs
    }
    progress = ProgressTable()
    return PolicyInformation(
        work_s=work_s,
        seed=seed,
        predict=lambda: Predictions(_kinds(history), progress),
        progress=progress,
        limits=lambda: limits_s,
        restart_s=measured_restart_s,
        cluster_gpu_count=max(history.gpu_count(), 1),
        partitions=tuple(sorted({job.spec.partition for job in history.jobs})),
    )


def _kinds(history: History) -> dict[JobId, JobKind]:
    specs = [job.spec for job in history.jobs]
    return {
        spec.job_id: JobKind(spec.user_id, spec.model or spec.name, spec.gpu_count)
        for spec in specs
    }


def comparison_document(comparison: JournalComparison) -> dict[str, object]:
    """Return the JSON object of a comparison. Page: docs/simulator/replay.md."""
    history, repeated = comparison.history, comparison.repeated
    return {
        "recorded_s": history.ended_s - history.began_s,
        "jobs": comparison.fates(),
        "compared": comparison.recorded.figures.jobs,
        "unplaced": comparison.unplaced,
        "outsiders": history.outsider_count,
        "load_samples_left_out": history.load_count,
        "start_delay_s": comparison.start_delay_s,
        "recorded": _column_document(comparison.recorded),
        "repeated": None if repeated is None else _column_document(repeated),
        "simulated": _column_document(comparison.simulated),
    }


def _column_document(column: Column) -> dict[str, object]:
    """The JSON object of a column; its `moves` are the placement changes."""
    named = {"placement_changes": "moves"}
    return {named.get(name, name): value for name, value in asdict(column).items()}
