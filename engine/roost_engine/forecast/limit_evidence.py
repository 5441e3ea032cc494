"""What time limits tell of run times, beyond what the history of run times knows already.

The history counts limits for jobs of one user, name and size only. But Slurm starts jobs early by
their limits (backfill), so the jobs that still wait are those of long limits, and run for longer
than jobs like them: a forecast that does not count the limit says that queues end too soon.

So for each job that ran it is noted which share of the jobs like it had been expected to end
before it, and in which band its limit was: limit over expected median run time, by factors of two.
Where the history is right these shares are spread evenly. In a band in which they are not, the
expected distribution F becomes G(F), with G the distribution of the observed shares. Where limits
tell nothing, or only what the history knows, G stays even.

Method: recalibration of a predicted distribution (Kuleshov, Fenner and Ermon, ICML 2018), with a
life table over the shares, in which jobs that still run count. Page: docs/eta.md.
"""

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from roost_engine.forecast.run_time_table import RunTimeTable
from roost_engine.prediction.run_time.run_times import RunTimes

_FEW_COUNT = 10.0  # so many jobs of each band count as if the history had been right
_LIMIT_EDGES = [2.0**power for power in range(-2, 11)]  # of limit over expected median run time
_BAND_COUNT = len(_LIMIT_EDGES) + 2  # in the last no job has a limit
# Finer where run times are long: they last for as long as all others together.
_SHARES = np.array([*np.arange(10) / 10.0, 0.95, 0.98, 1.0])
_PRIOR = np.diff(_SHARES) / (1.0 - _SHARES[:-1])  # of those that come to a step, the part ending


class ObservedRun(NamedTuple):
    """A job that ran, or runs.

    Attributes:
        band: of its limit.
        share: of the jobs like it were expected to end by its age.
        has_ended: at that age.
    """

    band: int
    share: float
    has_ended: bool


def limit_band(limit_s: float | None, times: RunTimes) -> int:
    """Return the band of a job's time limit.

    Args:
        limit_s: None: it has none.
        times: what is expected of the job before it runs.
    """
    if limit_s is None:
        return _BAND_COUNT - 1
    return bisect_left(_LIMIT_EDGES, limit_s / max(_whole(times).quantile_s(0.5), 1.0))


def observed_run(band: int, times: RunTimes, done_s: float, *, has_ended: bool) -> ObservedRun:
    """Return what a job shows by its present age.

    Args:
        band: of its limit.
        times: what was expected of it when it came.
        done_s: seconds at full speed that it has run.
        has_ended: whether it has ended.
    """
    return ObservedRun(band, _whole(times).ends_within_frac(done_s), has_ended)


class LimitEvidence:
    """The distribution of the shares, for each band of limits.

    Args:
        runs: the jobs that ran of late.
    """

    def __init__(self, runs: Sequence[ObservedRun] = ()) -> None:
        found = np.array(runs, dtype=np.float64).reshape(-1, 3)
        step_count = len(_PRIOR)
        steps = np.searchsorted(_SHARES, found[:, 1], side="right") - 1
        cells = found[:, 0].astype(np.int64) * step_count + np.minimum(steps, step_count - 1)
        ended, came = (
            np.bincount(cells, weights, _BAND_COUNT * step_count).reshape(_BAND_COUNT, -1)
            for weights in (found[:, 2], np.ones(len(found)))
        )
        # A job that still runs has come through the steps before its own, and not through that.
        entered = np.cumsum(came[:, ::-1], axis=1)[:, ::-1] - (came - ended)
        hazards = (ended + _FEW_COUNT * _PRIOR) / (entered + _FEW_COUNT)
        left = np.cumprod(1.0 - hazards, axis=1)
        self._ended_fracs = np.concatenate((np.zeros((_BAND_COUNT, 1)), 1.0 - left), axis=1)
        self._ended_fracs[:, -1] = 1.0
        self._is_known = came.sum(axis=1) > 0.0

    def applied(self, table: RunTimeTable, limits_s: Iterable[float]) -> RunTimeTable:
        """Return run times that count the limits too.

        Args:
            table: by the history.
            limits_s: of the same jobs; inf: none.
        """
        if not len(table.age_s):
            return table
        bands = _bands(np.array(list(limits_s), dtype=np.float64), table.median_s())
        ended_fracs = table.ended_fracs.copy()
        for band in np.unique(bands):
            if self._is_known[band]:
                rows = bands == band
                found = np.interp(ended_fracs[rows], _SHARES, self._ended_fracs[band])
                ended_fracs[rows] = found
        return replace(table, ended_fracs=ended_fracs)


def _whole(times: RunTimes) -> RunTimes:
    return replace(times, age_s=0.0, limit_s=None)


def _bands(limits_s: NDArray[np.float64], medians_s: NDArray[np.float64]) -> NDArray[np.int64]:
    """Return the bands of many limits, see limit_band; an infinite one is none."""
    bands = np.searchsorted(_LIMIT_EDGES, limits_s / np.maximum(medians_s, 1.0)).astype(np.int64)
    return np.where(np.isinf(limits_s), _BAND_COUNT - 1, bands)
