"""Corrects forecasts by how far those of the last days were from what then happened.

A play leaves things out: gates, preemption, links, users who react. What it leaves out makes whole
queues early or late together, and shows in the starts of the last days. So the error of a forecast
is kept, in units of the forecast's own spread:

    z = (ln(start + 60 s) - ln(median + 60 s)) / spread
    spread = (ln(high + 60 s) - ln(low + 60 s)) / (2 · 1.2816)

If plays were right z would be normal. The quantiles of the z that were observed take the place of
the normal ones: an interval that was too narrow becomes wider, and one that was late moves forward.
Each day counts the same, however many jobs waited, because the jobs of one queue err together; and
some days count as if plays had been right, `prior_days`, so that little is believed of few days.

A job that still waits has an error of at least the present one (Kaplan and Meier, Journal of the
American Statistical Association 53, 1958). Method: conformal prediction with weights that fade, as
in Barber et al., Annals of Statistics 51, 2023. Times are engine times in seconds.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import exp, inf, isfinite, log
from statistics import NormalDist
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from roost_engine.domain.model import JobId
from roost_engine.forecast.forecast import (
    DAY_S,
    INTERVAL_FRAC,
    Forecast,
    JobForecast,
    Quantiles,
)

_SOON_S = 60.0  # added before logarithms are taken: seconds do not matter
_LOW_FRAC = (1.0 - INTERVAL_FRAC) / 2.0
_FRACS = (_LOW_FRAC, 0.5, 1.0 - _LOW_FRAC)
_NORMAL_SPREAD = NormalDist().inv_cdf(1.0 - _LOW_FRAC)
_EDGES = np.linspace(-8.0, 8.0, 65)  # of the bins of z; errors beyond count as in the outer bins
_BIN_COUNT = len(_EDGES) - 1
_BINS_PER_SPREAD = _BIN_COUNT / (_EDGES[-1] - _EDGES[0])
_NORMAL = np.diff([NormalDist().cdf(edge) for edge in _EDGES.tolist()])

ErrorCounts = Mapping[int, tuple[int, ...]]
"""By number of the day: how many errors were in each bin of z."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CalibrationConfig:
    """The numbers of the correction; how they were chosen: docs/eta.md.

    Attributes:
        every_s: between two forecasts whose errors are kept.
        most_jobs: of one forecast.
        most_open: forecasts of jobs that still wait.
        half_life_s: a day so long ago counts half.
        prior_days: so many days count as if plays had been right.
        least_spread: of a forecast, natural logarithm: plays that all agree are not that sure.
        most_days: that are remembered.
    """

    every_s: float = 600.0
    most_jobs: int = 100
    most_open: int = 20_000
    half_life_s: float = 7 * DAY_S
    prior_days: float = 2.0
    least_spread: float = 0.25
    most_days: int = 30


class _Open(NamedTuple):
    """A forecast whose job still waits: of the logarithm of the time until the start."""

    at_s: float
    job_id: JobId
    middle: float
    spread: float

    def bin(self, start_s: float) -> int:
        """Return the bin of the error if the job starts then."""
        z = (_log(start_s - self.at_s) - self.middle) / self.spread
        return min(max(int((z - _EDGES[0]) * _BINS_PER_SPREAD), 0), _BIN_COUNT - 1)


class Calibration:
    """The errors of the last days.

    Args:
        config: the numbers.
        known: the errors that are known already; what cannot be such counts is dropped.
    """

    def __init__(
        self, config: CalibrationConfig | None = None, known: ErrorCounts | None = None
    ) -> None:
        self.config = config or CalibrationConfig()
        self._counts: dict[int, NDArray[np.float64]] = {}
        for day, counts in (known or {}).items():
            if len(counts) == _BIN_COUNT and min(counts) >= 0:
                self._counts[day] = np.array(counts, dtype=np.float64)
        self._open: list[_Open] = []
        self._noted_s = -inf

    def counts(self) -> ErrorCounts:
        """Return the errors that are known, as plain data."""
        # A thread may add a day meanwhile, where roostd stops while a forecast is corrected.
        return {day: tuple(map(int, counts)) for day, counts in list(self._counts.items())}

    def note(self, found: Forecast) -> None:
        """Keep what a forecast says, uncorrected, until its jobs start."""
        config, at_s = self.config, found.at_s
        if self._noted_s <= at_s < self._noted_s + config.every_s:
            return
        waiting = [(job_id, job.start) for job_id, job in found.jobs.items() if job.start]
        step = max(1, -(-len(waiting) // config.most_jobs))  # evenly over the queue
        if len(self._open) + len(waiting) // step > config.most_open:
            return
        self._noted_s = at_s
        for job_id, start in waiting[::step]:
            if isfinite(start.median_s):
                self._open.append(_Open(at_s, job_id, *self._scale(start)))

    def settle(self, started_s: Callable[[JobId], float | None]) -> None:
        """Apply what became of the jobs.

        Args:
            started_s: when a job started; inf: it waits; None: it left without a start.
        """
        still: list[_Open] = []
        for each in self._open:
            start_s = started_s(each.job_id)
            if start_s == inf:
                still.append(each)
            elif start_s is not None:
                day = int(each.at_s // DAY_S)
                counts = self._counts.setdefault(day, np.zeros(_BIN_COUNT))
                counts[each.bin(start_s)] += 1.0
        self._open = still
        for day in sorted(self._counts)[: -self.config.most_days]:
            del self._counts[day]

    def correct(self, found: Forecast) -> Forecast:
        """Return a forecast with the intervals that would have held the starts of the last days."""
        z = self._quantiles(found.at_s)
        jobs = {
            job_id: job if job.start is None else self._corrected(job, job.start, z)
            for job_id, job in found.jobs.items()
        }
        return Forecast(at_s=found.at_s, play_count=found.play_count, jobs=jobs)

    def _corrected(self, job: JobForecast, start: Quantiles, z: Sequence[float]) -> JobForecast:
        """Return a forecast with other quantiles of the start; the end moves with them."""
        if not isfinite(start.median_s):
            return job
        middle, spread = self._scale(start)
        low_s, median_s, high_s = (
            max(exp(middle + spread * each) - _SOON_S, job.earliest_s) for each in z
        )
        if not isfinite(start.high_s):
            high_s = inf
        end = job.end
        return JobForecast(
            Quantiles(low_s, median_s, high_s),
            Quantiles(
                max(end.low_s + low_s - start.low_s, low_s),
                max(end.median_s + median_s - start.median_s, median_s),
                inf if high_s == inf else max(end.high_s + high_s - start.high_s, high_s),
            ),
            job.run,
            job.earliest_s,
        )

    def _scale(self, start: Quantiles) -> tuple[float, float]:
        """Return the middle of a forecast and its spread, both of logarithms."""
        middle, low, high = _log(start.median_s), _log(start.low_s), _log(start.high_s)
        width = (high - low) / 2.0 if isfinite(high) else middle - low
        return middle, max(width / _NORMAL_SPREAD, self.config.least_spread)

    def _quantiles(self, at_s: float) -> Sequence[float]:
        """Return the 10 %, 50 % and 90 % quantiles of z."""
        waits: dict[int, NDArray[np.float64]] = {}
        for each in self._open:
            counts = waits.setdefault(int(each.at_s // DAY_S), np.zeros(_BIN_COUNT))
            counts[each.bin(at_s)] += 1.0
        ended, waiting = self.config.prior_days * _NORMAL, np.zeros(_BIN_COUNT)
        nothing = np.zeros(_BIN_COUNT)
        for day in sorted({*self._counts, *waits}):
            age_s = max(at_s - day * DAY_S, 0.0)
            known, open_ = self._counts.get(day, nothing), waits.get(day, nothing)
            weight = 2.0 ** (-age_s / self.config.half_life_s) / (known.sum() + open_.sum())
            ended, waiting = ended + weight * known, waiting + weight * open_
        return np.interp(_FRACS, _ended_fracs(ended, waiting), _EDGES).tolist()


def _ended_fracs(ended: NDArray[np.float64], waiting: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the share of errors below each edge of the bins, by Kaplan and Meier's estimate.

    Args:
        ended: float64 [bin], weights of errors that are known.
        waiting: float64 [bin], weights of errors that are in the bin or above.
    """
    at_risk = np.cumsum((ended + waiting)[::-1])[::-1]
    left = np.cumprod(1.0 - ended / np.maximum(at_risk, 1e-12))
    left[at_risk < 1e-9] = 0.0  # of the highest nothing more is known
    return np.concatenate(([0.0], 1.0 - left))


def _log(time_s: float) -> float:
    return log(max(time_s, 0.0) + _SOON_S) if time_s < inf else inf
