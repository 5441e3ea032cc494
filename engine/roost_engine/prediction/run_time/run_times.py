"""The distribution of a job's run time, as a life table: by bands of age, how many end in each.

A number alone hides what an order must know: whether a job ends in a minute or in a day is often
open, and then a wrong guess costs more on one side than on the other.

Bands grow by half, from 10 s to 33 days; within a band, ends are spread evenly. Ages and run times
are in seconds at full speed.
"""

from bisect import bisect_right
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

_FIRST_S, _GROWTH, _BAND_COUNT = 10.0, 1.5, 33

STARTS_S = (0.0, *(_FIRST_S * _GROWTH**step for step in range(_BAND_COUNT - 1)))
"""Where each band begins; the last has no end."""

ENDS_S = (*STARTS_S[1:], STARTS_S[-1] * _GROWTH)
"""Where each band ends; of the last band, where the ends in it are taken to be spread to."""

BAND_COUNT = len(STARTS_S)

_STARTS_S, _ENDS_S = np.array(STARTS_S), np.array(ENDS_S)
_Bands: TypeAlias = NDArray[np.float64]  # [band]
_SHORTEST_S = 1.0
_LONGEST_S = 1e9  # thirty years: ages and spans above it are no run times


def band_of(run_s: float) -> int:
    """Return the band of a run time or an age, in seconds; of a negative one the first."""
    return max(bisect_right(STARTS_S, run_s) - 1, 0)


def _sum(values: NDArray[np.float64]) -> float:
    """Return the sum, added in the same order on every machine, unlike a product of BLAS."""
    return float(np.add.reduce(values))


@dataclass(frozen=True, eq=False)
class RunTimes:
    """How long a job may run.

    Attributes:
        ending_fracs: float64 [band], 0 or more, sum 1: share of such jobs that end in the band.
        age_s: seconds at full speed that the job has run; NaN or negative counts as 0.
        limit_s: Slurm ends the job at this age; None: never.
        job_count: of similar jobs that ended, recent ones counting most: how much is known.
        is_of_user: whether jobs of the same user are among them.
    """

    ending_fracs: NDArray[np.float64]
    age_s: float = 0.0
    limit_s: float | None = None
    job_count: float = 0.0
    is_of_user: bool = True

    def __post_init__(self) -> None:
        if not 0.0 <= self.age_s <= _LONGEST_S:
            object.__setattr__(self, "age_s", _LONGEST_S if self.age_s > 0.0 else 0.0)

    def rest_s(self) -> float:
        """Return the expected remaining run time, in seconds, above 0."""
        return self._rest_s

    @cached_property
    def _rest_s(self) -> float:
        fracs, starts_s, ends_s = self._from_age
        if self.limit_s is None:
            rest_s = _sum(fracs * (starts_s + ends_s)) / 2.0 - self.age_s
        else:
            rest_s = self.rest_within_s(_LONGEST_S)
        return max(rest_s, _SHORTEST_S)

    def rest_within_s(self, span_s: float) -> float:
        """Return how many seconds of the next `span_s` the job is expected to run."""
        fracs, starts_s, ends_s = self._from_age
        if self.limit_s is not None:
            span_s = min(span_s, self.limit_s - self.age_s)
        span_s = min(max(span_s, 0.0), _LONGEST_S)
        until_s = self.age_s + span_s
        lengths_s = np.maximum(ends_s - starts_s, 1e-9)
        # Of a band that is cut, some jobs end before the cut, and the others run until it.
        cut_s = np.minimum(np.maximum(until_s - starts_s, 0.0), lengths_s)  # quicker than np.clip
        cut_fracs = cut_s / lengths_s
        inside_s = starts_s + cut_s / 2.0 - self.age_s
        return _sum(fracs * (cut_fracs * inside_s + (1.0 - cut_fracs) * span_s))

    def ends_within_frac(self, span_s: float) -> float:
        """Return the chance that the job ends in the next `span_s` seconds."""
        fracs, starts_s, ends_s = self._from_age
        if self.limit_s is not None and span_s >= self.limit_s - self.age_s:
            return 1.0
        lengths_s = np.maximum(ends_s - starts_s, 1e-9)
        ended = fracs * np.clip((self.age_s + span_s - starts_s) / lengths_s, 0.0, 1.0)
        return min(_sum(ended), 1.0)

    def quantile_s(self, frac: float) -> float:
        """Return the remaining run time, in seconds, that this share of such jobs stays below."""
        fracs, starts_s, ends_s = self._from_age
        ended = self._ended
        band = min(int(ended.searchsorted(frac)), BAND_COUNT - 1)
        before = float(ended[band - 1]) if band else 0.0
        inside_frac = min(max((frac - before) / max(float(fracs[band]), 1e-12), 0.0), 1.0)
        start_s = float(starts_s[band])
        whole_s = start_s + inside_frac * (float(ends_s[band]) - start_s)
        if self.limit_s is not None:
            whole_s = min(whole_s, self.limit_s)
        return max(whole_s - self.age_s, _SHORTEST_S)

    def best_index(self, gpu_count: int) -> float:
        """Return the Gittins index: ends per expected GPU-second, for the best span ahead.

        Source: Gittins, Journal of the Royal Statistical Society B 41, 1979; for jobs that may be
        stopped at any time, the largest index first has the shortest mean completion time on one
        machine.
        """
        fracs, starts_s, ends_s = self._from_age
        ended = np.cumsum(fracs)
        middles_s = (starts_s + ends_s) / 2.0 - self.age_s
        spent_s = np.cumsum(fracs * middles_s) + (1.0 - ended) * (ends_s - self.age_s)
        spent_s = np.maximum(spent_s, _SHORTEST_S)
        if self.limit_s is not None:
            whole = 1.0 / max(self.rest_s(), _SHORTEST_S)
            within = ends_s <= self.limit_s
            best = float(np.max(ended[within] / spent_s[within], initial=0.0))
            return max(best, whole) / max(gpu_count, 1)
        return float(np.max(ended / spent_s)) / max(gpu_count, 1)

    @cached_property
    def _ended(self) -> _Bands:
        """Share that has ended by the end of each band."""
        ended = self._from_age[0].cumsum()
        ended /= ended[-1]  # so that 1 is reached in the last band with ends, whatever is rounded
        return ended

    @cached_property
    def _from_age(self) -> tuple[_Bands, _Bands, _Bands]:
        """Shares that end in each band, given the age, and where the rest of each band lies.

        A job that is older than any other is expected to run for as long again.
        """
        age_s = self.age_s
        if age_s <= 0.0:
            return self.ending_fracs, _STARTS_S, _ENDS_S
        own = band_of(age_s)
        starts_s = np.maximum(_STARTS_S, age_s)
        ends_s = np.maximum(_ENDS_S, starts_s)
        fracs = self.ending_fracs.copy()
        fracs[:own] = 0.0
        left_frac = (ENDS_S[own] - age_s) / (ENDS_S[own] - STARTS_S[own])
        fracs[own] *= min(max(left_frac, 0.0), 1.0)
        total = float(fracs.sum())
        if total < 1e-12:
            fracs[:] = 0.0
            fracs[own] = total = 1.0
            ends_s[own] = 3.0 * age_s
        return fracs / total, starts_s, ends_s
