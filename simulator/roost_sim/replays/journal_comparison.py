"""What a journal's jobs came to, and what they would have under another policy, side by side."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass

from roost_engine.domain.model import JobId, Shape
from roost_engine.engine import EngineConfig
from roost_sim.catalogue.compositions import Composition, Knowledge
from roost_sim.information.predictions import JobKind, Predictions
from roost_sim.information.progress import ProgressBook
from roost_sim.replays.journal_history import Fate, History, HistoryTaker
from roost_sim.replays.recording import ModelShelf, Recording, RecordingError, policies_of
from roost_sim.replays.replay import Progress
from roost_sim.replays.what_if import (
    Figures,
    Moves,
    Simulated,
    Spell,
    figures_of,
    measured_restart_s,
    moves_of,
    narrowed,
    recorded_spells,
    simulate_history,
    work_of,
)

_NO_LIMIT_S = 365 * 86_400.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """One way in which the jobs went.

    Attributes:
        moves: against the record; None: it is the record.
        preemptions: how often a job was stopped; None in the record.
        late_starts: compared jobs that start after the end of the journal, when no job arrives
            any more and the cluster empties.
        all_jobs: those too that had not ended when the journal did; None in the record.
        all_avg_wait_s, all_avg_jct_s: of these.
    """

    policy: str
    figures: Figures
    moves: Moves | None = None
    preemptions: int | None = None
    late_starts: int = 0
    all_jobs: int | None = None
    all_avg_wait_s: float | None = None
    all_avg_jct_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """Recorded beside simulated.

    Attributes:
        history: what the journal tells.
        recorded: what happened.
        repeated: the recorded policy, simulated as the other one is: where it differs from the
            record, the simulation does. None: its model is not at hand, as `repeated_fault` says.
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
        """How many jobs ended, and so on, by the record."""
        counts = Counter(job.fate for job in self.history.jobs)
        return {fate.value: counts[fate] for fate in Fate}


def read_history(recording: Recording, progress: Progress) -> History:
    """Gather what happened from all runs of a journal.

    Raises:
        RecordingError: the journal is damaged.
    """
    taker = HistoryTaker()
    for run in recording.runs:
        taker.begin_run(run.head.began_s)
        for entry in recording.entries(run):
            taker.take(recording.event(entry), recording.actions(entry))
            progress(1)
    return taker.finish()


def compare_with(
    recording: Recording,
    history: History,
    policy: Composition,
    models: ModelShelf,
    *,
    seed: int = 0,
) -> Comparison:
    """Simulate a journal's jobs under a policy, and under the one of its last run.

    Args:
        recording: the journal.
        history: what was gathered from it.
        policy: the other one.
        models: where the recorded model is found.
        seed: of what the policy draws.

    Raises:
        RecordingError: no job that Roost was asked for ended in it.
    """
    recorded = recorded_spells(history)
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
    everywhere = [job_id for job_id in other.spells if again is None or job_id in again.spells]
    job_ids = [job_id for job_id in everywhere if job_id in recorded]
    happened = figures_of([recorded[job_id] for job_id in job_ids], other.cluster)
    pairs = _Pairs(job_ids, everywhere, recorded, history.ended_s)
    return Comparison(
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
    """The compared jobs, and all that end in every simulation, in one order for every column."""

    job_ids: Sequence[JobId]
    everywhere: Sequence[JobId]
    recorded: Mapping[JobId, Spell]
    ended_s: float

    def column(self, name: str, simulated: Simulated) -> Column:
        spells = [simulated.spells[job_id] for job_id in self.job_ids]
        every = [simulated.spells[job_id] for job_id in self.everywhere]
        return Column(
            policy=name,
            figures=figures_of(spells, simulated.cluster),
            all_jobs=len(every),
            all_avg_wait_s=sum(spell.wait_s for spell in every) / len(every) if every else None,
            all_avg_jct_s=sum(spell.jct_s for spell in every) / len(every) if every else None,
            moves=moves_of(self.job_ids, self.recorded, simulated.spells),
            preemptions=simulated.preemption_count,
            late_starts=sum(spell.started_s > self.ended_s for spell in spells),
        )


def _simulate(
    history: History, policy: Composition, config: EngineConfig, seed: int, delay_s: float
) -> Simulated:
    largest = history.largest_node_gpu_count()

    def shapes(asked: tuple[Shape, ...]) -> tuple[Shape, ...]:
        return narrowed(asked, policy.shapes(asked[0].gpu_count, largest))

    knowledge = _knowledge(history, seed)
    return simulate_history(
        history,
        policy.build(knowledge),
        policy.engine_config(config),
        shapes=shapes,
        start_delay_s=delay_s,
        book=knowledge.book,
    )


def _knowledge(history: History, seed: int) -> Knowledge:
    """What a policy may ask of run times: oracles the truth, others what the site knew."""
    work_s = work_of(history)
    limits_s = {
        job.spec.job_id: job.spec.time_limit_s or _NO_LIMIT_S  # Slurm's UNLIMITED
        for job in history.jobs
    }
    book = ProgressBook()
    return Knowledge(
        work_s=work_s,
        seed=seed,
        predict=lambda: Predictions(_kinds(history), book),
        book=book,
        limits=lambda: limits_s,
        restart_s=measured_restart_s,
        cluster_gpu_count=max(history.gpu_count(), 1),
    )


def _kinds(history: History) -> dict[JobId, JobKind]:
    specs = [job.spec for job in history.jobs]
    return {
        spec.job_id: JobKind(spec.user_id, spec.model or spec.name, spec.gpu_count)
        for spec in specs
    }


def comparison_document(comparison: Comparison) -> dict[str, object]:
    """The JSON object of a comparison. Page: docs/simulator/replay.md."""
    history, repeated = comparison.history, comparison.repeated
    return {
        "recorded_s": history.ended_s - history.began_s,
        "jobs": comparison.fates(),
        "compared": comparison.recorded.figures.jobs,
        "unplaced": comparison.unplaced,
        "outsiders": history.outsider_count,
        "load_samples_left_out": history.load_count,
        "start_delay_s": comparison.start_delay_s,
        "recorded": asdict(comparison.recorded),
        "repeated": None if repeated is None else asdict(repeated),
        "simulated": asdict(comparison.simulated),
    }
