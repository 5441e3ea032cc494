"""A weak estimate of the speed of jobs that report no progress: the activity of their GPUs.

The activity of a job's GPUs over 15 minutes is compared with the activity that the same run had
beside cheaper neighbours, or else with that of jobs of its kind and size that had no neighbours, on
GPUs of the same model. With x the activity now, x0 the one before, and p0 the log slowdown that was
predicted then, the log slowdown is taken to be

    p0 + log(x0 / x)        0.6 before, alone, and 0.48 now: log 1.25 = 0.22

Less activity has many other causes: another phase of the job, other data, a slower file system. So
each estimate counts as a tenth of a report, and is capped at one spread from the prediction; a pair
of kinds is corrected by 5 % at most and is never called bad; the engine is told no speed. A sample
that says idle counts as a phase of the job, not as slow.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from math import log
from typing import ClassVar, NamedTuple

from roost_engine.domain.job_kind import kind_of
from roost_engine.domain.model import JobId
from roost_engine.domain.pair_correction import PairCorrection
from roost_engine.job_record import JobRecord
from roost_engine.prediction.interference.interference_table import InterferenceTable
from roostd.telemetry.interference_file import Learned
from roostd.telemetry.learned_pairs import pairs_of
from roostd.telemetry.speed_source import Expected

WINDOW_S = 900.0
WARM_UP_S = 300.0  # of a run: it reads data and compiles
LEAST_SAMPLES = 10
_BUSY_SM_FRAC = 0.05
_LEAST_BUSY_FRAC = 0.5  # a window with fewer busy samples says nothing
_LEAST_FRAC, _MOST_FRAC = 0.05, 0.95  # below is rounding, NVML counts in percent; above, saturation
_CHEAPER = 0.01  # earlier neighbours count as cheaper by this log slowdown
MOST_NUDGE = 0.05  # below the 5 % of speed for which a gate waits
_ALONE = Expected(0.0, 0.05)  # as the model's own answer for a job without neighbours
_NEW_PART = 0.2  # of a window in what is known of a kind alone
_MOST_RUNS = 10_000
_MOST_REFERENCES = 5_000  # two numbers each in the file


class Activity(NamedTuple):
    """Means over the GPUs of a job; `memory_frac` None: not reported."""

    sm_frac: float
    memory_frac: float | None


@dataclass(slots=True)
class ActivityWindow:
    """The samples since `began_s`, in engine time."""

    began_s: float
    sample_count: int = 0
    busy_count: int = 0
    sm_sum: float = 0.0
    memory_sum: float | None = 0.0
    first: Activity | None = None
    has_varied: bool = False

    def add(self, activity: Activity) -> None:
        """Count a sample; of one that is idle only that it was so."""
        self.sample_count += 1
        self.first = self.first or activity
        self.has_varied = self.has_varied or activity != self.first
        if activity.sm_frac < _BUSY_SM_FRAC:
            return
        self.busy_count += 1
        self.sm_sum += activity.sm_frac
        if activity.memory_frac is None or self.memory_sum is None:
            self.memory_sum = None
        else:
            self.memory_sum += activity.memory_frac

    def mean(self) -> Activity | None:
        """Return the means of the busy samples.

        None: there are too few samples, most are idle, or all are the same to the last bit, as of a
        counter that is stuck.
        """
        is_known = self.sample_count >= LEAST_SAMPLES and self.has_varied
        if not is_known or self.busy_count < _LEAST_BUSY_FRAC * self.sample_count:
            return None
        memory = None if self.memory_sum is None else self.memory_sum / self.busy_count
        return Activity(self.sm_sum / self.busy_count, memory)


def slowdown_between(now: Activity, before: Activity, gpu_count: int) -> float | None:
    """Return the log of how much less active GPUs are than before; negative: more active.

    Memory activity is compared, which follows the bytes that a step moves; without it SM activity,
    of jobs of one GPU only: kernels of NCCL that wait for other GPUs count as activity there.

    Returns:
        None where nothing can be compared: not reported, hardly any, or saturated.
    """
    compared = [(now.memory_frac, before.memory_frac)]
    if gpu_count == 1:
        compared.append((now.sm_frac, before.sm_frac))
    for value, reference in compared:
        if value is None or reference is None or value <= 0.0:
            continue
        if _LEAST_FRAC <= reference <= _MOST_FRAC:
            return log(reference / value)
    return None


class _Before(NamedTuple):
    """A window to compare with, what was predicted then, and the jobs beside."""

    mean: Activity
    predicted: float
    neighbours: frozenset[JobId]


@dataclass(slots=True)
class _Run:
    """One run of a job.

    Attributes:
        started_s: of the run; another start is another run.
        neighbours: the jobs on its nodes.
        window: its samples beside them.
        cheapest: the window with the cheapest neighbours so far.
        estimate: the newest log slowdown; None: there is none beside these neighbours.
    """

    started_s: float
    neighbours: frozenset[JobId]
    window: ActivityWindow
    cheapest: _Before | None = None
    estimate: float | None = None


@dataclass(slots=True)
class ActivityTracker:
    """See the module, and telemetry.speed_source."""

    is_estimate: ClassVar[bool] = True
    weight: ClassVar[float] = 0.1
    error_floor: ClassVar[float] = 0.2  # causes of less activity that all estimates share
    table: InterferenceTable = field(default_factory=InterferenceTable)
    model: str = ""
    report_count: int = 0
    fault: str = ""
    _runs: dict[JobId, _Run] = field(default_factory=dict)
    _alone: dict[str, Activity] = field(default_factory=dict)

    def add(
        self,
        record: JobRecord,
        gpu_model: str,
        neighbours: frozenset[JobId],
        activity: Activity,
        at_s: float,
        expect: Callable[[], Expected | None],
    ) -> None:
        """Count a sample of a running job, and learn from its window where that is over.

        Args:
            record: of the job, which shares no GPU.
            gpu_model: of its GPUs.
            neighbours: the other jobs on its nodes.
            activity: of its GPUs.
            at_s: engine time.
            expect: returns what was predicted; asked only where a window is learned from.
        """
        started_s = record.started_s
        if started_s is None or at_s - started_s < WARM_UP_S:
            return
        run = self._runs.get(record.job_id)
        if run is None or run.started_s != started_s:
            run = self._begin(record.job_id, _Run(started_s, neighbours, ActivityWindow(at_s)))
        if run.neighbours != neighbours:
            run.neighbours, run.window, run.estimate = neighbours, ActivityWindow(at_s), None
        run.window.add(activity)
        if at_s - run.window.began_s < WINDOW_S:
            return
        mean, run.window = run.window.mean(), ActivityWindow(at_s)
        if mean is None:
            return
        found = expect() if neighbours else _ALONE
        if found is not None:
            self._learn(record, f"{record.spec.gpu_count} {gpu_model}", run, mean, found)

    def estimate(self, record: JobRecord) -> float | None:
        """Return the log slowdown of a running job beside its present neighbours; None: unknown."""
        run = self._runs.get(record.job_id)
        return run.estimate if run is not None and run.started_s == record.started_s else None

    def keep(self, job_ids: frozenset[JobId]) -> None:
        """Forget the runs of all other jobs."""
        self._runs = {job_id: run for job_id, run in self._runs.items() if job_id in job_ids}

    def use_model(self, name: str) -> None:
        """Learn against the predictions of this model; what was learned against another is lost."""
        if name != self.model and self.table.state().rows:
            self.table.restore(Learned().table)
        self.model = name

    def pairs(self) -> tuple[PairCorrection, ...]:
        """See SpeedSource."""
        return tuple(
            replace(pair, mean=min(max(pair.mean, -MOST_NUDGE), MOST_NUDGE), is_bad=False)
            for pair in pairs_of(self.table.state())
        )

    def learned(self) -> Learned:
        """See SpeedSource; the activities of kinds alone are in `best`."""
        best = {f"sm {key}": found.sm_frac for key, found in self._alone.items()}
        for key, found in self._alone.items():
            if found.memory_frac is not None:
                best[f"memory {key}"] = found.memory_frac
        return Learned(self.model, self.table.state(), best)

    def restore(self, learned: Learned) -> None:
        """See SpeedSource."""
        self.model = learned.model
        self.table.restore(learned.table)
        self._alone = {
            key: Activity(sm_frac, learned.best.get(f"memory {key}"))
            for name, sm_frac in learned.best.items()
            for quantity, _, key in (name.partition(" "),)
            if quantity == "sm"
        }

    def _learn(
        self, record: JobRecord, on: str, run: _Run, mean: Activity, found: Expected
    ) -> None:
        """Learn from a window.

        Args:
            record: of the job.
            on: how many GPUs it has, and their model.
            run: of the job.
            mean: of the window.
            found: what was predicted of the window.
        """
        kind = kind_of(record.spec)
        before = self._before(f"{on} {kind}", run, found)
        if run.cheapest is None or found.mean <= run.cheapest.predicted:
            run.cheapest = _Before(mean, found.mean, run.neighbours)
        if not run.neighbours:
            self._note_alone(f"{on} {kind}", mean)
        if before is None:
            return
        slowdown = slowdown_between(mean, before.mean, record.spec.gpu_count)
        if slowdown is None:
            return
        self.report_count += 1
        observed = before.predicted + slowdown
        run.estimate = observed if run.neighbours else None
        off_by = min(max(observed - found.mean, -found.spread), found.spread)
        self.table.learn(
            kind, found.beside, found.mean, found.spread, found.mean + off_by, weight=self.weight
        )

    def _before(self, key: str, run: _Run, found: Expected) -> _Before | None:
        """Return what a window is compared with: one of its run, else those of its kind alone."""
        cheapest, alone = run.cheapest, self._alone.get(key)
        is_other = cheapest is not None and cheapest.neighbours != run.neighbours
        if cheapest is not None and is_other and found.mean > cheapest.predicted + _CHEAPER:
            return cheapest
        return None if alone is None else _Before(alone, 0.0, frozenset())

    def _note_alone(self, key: str, mean: Activity) -> None:
        """Average a window of a job without neighbours into what is known of its kind."""
        before = self._alone.pop(key, mean)
        memory = None
        if mean.memory_frac is not None and before.memory_frac is not None:
            memory = before.memory_frac + _NEW_PART * (mean.memory_frac - before.memory_frac)
        sm_frac = before.sm_frac + _NEW_PART * (mean.sm_frac - before.sm_frac)
        self._alone[key] = Activity(sm_frac, memory)
        while len(self._alone) > _MOST_REFERENCES:
            del self._alone[next(iter(self._alone))]

    def _begin(self, job_id: JobId, run: _Run) -> _Run:
        self._runs.pop(job_id, None)
        self._runs[job_id] = run
        while len(self._runs) > _MOST_RUNS:
            del self._runs[next(iter(self._runs))]
        return run
