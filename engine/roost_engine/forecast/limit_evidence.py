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

from collections.abc import Iterable
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from roost_engine.forecast.run_time_table import RunTimeTable
from roost_engine.prediction.run_time.run_times import RunTimes

_FEW_COUNT = 10.0  # so many jobs of each band count as if the history had been right
_LIMIT_EDGES = 2.0 ** np.arange(-2, 11)  # of limit over median; in the last band no job has a limit
_BAND_COUNT = len(_LIMIT_EDGES) + 2
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

    @classmethod
    def of(
        cls, limit_s: float | None, times: RunTimes, done_s: float, *, has_ended: bool
    ) -> "ObservedRun":
        """Return what a job shows by its present age.

        Args:
            limit_s: its time limit; None: none.
            times: what was expected of it when it came.
            done_s: seconds at full speed that it has run.
            has_ended: whether it has ended.
        """
        whole = replace(times, age_s=0.0, limit_s=None)
        limits_s = np.array([np.inf if limit_s is None else limit_s])
        band = int(_bands(limits_s, np.array([whole.quantile_s(0.5)]))[0])
        return cls(band, whole.ends_within_frac(done_s), has_ended)


class LimitEvidence:
    """The distribution of the shares, for each band of limits.

    Args:
        runs: the jobs that ran of late.
    """

    def __init__(self, runs: Iterable[ObservedRun] = ()) -> None:
        steps = len(_PRIOR)
        ended, entered = np.zeros((_BAND_COUNT, steps)), np.zeros((_BAND_COUNT, steps))
        for band, share, has_ended in runs:
            step = min(int(np.searchsorted(_SHARES, share, side="right")) - 1, steps - 1)
            ended[band, step] += has_ended
            entered[band, : step + has_ended] += 1.0  # a running job has not come through its step
        hazards = (ended + _FEW_COUNT * _PRIOR) / (entered + _FEW_COUNT)
        left = np.cumprod(1.0 - hazards, axis=1)
        self._ended_fracs = np.concatenate((np.zeros((_BAND_COUNT, 1)), 1.0 - left), axis=1)
        self._ended_fracs[:, -1] = 1.0
        self._is_known = entered[:, 0] > 0.0

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


def _bands(limits_s: NDArray[np.float64], medians_s: NDArray[np.float64]) -> NDArray[np.int64]:
    """Return the band of each limit: 0 for less than a quarter of the median run time."""
    bands = np.searchsorted(_LIMIT_EDGES, limits_s / np.maximum(medians_s, 1.0)).astype(np.int64)
    return np.where(np.isinf(limits_s), _BAND_COUNT - 1, bands)
