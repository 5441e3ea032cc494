"""Predicts run times by the site's own history: a life table for each kind of jobs.

Users run similar jobs repeatedly (Hu et al., Helios, SC 2021). The kinds of a job go from wide to
narrow: all jobs, then those of its partition and QoS, its number of GPUs, its account, its user,
and its name. Of each kind the table knows by bands of age

    h(b) = (ended(b) + FEW · h'(b)) / (entered(b) + FEW)

ended(b): jobs that ended in band b; entered(b): jobs that reached band b, running ones included;
h': the same of the next wider kind. So a kind with few jobs is predicted like the next wider one,
and a new user like all users. Jobs that still run count in each band that they have left: without
them long jobs would look short for as long as they run. Counts fade with time, and those of narrow
kinds also with each later job, because users change what they run. Each end is spread over
neighbouring bands: the next run of the same job is a little longer or shorter.

Source of the table: Cutler and Ederer, J. Chronic Diseases 8, 1958. The numbers were chosen on
public traces, Helios of June 2020 and Philly of November 2017. Pages: docs/order.md and
docs/results/runtimes.md.
"""

from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache
from heapq import heapify, heappop, heappush
from math import inf, isfinite
from typing import Any

import numpy as np
from numpy.typing import NDArray

from roost_engine.domain.model import JobId, JobSpec
from roost_engine.prediction.noted_dict import NotedDict
from roost_engine.prediction.run_time.history_kinds import (
    CACHE_LIMIT,
    KEPT_FRAC,
    Kind,
    KindSums,
    KnownKind,
    WatchedRun,
    kinds_of,
    user_size_kind,
)
from roost_engine.prediction.run_time.history_state import LAST_COUNT, HistoryState
from roost_engine.prediction.run_time.run_times import (
    BAND_COUNT,
    ENDS_S,
    STARTS_S,
    RunTimes,
    band_of,
)

FEW_COUNT = 4.0
SPREAD = (0.6, 0.15, 0.05)  # share of an end in its own band, and in each band beside it

KINDS_TABLE, RUNNING_TABLE = "history", "history-running"

_LEAST_FADE_FRAC = 1e-9  # counts of more than a year ago are as good as 0
_PRIOR_RUN_S = 3_600.0  # before any job has ended
_MOST_KINDS = 20_000
_MOST_KINDS_OF_USER = 500
_MOST_RUNNING = 100_000
_FEW_STALE = 1_000  # entries that may be out of date before the heap is built again
_FIRST_BAND = band_of(60.0)  # jobs that run for less are only counted as they end


def _spread_rows() -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """By band of an end: what it adds to `ended` and to `entered`, float64 [band, band]."""
    ended = np.zeros((BAND_COUNT, BAND_COUNT))
    for band in range(BAND_COUNT):
        for step, share in enumerate(SPREAD):
            for beside in {band - step, band + step}:
                ended[band, min(max(beside, 0), BAND_COUNT - 1)] += share
    return ended, np.cumsum(ended[:, ::-1], axis=1)[:, ::-1].copy()


_ENDED_ROWS, _ENTERED_ROWS = _spread_rows()


def _prior_hazards() -> NDArray[np.float64]:
    lengths_s = np.array(ENDS_S) - np.array(STARTS_S)
    hazards: NDArray[np.float64] = 1.0 - np.exp(
        -lengths_s / np.maximum(_PRIOR_RUN_S, np.array(STARTS_S))
    )
    hazards[-1] = 1.0
    return hazards


_PRIOR = _prior_hazards()


class RunTimeHistory:
    """What is known of how long jobs run.

    Args:
        reads_limits: whether time limits say something about run times: whether jobs of another
            limit are of another kind, and whether a job is expected to end by its limit.
    """

    def __init__(self, reads_limits: bool = True) -> None:
        self._reads_limits = reads_limits
        self._kinds = NotedDict[str, KindSums]()  # the kind reported most recently is the last
        self._narrow: dict[str, dict[str, None]] = {}  # by user, the kinds of that user, as above
        self._running = NotedDict[JobId, WatchedRun]()
        self._running_of: dict[int, dict[JobId, None]] = {}  # by user
        self._due: list[tuple[float, JobId]] = []  # when jobs leave their bands; a heap
        # What `times` has answered at one engine time, while no count has changed: passes, gate and
        # preemption ask about the same jobs again after each event of that time.
        self._answers: dict[tuple[tuple[Kind, ...], float, float | None], RunTimes] = {}
        self._answered_s = -inf

    # -- learning ----------------------------------------------------------------------------

    def begin(self, job: JobSpec, age_s: float, speed_frac: float, at_s: float) -> None:
        """Note that a job runs from now on, at this fraction of its full speed."""
        self._advance(at_s)
        age_s = _time_or_zero_s(age_s)
        band = max(band_of(age_s), _FIRST_BAND)
        known = self._running.get(job.job_id)
        run = WatchedRun(
            user_id=job.user_id,
            kinds=kinds_of(job, self._reads_limits),
            since_s=at_s,
            age_s=age_s,
            speed_frac=max(min(1.0, speed_frac), 1e-3),  # 1 if it is not a number
            band=band if known is None else max(band, known.band),
        )
        self._running[job.job_id] = run
        self._running_of.setdefault(job.user_id, {})[job.job_id] = None
        self._await_end_of_band(job.job_id, run)
        if len(self._running) > _MOST_RUNNING:
            self.forget(next(iter(self._running)))

    def _await_end_of_band(self, job_id: JobId, run: WatchedRun) -> None:
        if run.leaves_band:
            heappush(self._due, (run.next_s(), job_id))
        # Each restart of a job leaves an entry behind that is out of date.
        if len(self._due) > 2 * len(self._running) + _FEW_STALE:
            self._await_all()

    def _await_all(self) -> None:
        self._due = [(run.next_s(), job) for job, run in self._running.items() if run.leaves_band]
        heapify(self._due)

    def pause(self, job_id: JobId, age_s: float, at_s: float) -> None:
        """Note that a job does not run now."""
        if (run := self._running.get(job_id)) is not None and run.speed_frac:
            run.age_s, run.since_s, run.speed_frac = _time_or_zero_s(age_s), at_s, 0.0
            self._running.note(job_id)

    def forget(self, job_id: JobId) -> None:
        """Forget a job that left without running: nothing is learned."""
        self._unwatch(job_id)

    def _unwatch(self, job_id: JobId) -> WatchedRun | None:
        run = self._running.discard(job_id)
        if run is not None and (jobs := self._running_of.get(run.user_id)) is not None:
            jobs.pop(job_id, None)
            if not jobs:
                del self._running_of[run.user_id]
        return run

    def add(self, job: JobSpec, run_s: float, at_s: float) -> None:
        """Count a job that ended; a run time that is negative or not finite is dropped.

        Args:
            job: whose user, name and so on count.
            run_s: how long it would have run at full speed.
            at_s: engine time.
        """
        run = self._unwatch(job.job_id)
        if not (isfinite(run_s) and run_s >= 0):
            return
        self._advance(at_s)
        self._answers.clear()
        band = band_of(run_s)
        counted = _FIRST_BAND if run is None else run.band
        ended, entered = _ENDED_ROWS[band], _ENTERED_ROWS[band]
        if run is not None and counted > _FIRST_BAND:
            entered = entered.copy()
            entered[:counted] = 0.0  # there it was counted while it ran
        for kind in kinds_of(job, self._reads_limits) if run is None else run.kinds:
            sums = self._take(kind.name)
            sums.fade(at_s, kind.kept_frac)
            sums.ended += ended
            sums.entered += entered
            # What was counted while it ran may have faded below what now ended.
            np.maximum(sums.entered, sums.ended, out=sums.entered)
            sums.last_s = (*sums.last_s, run_s)[-LAST_COUNT:]
        self._prune()

    def _advance(self, at_s: float) -> None:
        """Count the running jobs that have left bands since."""
        while self._due and self._due[0][0] <= at_s:
            due_s, job_id = heappop(self._due)
            run = self._running.get(job_id)
            if run is None or not run.leaves_band or run.next_s() != due_s:
                continue
            self._answers.clear()
            for kind in run.kinds:
                sums = self._kinds.get(kind.name)
                if sums is None:
                    sums = self._take(kind.name)
                    sums.at_s = due_s
                self._kinds.note(kind.name)
                if run.band == _FIRST_BAND:  # before, it was counted nowhere
                    sums.entered[: _FIRST_BAND + 1] += 1.0
                else:
                    sums.entered[run.band] += 1.0  # a tenth of what a slice of one costs
            run.band += 1
            self._running.note(job_id)
            self._await_end_of_band(job_id, run)
        self._prune()

    def _take(self, kind: str) -> KindSums:
        """Return the sums of a kind, which is now the one reported last."""
        sums = self._kinds.discard(kind) or KindSums()
        self._kinds[kind] = sums
        if (user := _user_of(kind)) is not None:
            narrow = self._narrow.setdefault(user, {})
            narrow.pop(kind, None)
            narrow[kind] = None
            if len(narrow) > _MOST_KINDS_OF_USER:
                self._drop(next(iter(narrow)))
        return sums

    def _prune(self) -> None:
        while len(self._kinds) > _MOST_KINDS:
            self._drop(next(iter(self._kinds)))

    def _drop(self, kind: str) -> None:
        self._kinds.discard(kind)
        self._answers.clear()
        user = _user_of(kind)
        if user is not None and (narrow := self._narrow.get(user)) is not None:
            narrow.pop(kind, None)
            if not narrow:
                del self._narrow[user]

    # -- predicting --------------------------------------------------------------------------

    def times(self, job: JobSpec, age_s: float, at_s: float) -> RunTimes:
        """Return how long a job may run, by the jobs like it.

        Args:
            job: as Slurm shows it.
            age_s: seconds at full speed that it has run.
            at_s: engine time.
        """
        kinds = kinds_of(job, self._reads_limits)
        limit_s = _limit_s(job) if self._reads_limits else None
        if self._answered_s != at_s:
            self._answered_s = at_s
            self._answers.clear()
        key = kinds, age_s, limit_s
        found = self._answers.get(key)
        if found is None:
            found = self._answers[key] = self._times(kinds, age_s, limit_s, at_s)
        return found

    def _times(
        self, kinds: tuple[Kind, ...], age_s: float, limit_s: float | None, at_s: float
    ) -> RunTimes:
        hazards, is_of_user = _PRIOR, False
        narrowest: KindSums | None = None
        fade = 1.0
        for kind in kinds:
            sums = self._kinds.get(kind.name)
            if sums is None:
                continue
            is_of_user |= kind.kept_frac < KEPT_FRAC
            fade = max(sums.fade_frac(at_s), _LEAST_FADE_FRAC)
            few = FEW_COUNT / fade  # the counts would have to be multiplied otherwise
            wider = hazards * few
            wider += sums.ended
            wider /= sums.entered + few
            hazards, narrowest = wider, sums
        job_count = 0.0 if narrowest is None else float(narrowest.entered[0]) * fade
        return RunTimes(fracs_of(hazards), age_s, limit_s, job_count, is_of_user)

    def knows_size_of_user(self, job: JobSpec) -> bool:
        """Return whether a job of the same user with as many GPUs has ended."""
        kind = user_size_kind(job)
        sums = None if kind is None else self._kinds.get(kind)
        return sums is not None and bool(sums.last_s)

    def known_kinds(self, job: JobSpec, at_s: float) -> tuple[KnownKind, ...]:
        """Return what is known of each kind that a job is of, in the order of `kinds_of`."""
        found: list[KnownKind] = []
        hazards = _PRIOR
        for kind in kinds_of(job, self._reads_limits):
            sums = self._kinds.get(kind.name)
            if sums is None:
                found.append(KnownKind(hazards))
                continue
            fade = sums.fade_frac(at_s)
            hazards = (sums.ended * fade + FEW_COUNT * hazards) / (sums.entered * fade + FEW_COUNT)
            since_s = max(at_s - sums.at_s, 0.0)
            found.append(KnownKind(hazards, float(sums.entered[0]) * fade, since_s, sums.last_s))
        return tuple(found)

    def running_ages_s(self, user_id: int, at_s: float) -> list[float]:
        """Return the ages of a user's jobs that run or are stopped, in seconds at full speed."""
        runs = (self._running[job_id] for job_id in self._running_of.get(user_id, ()))
        return [run.age_s + max(at_s - run.since_s, 0.0) * run.speed_frac for run in runs]

    # -- state -------------------------------------------------------------------------------

    def state(self) -> HistoryState:
        """Return everything learned, as plain data."""
        return HistoryState.of(self._kinds, self._running)

    def tables(self) -> Mapping[str, NotedDict[Any, Any]]:
        """Return everything learned as it is now, by name of the table."""
        return {KINDS_TABLE: self._kinds, RUNNING_TABLE: self._running}

    def restore(self, state: HistoryState) -> None:
        """Restore what `state` returned, in place of everything learned since."""
        self._kinds, self._narrow = NotedDict(), {}
        self._answers.clear()
        rows = zip(state.at_s, state.ended, state.entered, strict=True)
        for kind, (at_s, ended, entered) in zip(state.kinds, rows, strict=True):
            sums = self._take(kind)
            sums.at_s = float(at_s)
            sums.ended, sums.entered = ended.astype(np.float64), entered.astype(np.float64)
        for kind, last_s in zip(state.kinds, state.last_s.tolist(), strict=False):
            if (known := self._kinds.get(kind)) is not None:
                known.last_s = tuple(run_s for run_s in reversed(last_s) if run_s >= 0)
        self._running = NotedDict((job_id, replace(run)) for job_id, run in state.running)
        self._running_of = {}
        for job_id, run in state.running:
            self._running_of.setdefault(run.user_id, {})[job_id] = None
        self._await_all()
        self._kinds.take_notes()  # nothing has changed since


def fracs_of(hazards: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the share of all jobs that ends in each band; what is left ends in the last."""
    stays = (1.0 - hazards).cumprod()
    fracs = hazards.copy()
    later = fracs[1:]
    later *= stays[:-1]
    fracs[-1] += stays[-1]
    return fracs


@lru_cache(CACHE_LIMIT)
def _user_of(kind: str) -> str | None:
    """Return the user of a kind that is a part of that user's jobs; None for other kinds."""
    first, _, others = kind.partition(" ")
    user, more, _ = others.partition(" ")
    return user if first == "user" and more else None


def _time_or_zero_s(value_s: float) -> float:
    """Return a time; 0 where it is negative, infinite or not a number."""
    return value_s if isfinite(value_s) and value_s > 0 else 0.0


def _limit_s(job: JobSpec) -> float | None:
    limit_s = job.time_limit_s
    return limit_s if limit_s is not None and isfinite(limit_s) and limit_s > 0 else None
