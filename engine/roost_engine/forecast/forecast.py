"""When each job will start and end: quantiles over many plays of the queue.

A play draws the run time of each job from its distribution, and the jobs still to come from the
recent past: a stretch of it comes again, with the run times that its jobs had. Jobs of one user run
alike, so their draws are correlated (a Gaussian copula): with independent draws the errors would
cancel out, and the intervals would be too narrow.
"""

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from math import erf, inf, isfinite, sqrt
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from roost_engine.domain.model import JobId
from roost_engine.forecast.play import Entrant, Play
from roost_engine.forecast.preempting_play import PreemptingPlay
from roost_engine.forecast.run_time_table import RunTimeTable
from roost_engine.forecast.snapshot import PastArrival, Snapshot

INTERVAL_FRAC = 0.8
DAY_S = 86_400.0
_SOON_S = 60.0  # added before logarithms are taken: seconds do not matter
_FEW_PLAYS = 12
_FACTOR_OF_ONE_PLAY = 4.0
# Student's 90 % quantiles for 1, 2, ... degrees of freedom.
_STUDENT = (3.078, 1.886, 1.638, 1.533, 1.476, 1.440, 1.415, 1.397, 1.383, 1.372)


class Draws(Protocol):
    """What of numpy's random generators is used: the caller has the seed."""

    def standard_normal(self, size: int) -> NDArray[np.float64]:
        """Return so many numbers from a normal distribution."""

    def random(self) -> float:
        """Return a number from 0 to below 1."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ForecastConfig:
    """The numbers of a forecast; how they were chosen: docs/eta.md.

    Attributes:
        kind_frac: of the variance of a draw, this share is common to jobs of one kind.
        user_frac: and this share to all jobs of one user.
        common_frac: and this share to all jobs.
        horizon_s: so far ahead a play looks.
        most_events: after so many ends and arrivals a play stops; later starts are not known.
        fewest_arrivals: with fewer jobs in the recent past none are expected.
    """

    kind_frac: float = 0.3
    user_frac: float = 0.1
    common_frac: float = 0.09
    horizon_s: float = 14 * DAY_S
    most_events: int = 6_000
    fewest_arrivals: int = 10


@dataclass(frozen=True, slots=True)
class Quantiles:
    """A time that is not certain, in seconds from now; inf: later than the plays went.

    Attributes:
        low_s: 10 % of the plays are earlier; always finite.
        median_s: half of the plays are.
        high_s: 90 % of the plays are.
    """

    low_s: float
    median_s: float
    high_s: float


@dataclass(frozen=True, slots=True)
class JobForecast:
    """What is expected of one job.

    Attributes:
        start: None: it runs already.
        end: of its run.
        run: how long it will run; None: it runs already.
        earliest_s: it does not start sooner, because of its begin time; seconds from now.
    """

    start: Quantiles | None
    end: Quantiles
    run: Quantiles | None = None
    earliest_s: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Forecast:
    """What is expected of every job.

    Attributes:
        at_s: engine time of the snapshot.
        play_count: how often the queue was played.
        jobs: by id, the waiting ones in the order in which they are expected to start.
    """

    at_s: float
    play_count: int
    jobs: dict[JobId, JobForecast] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, eq=False)
class Outcome:
    """One play: engine times, float64 [job], of the waiting jobs.

    Attributes:
        start_s: inf: not before `until_s`.
        until_s: so far the play went.
    """

    until_s: float
    start_s: NDArray[np.float64]
    end_s: NDArray[np.float64]


def plays(snapshot: Snapshot, config: ForecastConfig, draws: Draws) -> Iterator[Outcome]:
    """Yield one play after another, without an end."""
    kinds = np.array([(job.kind, job.user) for job in snapshot.running]).reshape(-1, 2)
    waiting_kinds = np.array([(job.kind, job.user) for job in snapshot.waiting]).reshape(-1, 2)
    both = np.concatenate((kinds, waiting_kinds)).astype(np.int64)
    speed_frac = np.array([job.speed_frac for job in snapshot.running])
    while True:
        fracs = _correlated(both, config, draws)
        rest_s = snapshot.running_times.rest_s(fracs[: len(kinds)]) / speed_frac
        run_s = snapshot.waiting_times.rest_s(fracs[len(kinds) :])
        waiting = _waiting(snapshot, run_s.tolist())
        to_come = _to_come(snapshot, config, draws)
        kind = Play if snapshot.displacing is None else PreemptingPlay
        play = kind(snapshot, rest_s.tolist(), waiting, to_come)
        found_s = play.starts_s(snapshot.at_s + config.horizon_s, config.most_events)
        start_s = np.array(found_s, dtype=np.float64)
        yield Outcome(play.at_s, start_s, start_s + run_s)


def forecast(snapshot: Snapshot, outcomes: Sequence[Outcome]) -> Forecast:
    """Return the quantiles over some plays, at least one."""
    at_s = snapshot.at_s
    until_s = [outcome.until_s for outcome in outcomes]
    starts = _quantiles([outcome.start_s for outcome in outcomes], until_s, at_s)
    ends = _quantiles([outcome.end_s for outcome in outcomes], until_s, at_s)
    speed_frac = np.array([job.speed_frac for job in snapshot.running])
    jobs = {
        job.job_id: JobForecast(None, end)
        for job, end in zip(
            snapshot.running, _rest_quantiles(snapshot.running_times, speed_frac), strict=True
        )
    }
    runs = _rest_quantiles(snapshot.waiting_times, np.ones(len(starts)))
    for row in sorted(range(len(starts)), key=lambda row: (starts[row].median_s, row)):
        job = snapshot.waiting[row]
        earliest_s = max(job.not_before_s - at_s, 0.0)
        jobs[job.job_id] = JobForecast(starts[row], ends[row], runs[row], earliest_s)
    return Forecast(at_s=at_s, play_count=len(outcomes), jobs=jobs)


def _rest_quantiles(times: RunTimeTable, speed_frac: NDArray[np.float64]) -> list[Quantiles]:
    """Return how long each job still runs, from the distributions themselves."""
    low_frac = (1.0 - INTERVAL_FRAC) / 2.0
    fracs, rows = (low_frac, 0.5, 1.0 - low_frac), np.ones(len(speed_frac))
    found = [(times.rest_s(rows * frac) / speed_frac).tolist() for frac in fracs]
    return [Quantiles(*times_s) for times_s in zip(*found, strict=True)]


def _quantiles(
    times_s: Sequence[NDArray[np.float64]], until_s: Sequence[float], at_s: float
) -> list[Quantiles]:
    """Return the quantiles of each job over plays.

    With 20 plays the second and the last but one are the bounds. Of few plays the bounds are those
    of a Student distribution: the 80 % prediction interval of a further draw, of logarithms.
    """
    table = np.array(times_s)
    reached = np.array(until_s)[:, None]
    # A play that stopped earlier still tells that a job did not start until then.
    known = np.sort(np.where(np.isinf(table), reached, table), axis=0) - at_s
    table = np.sort(table, axis=0) - at_s
    count = len(table)
    middle = _between(table, (count - 1) / 2.0)
    if count < _FEW_PLAYS:
        factors = _spread_factors(np.maximum(known, 0.0))
        low = (
            known.mean(axis=0) if count == 1 else (_middle_of(known) + _SOON_S) / factors - _SOON_S
        )
        high = (middle + _SOON_S) * factors - _SOON_S
        high = np.where(np.isinf(table).any(axis=0), inf, high)
    else:
        row = (1.0 - INTERVAL_FRAC) / 2.0 * (count + 1) - 1.0
        low, high = _between(known, row), _between(table, count - 1 - row)
    return [
        Quantiles(max(low_s, 0.0), max(middle_s, 0.0), max(high_s, 0.0))
        for low_s, middle_s, high_s in zip(
            low.tolist(), middle.tolist(), high.tolist(), strict=True
        )
    ]


def _middle_of(table: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the median of each column of a sorted table."""
    return _between(table, (len(table) - 1) / 2.0)


def _spread_factors(times_s: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return by which factor a further draw may lie above or below the middle."""
    count = len(times_s)
    if count < 2:
        return np.full(times_s.shape[1], _FACTOR_OF_ONE_PLAY)
    spread = np.log(times_s + _SOON_S).std(axis=0, ddof=1) * sqrt(1.0 + 1.0 / count)
    factors: NDArray[np.float64] = np.exp(_STUDENT[min(count - 1, len(_STUDENT)) - 1] * spread)
    return factors


def _between(table: NDArray[np.float64], row: float) -> NDArray[np.float64]:
    """Return a row of a sorted table, or what lies between two of them."""
    below = int(row)
    share = row - below
    first: NDArray[np.float64] = table[below]
    if share < 1e-9:
        return first
    second: NDArray[np.float64] = table[below + 1]
    with np.errstate(invalid="ignore"):  # between two infinite times
        found = first * (1.0 - share) + second * share
    return np.where(np.isinf(second), inf, found)


def _correlated(
    kinds: NDArray[np.int64], config: ForecastConfig, draws: Draws
) -> NDArray[np.float64]:
    """Return one share for each job, 0 to 1, alike for jobs that are alike."""
    count = len(kinds)
    own = draws.standard_normal(count)
    shared = draws.standard_normal(int(kinds.max(initial=0)) + 2)
    common = sqrt(config.common_frac) * draws.standard_normal(1)
    own_frac = max(1.0 - config.kind_frac - config.user_frac - config.common_frac, 0.0)
    level = sqrt(own_frac) * own + common
    level += sqrt(config.kind_frac) * shared[kinds[:, 0]]
    level += sqrt(config.user_frac) * shared[kinds[:, 1]]
    alone = kinds[:, 0] < 0
    level[alone] = sqrt(1.0 - config.common_frac) * own[alone] + common
    return np.array([0.5 + 0.5 * erf(value / sqrt(2.0)) for value in level.tolist()])


def _waiting(snapshot: Snapshot, run_s: Sequence[float]) -> list[Entrant]:
    return [
        Entrant(
            job.key,
            number,
            max(job.not_before_s, snapshot.at_s),
            job.since_s,
            job.wish,
            run_s[number],
            job.limit_s,
            job.is_stoppable,
        )
        for number, job in enumerate(snapshot.waiting)
    ]


def _to_come(snapshot: Snapshot, config: ForecastConfig, draws: Draws) -> Iterator[Entrant]:
    """Draw the jobs that will come: from some moment on, the recent past comes again and again."""
    past, since_s = snapshot.arrivals, snapshot.arrivals_since_s
    span_s = snapshot.at_s - since_s
    if len(past) < config.fewest_arrivals or span_s <= 0:
        return
    open_count = len(snapshot.arrival_times.age_s)
    own_s = snapshot.arrival_times.rest_s(_uniform(draws, open_count)).tolist()
    moment_s = since_s + draws.random() * span_s
    first = bisect_left(past, moment_s, key=lambda job: job.at_s)
    shift_s, number = snapshot.at_s - moment_s, len(snapshot.waiting)
    while shift_s < config.horizon_s + span_s:
        for job in past[first:]:
            yield _again(job, job.at_s + shift_s, number, own_s)
            number += 1
        first, shift_s = 0, shift_s + span_s


def _again(job: PastArrival, at_s: float, number: int, own_s: Sequence[float]) -> Entrant:
    run_s = job.run_s if job.run_s is not None and isfinite(job.run_s) else own_s[job.row]
    key, may_stop = job.key_at(at_s), job.is_stoppable
    return Entrant(key, number, at_s, at_s, job.wish, run_s, job.limit_s, may_stop)


def _uniform(draws: Draws, count: int) -> NDArray[np.float64]:
    values = draws.standard_normal(count).tolist()
    return np.array([0.5 + 0.5 * erf(value / sqrt(2.0)) for value in values])
