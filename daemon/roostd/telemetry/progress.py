"""What jobs report of their own progress: checked, turned into speeds, and learned from.

A job's rate is its steps over the time between two reports at least 20 s apart. Its speed is that
rate over the best rate that jobs of its kind, one user's jobs of one name and size, have had here;
so a first run has speed 1 until it has been faster. A user can report what is not true: that
changes only the rates of that user's kinds, and a speed never below what a prior spread allows.
"""

from collections.abc import Callable
from dataclasses import dataclass
from math import exp
from typing import ClassVar

from roost_engine.domain.events import SpeedSeen
from roost_engine.domain.job_kind import kind_of
from roost_engine.domain.model import JobId, JobSpec
from roost_engine.domain.pair_correction import PairCorrection
from roost_engine.job_record import JobRecord
from roost_engine.prediction.interference.interference_model import PRIOR_SPREAD
from roost_engine.prediction.interference.interference_table import InterferenceTable
from roostd.telemetry.interference_file import Learned
from roostd.telemetry.learned_pairs import pairs_of
from roostd.telemetry.speed_source import Expected

_WINDOW_S = 20.0
_REPORT_EVERY_S = 60.0
_CHANGED_FRAC = 0.05
_MOST_STEPS_PER_S = 1e5  # beyond that a count is wrong, or not of training steps
_MOST_KINDS = 10_000
LEAST_SPEED_FRAC = exp(-3.0 * PRIOR_SPREAD)


@dataclass(slots=True)
class _Run:
    """The last reports of one run. Times are engine time.

    Attributes:
        started_s: of the run; another start is another run.
        step_count, at_s: where the window begins.
        reported_frac, reported_s: the speed reported last, and when; None: none was.
        predicted: the log slowdown that was predicted then; None: none was.
    """

    started_s: float
    step_count: int
    at_s: float
    reported_frac: float | None = None
    reported_s: float = 0.0
    predicted: float | None = None


@dataclass(frozen=True, slots=True)
class Verdict:
    """What became of one report.

    Attributes:
        reason: why it was not used; empty where it was.
        speed: the event for the engine; None: nothing new.
    """

    reason: str = ""
    speed: SpeedSeen | None = None


class ProgressTracker:
    """See the module, and telemetry.speed_source.

    Attributes:
        table, model, report_count, fault: as of every SpeedSource.
        model_fault: why the model is not asked; empty where it is.
    """

    is_estimate: ClassVar[bool] = False
    weight: ClassVar[float] = 1.0
    error_floor: ClassVar[float] = 0.0

    def __init__(self) -> None:
        self.table = InterferenceTable()
        self.model, self.report_count = "", 0
        self.fault = self.model_fault = ""
        self._runs: dict[JobId, _Run] = {}
        self._best: dict[str, float] = {}  # steps per second, by kind and size

    def report(
        self,
        record: JobRecord,
        uid: int,
        step_count: int,
        at_s: float,
        expect: Callable[[], Expected | None],
    ) -> Verdict:
        """Check one report, and learn from it.

        Args:
            record: of the job.
            uid: of the process that reported.
            step_count: since the start of the run.
            at_s: engine time.
            expect: returns what was predicted; asked only where the report is learned from.
        """
        if uid != record.spec.user_id:
            return Verdict(f"uid {uid} is not the owner of the job")
        if record.started_s is None or not record.is_on_gpus:
            return Verdict("the job does not run")
        run = self._runs.get(record.job_id)
        if run is None or run.started_s != record.started_s:
            self._begin(record.job_id, _Run(record.started_s, step_count, at_s))
            return Verdict()
        if step_count < run.step_count:
            run.step_count, run.at_s = step_count, at_s
            return Verdict("fewer steps than before; counted from here")
        took_s = at_s - run.at_s
        if took_s < _WINDOW_S:
            return Verdict()
        rate = (step_count - run.step_count) / took_s
        run.step_count, run.at_s = step_count, at_s
        if rate > _MOST_STEPS_PER_S:
            return Verdict(f"{rate:.3g} steps per second are not believed")
        return Verdict(speed=self._learn(record, run, rate, at_s, expect))

    def predicted_loss(self, record: JobRecord) -> float | None:
        """Return the share of its speed that a run was predicted to lose when it last reported.

        None where it has not reported, or nothing was predicted.
        """
        run = self._runs.get(record.job_id)
        if run is None or run.predicted is None or run.started_s != record.started_s:
            return None
        return max(1.0 - exp(-run.predicted), 0.0)

    def use_model(self, name: str) -> int:
        """Learn against the predictions of this model from now on.

        Returns:
            How many rows were dropped, because they are against another model.
        """
        dropped_count = 0 if name == self.model else len(self.table.state().rows)
        if dropped_count:
            self.table = InterferenceTable()
        self.model = name
        return dropped_count

    def knows(self, spec: JobSpec) -> bool:
        """Return whether a job of this kind and size has ever reported its progress."""
        return _rate_key(spec) in self._best

    def pairs(self) -> tuple[PairCorrection, ...]:
        """Return the pairs of kinds that correct decisions, the largest first."""
        return pairs_of(self.table.state())

    def learned(self) -> Learned:
        """Return what is to be known after a restart."""
        return Learned(self.model, self.table.state(), dict(self._best))

    def restore(self, learned: Learned) -> None:
        """Replace what is known by what was learned before a restart."""
        self.model, self._best = learned.model, dict(learned.best)
        self.table.restore(learned.table)

    def _learn(
        self,
        record: JobRecord,
        run: _Run,
        rate: float,
        at_s: float,
        expect: Callable[[], Expected | None],
    ) -> SpeedSeen | None:
        kind, key = kind_of(record.spec), _rate_key(record.spec)
        self.report_count += 1
        best = max(self._best.pop(key, 0.0), rate)
        self._best[key] = best  # the kind reported most recently is the last
        while len(self._best) > _MOST_KINDS:
            del self._best[next(iter(self._best))]
        speed_frac = max(rate / best, LEAST_SPEED_FRAC) if best > 0 else LEAST_SPEED_FRAC
        before = run.reported_frac
        if before is not None and (
            at_s - run.reported_s < _REPORT_EVERY_S
            or abs(speed_frac - before) <= _CHANGED_FRAC * before
        ):
            return None
        run.reported_frac, run.reported_s = speed_frac, at_s
        found = expect()
        run.predicted = None if found is None else found.mean
        if found is not None:
            self.table.observe(
                kind, found.beside, found.mean, found.spread, speed_frac, found.placement
            )
        return SpeedSeen(at_s=at_s, job_id=record.job_id, speed_frac=speed_frac)

    def _begin(self, job_id: JobId, run: _Run) -> None:
        self._runs.pop(job_id, None)
        self._runs[job_id] = run
        while len(self._runs) > _MOST_KINDS:
            del self._runs[next(iter(self._runs))]


def _rate_key(spec: JobSpec) -> str:
    return f"{spec.gpu_count} {kind_of(spec)}"
