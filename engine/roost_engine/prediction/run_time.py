"""Predicts the remaining run time of a job from the run times of jobs like it, ended or running.

Run times are heavy-tailed: most jobs end within minutes, and a job that has run for a day will
probably run for another. So a life table is kept, by bands of age:

    p(b) = (passed(b) + few · p'(b)) / (entered(b) + few)
    m(b) = (seconds(b) + few · m'(b)) / (entered(b) + few)
    rest = Σ over bands b from its own on of m(b) · Π over bands c before b of p(c)

entered(b): jobs that ended in band b or passed it; passed(b): jobs that passed it; seconds(b): time
that they spent in it. Running jobs count in all bands that they have passed: without them long jobs
would look short for as long as they run. p' and m': the same of the next wider kind of jobs. The
narrowest kind is the jobs of the same user and name, then those of the same timer class, then all.
Before any job is known, a job in a band is expected to run for another hour, or for as long again
as it has run, if that is more. In the last band, which has no end, m is all seconds over all ends.
Of its own band a job spends the part that remains. A job counts w = 2 ** (-age of its end /
half-life). Source: Cutler and Ederer, J. Chronic Diseases 8, 1958, except that a running job does
not count in the band that it is in.

Ages and run times are in seconds at full speed. A job with a time limit is expected to use the same
share of it as jobs like it did: run time over limit, each summed before the division, so that long
jobs weigh more.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from math import exp, inf, isfinite
from typing import Any

from roost_engine.domain.model import JobId
from roost_engine.job_record import JobRecord
from roost_engine.prediction.job_class import TimerClass
from roost_engine.prediction.noted_dict import NotedDict

HALF_LIFE_S = 7 * 86_400.0  # users change what they run from week to week
AGES_S = (0.0, 60.0, 240.0, 960.0, 3_840.0, 15_360.0, 61_440.0, 245_760.0)  # where bands begin
_LENGTHS_S = tuple(end_s - age_s for age_s, end_s in pairwise((*AGES_S, inf)))
_FEW_COUNT = 3.0
_PRIOR_RUN_S = 3_600.0  # before any job has ended
_PRIOR_LIMIT_FRAC = 0.3  # users ask for 2 to 10 times what they need
_MOST_KINDS = 10_000
_MOST_RUNNING = 100_000
_HOUR_S = (
    3_600.0  # ages of running jobs are those of the last full hour, so that they can be cached
)
_LAST = len(AGES_S) - 1
KINDS_TABLE, RUNNING_TABLE = "run-time", "run-time-running"


def _zeros() -> list[float]:
    return [0.0] * len(AGES_S)


@dataclass(slots=True)
class RunSums:
    """What is remembered of one kind of jobs: weighted sums as of `at_s`.

    Attributes:
        ended: by age, jobs that ended.
        spent_s: by age, seconds that those jobs spent.
        limit_count, limited_run_s, limit_s: of those with a time limit.
    """

    at_s: float = 0.0
    ended: list[float] = field(default_factory=_zeros)
    spent_s: list[float] = field(default_factory=_zeros)
    limit_count: float = 0.0
    limited_run_s: float = 0.0
    limit_s: float = 0.0

    def add(self, run_s: float, limit_s: float | None, at_s: float) -> None:
        """Let the sums fade until now and take in one more job."""
        fade = 2.0 ** min(0.0, (self.at_s - at_s) / HALF_LIFE_S)
        limited = 0.0 if limit_s is None else 1.0
        self.at_s = max(at_s, self.at_s)
        self.ended = [count * fade for count in self.ended]
        self.spent_s = [spent_s * fade for spent_s in self.spent_s]
        self.ended[_band(run_s)] += 1.0
        _spend(self.spent_s, run_s)
        self.limit_count = self.limit_count * fade + limited
        self.limited_run_s = self.limited_run_s * fade + run_s * limited
        self.limit_s = self.limit_s * fade + (limit_s or 0.0)

    def limit_frac(self, wider_frac: float) -> float:
        """Share of a time limit that is used, given that of the next wider kind."""
        own = self.limited_run_s / self.limit_s if self.limit_s > 0 else wider_frac
        return (own * self.limit_count + _FEW_COUNT * wider_frac) / (self.limit_count + _FEW_COUNT)


@dataclass(slots=True, kw_only=True)
class RunningJob:
    """A job that has not ended, as far as is known.

    Attributes:
        kinds: that it is of, the widest first.
        done_s: of its work, as of `since_s`.
        speed_frac: at which it is believed to run since then; 0: it waits.
    """

    kinds: tuple[str, ...]
    since_s: float
    done_s: float
    speed_frac: float

    def age_s(self, at_s: float) -> float:
        """Seconds as if at full speed that it has run."""
        return self.done_s + self.speed_frac * max(at_s - self.since_s, 0.0)


@dataclass(frozen=True, slots=True)
class RunTimeState:
    """Everything learned, as plain data."""

    kinds: tuple[tuple[str, RunSums], ...] = ()
    running: tuple[tuple[JobId, RunningJob], ...] = ()


class RunTimePredictor:
    """What is known of how long jobs run."""

    def __init__(self) -> None:
        self._kinds = NotedDict[str, RunSums]()  # the kind reported most recently is the last
        self._running = NotedDict[JobId, RunningJob]()
        self._hour_s = -inf
        self._reached: dict[str, _Reached] = {}  # by kind, as of the hour

    def begin(self, job: JobRecord, timers: TimerClass, speed_frac: float, at_s: float) -> None:
        """Take in that a job runs from now on, at so much of its full speed."""
        self._running[job.job_id] = RunningJob(
            kinds=_kinds_of(job, timers),
            since_s=at_s,
            done_s=done_s(job, at_s),
            speed_frac=speed_frac,
        )
        if len(self._running) > _MOST_RUNNING:
            self.forget(next(iter(self._running)))

    def pause(self, job: JobRecord, at_s: float) -> None:
        """Take in that a job does not run now."""
        if (known := self._running.get(job.job_id)) is not None and known.speed_frac:
            known.done_s, known.since_s, known.speed_frac = done_s(job, at_s), at_s, 0.0
            self._running.note(job.job_id)

    def forget(self, job_id: JobId) -> None:
        """A job left that did not run: it tells nothing."""
        self._running.discard(job_id)

    def add(self, job: JobRecord, timers: TimerClass, run_s: float, at_s: float) -> None:
        """Take in a job that ended; a length that is no time is dropped.

        Args:
            job: whose user, name and time limit count.
            timers: its class.
            run_s: how long it would have run at full speed.
            at_s: engine time.
        """
        self._running.discard(job.job_id)
        if not (isfinite(run_s) and run_s >= 0):
            return
        for kind in _kinds_of(job, timers):
            sums = self._kinds.discard(kind) or RunSums()
            sums.add(run_s, _limit_s(job), at_s)
            self._kinds[kind] = sums
        while len(self._kinds) > _MOST_KINDS:
            del self._kinds[next(iter(self._kinds))]

    def remaining_s(self, job: JobRecord, timers: TimerClass, at_s: float) -> float:
        """Expected seconds that a job will still run at full speed, above 0.

        With a time limit, the limit times the learned share of limits that is used, less what it
        has run, or as much again as it has run where that is more; never past its limit.
        """
        kinds = _kinds_of(job, timers)
        limit_s = _limit_s(job)
        if limit_s is None:
            return self._table(kinds, at_s).rest_s(done_s(job, at_s))
        frac, ran_s = _PRIOR_LIMIT_FRAC, job.run_s(at_s)
        for kind in kinds:
            if (sums := self._kinds.get(kind)) is not None:
                frac = sums.limit_frac(frac)
        return min(max(frac * limit_s - ran_s, ran_s), max(limit_s - ran_s, 1.0))

    def state(self) -> RunTimeState:
        """Everything learned, as plain data."""
        return RunTimeState(
            tuple((kind, _copied(sums)) for kind, sums in self._kinds.items()),
            tuple((job_id, replace(run)) for job_id, run in self._running.items()),
        )

    def tables(self) -> Mapping[str, NotedDict[Any, Any]]:
        """Return everything learned as it is now, by name of the table."""
        return {KINDS_TABLE: self._kinds, RUNNING_TABLE: self._running}

    def restore(self, state: RunTimeState) -> None:
        """Know what was known when `state` was taken, and nothing else."""
        self._kinds = NotedDict((kind, _copied(sums)) for kind, sums in state.kinds)
        self._running = NotedDict((job_id, replace(run)) for job_id, run in state.running)
        self._hour_s = -inf

    def _table(self, kinds: Sequence[str], at_s: float) -> "_LifeTable":
        """That of the last of the kinds."""
        self._age_running(at_s // _HOUR_S * _HOUR_S)
        table = _prior_table()
        for kind in kinds:
            sums, reached = self._kinds.get(kind), self._reached.get(kind)
            if sums or reached:
                table.narrow(sums or RunSums(), reached or _Reached())
        return table

    def _age_running(self, hour_s: float) -> None:
        if hour_s == self._hour_s:
            return
        self._hour_s, self._reached = hour_s, {}
        for running in self._running.values():
            age_s = running.age_s(hour_s)
            for kind in running.kinds:
                self._reached.setdefault(kind, _Reached()).add(age_s)


@dataclass(slots=True)
class _Reached:
    """How far the jobs of a kind have come that still run.

    Attributes:
        counts: by band, those that are in it.
        last_s: seconds that they spent in the last band.
    """

    counts: list[float] = field(default_factory=_zeros)
    last_s: float = 0.0

    def add(self, age_s: float) -> None:
        """Take in one of them."""
        self.counts[_band(age_s)] += 1.0
        self.last_s += max(age_s - AGES_S[_LAST], 0.0)


@dataclass(slots=True)
class _LifeTable:
    """What becomes of jobs that reach a band, by band.

    Attributes:
        passes: how many get through; of the last band it is not asked.
        mean_s: what they spend in it.
    """

    passes: list[float]
    mean_s: list[float]

    def narrow(self, sums: RunSums, reached: _Reached) -> None:
        """Replace the estimates of a kind by those of a narrower one."""
        few, wider_s = _FEW_COUNT, self.mean_s[_LAST]
        spent_s = sums.spent_s[_LAST] + reached.last_s
        self.mean_s[_LAST] = (spent_s + few * wider_s) / (sums.ended[_LAST] + few)
        ended, running = sums.ended[_LAST], reached.counts[_LAST]  # beyond the band
        for band in reversed(range(_LAST)):
            passed, entered = ended + running, ended + running + sums.ended[band]
            spent_s = sums.spent_s[band] + running * _LENGTHS_S[band]
            self.passes[band] = (passed + few * self.passes[band]) / (entered + few)
            self.mean_s[band] = (spent_s + few * self.mean_s[band]) / (entered + few)
            ended, running = ended + sums.ended[band], running + reached.counts[band]

    def rest_s(self, age_s: float) -> float:
        """Mean time that a job of this age still runs."""
        own = _band(age_s)
        left_frac = 1.0 if own == _LAST else 1.0 - (age_s - AGES_S[own]) / _LENGTHS_S[own]
        rest_s, chance = self.mean_s[own] * left_frac, self.passes[own] ** left_frac
        for band in range(own + 1, _LAST + 1):
            rest_s += chance * self.mean_s[band]
            chance *= self.passes[band]
        return rest_s


_PRIOR_MEANS_S = [max(_PRIOR_RUN_S, age_s) for age_s in AGES_S]
_PRIOR_PASSES = [
    exp(-length_s / mean_s) for length_s, mean_s in zip(_LENGTHS_S, _PRIOR_MEANS_S, strict=True)
]
_PRIOR_STAYS_S = [
    mean_s * (1.0 - frac) for mean_s, frac in zip(_PRIOR_MEANS_S, _PRIOR_PASSES, strict=True)
]


def _copied(sums: RunSums) -> RunSums:
    return replace(sums, ended=[*sums.ended], spent_s=[*sums.spent_s])


def _prior_table() -> _LifeTable:
    return _LifeTable(_PRIOR_PASSES.copy(), _PRIOR_STAYS_S.copy())


def _band(age_s: float) -> int:
    return sum(begins_s <= age_s for begins_s in AGES_S) - 1


def _spend(spent_s: list[float], age_s: float) -> None:
    """Add what a job that ended at this age spent in each band."""
    for band, (begins_s, length_s) in enumerate(zip(AGES_S, _LENGTHS_S, strict=True)):
        if age_s <= begins_s:
            return
        spent_s[band] += min(age_s - begins_s, length_s)


def done_s(job: JobRecord, at_s: float) -> float:
    """Seconds of full speed that the job has run; seconds it has run where its speed is unknown."""
    efficiency = job.efficiency(at_s)
    return job.run_s(at_s) * (min(efficiency, 1.0) if efficiency > 0 else 1.0)


def _kinds_of(job: JobRecord, timers: TimerClass) -> tuple[str, ...]:
    """The widest first."""
    spec = job.spec
    owner = () if not spec.name else (f"owner {spec.user_id} {spec.name}",)
    return "all", f"class {timers}", *owner


def _limit_s(job: JobRecord) -> float | None:
    limit_s = job.spec.time_limit_s
    return limit_s if limit_s is not None and isfinite(limit_s) and limit_s > 0 else None
