"""What time limits tell of run times, beyond what the history of run times knows already.

The history counts limits for jobs of one user, name and size only. But Slurm starts jobs early by
their limits (backfill), so the jobs that still wait are those of long limits, and run for longer
than jobs like them: a forecast that does not count the limit says that queues end too soon.

So for each job that ran it is asked which share of the jobs like it end before it, by the history
as it is now, and in which band its limit is: limit over expected median run time, by factors of
two. Where the history is right these shares are spread evenly. In a band in which they are not,
the expected distribution F becomes G(F), with G the distribution of the observed shares. Where
limits tell nothing, or only what the history knows, G stays even. By what the history expected when
the job came G would also correct what the history has learned since.

Method: recalibration of a predicted distribution (Kuleshov, Fenner and Ermon, ICML 2018), with a
life table over the shares, in which jobs that still run count. Page: docs/eta.md.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from roost_engine.forecast.run_time_table import RunTimeTable

_FEW_COUNT = 4.0  # so many jobs of what is assumed count beside those observed
_LIMIT_EDGES = 2.0 ** np.arange(-2, 18)  # of limit over expected median run time
_BAND_COUNT = len(_LIMIT_EDGES) + 2  # in the last no job has a limit
# Finer where run times are long: they last for as long as all others together.
_SHARES = np.array([*np.arange(10) / 10.0, 0.95, 0.98, 0.99, 0.995, 1.0])
_PRIOR = np.diff(_SHARES) / (1.0 - _SHARES[:-1])  # of those that come to a step, the part ending


class LimitEvidence:
    """The distribution of the shares, for each band of limits.

    Args:
        ran: run times of the jobs that ran of late, by the history, each at its present age.
        limits_s: of the same jobs; inf: none.
        has_ended: whether each has ended at that age.
    """

    def __init__(
        self, ran: RunTimeTable, limits_s: Sequence[float], has_ended: Sequence[bool]
    ) -> None:
        bands = _bands(np.array(limits_s, dtype=np.float64), ran.median_s())
        step_count = len(_PRIOR)
        steps = np.searchsorted(_SHARES, ran.ended_frac(), side="right") - 1
        cells = bands * step_count + np.minimum(steps, step_count - 1)
        ended, came = (
            np.bincount(cells, weights, _BAND_COUNT * step_count).reshape(_BAND_COUNT, -1)
            for weights in (np.array(has_ended, dtype=np.float64), np.ones(len(cells)))
        )
        # A job that still runs has come through the steps before its own, and not through that.
        entered = np.cumsum(came[:, ::-1], axis=1)[:, ::-1] - (came - ended)
        # A band of few jobs is taken to be like all bands, and these, if few, to be as expected.
        pooled = (ended.sum(axis=0) + _FEW_COUNT * _PRIOR) / (entered.sum(axis=0) + _FEW_COUNT)
        hazards = (ended + _FEW_COUNT * pooled) / (entered + _FEW_COUNT)
        left = np.cumprod(1.0 - hazards, axis=1)
        self._ended_fracs = np.concatenate((np.zeros((_BAND_COUNT, 1)), 1.0 - left), axis=1)
        self._ended_fracs[:, -1] = 1.0

    def applied(self, table: RunTimeTable, limits_s: Sequence[float]) -> RunTimeTable:
        """Return run times that count the limits too.

        Args:
            table: by the history.
            limits_s: of the same jobs; inf: none.
        """
        if not len(table.age_s):
            return table
        limit_s = np.array(limits_s, dtype=np.float64)
        bands = _bands(limit_s, table.median_s())
        ended_fracs = table.ended_fracs.copy()
        for band in np.unique(bands):
            rows = bands == band
            ended_fracs[rows] = np.interp(ended_fracs[rows], _SHARES, self._ended_fracs[band])
        limit_s = np.minimum(table.limit_s, limit_s)  # Slurm ends a job there, whatever is known
        return replace(table, ended_fracs=ended_fracs, limit_s=limit_s)


def _bands(limits_s: NDArray[np.float64], medians_s: NDArray[np.float64]) -> NDArray[np.int64]:
    """Return the band of each limit: 0 for less than a quarter of the median run time."""
    bands = np.searchsorted(_LIMIT_EDGES, limits_s / np.maximum(medians_s, 1.0)).astype(np.int64)
    return np.where(np.isinf(limits_s), _BAND_COUNT - 1, bands)
