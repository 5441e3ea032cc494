"""Run times of many jobs at once: a life table for each, and quantiles of all in one call."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from roost_engine.prediction.run_time.run_times import BAND_COUNT, ENDS_S, STARTS_S, RunTimes

_STARTS_S, _ENDS_S = np.array(STARTS_S), np.array(ENDS_S)
_SHORTEST_S = 1.0
_OLDER_THAN_ALL = 1e-9  # so small a share of the jobs still runs that the table tells nothing


@dataclass(frozen=True, slots=True, eq=False)
class RunTimeTable:
    """The run times of jobs, see RunTimes.

    Attributes:
        ended_fracs: float64 [job, band], the share of such jobs that have ended by the band's end.
        age_s: float64 [job].
        limit_s: float64 [job]; inf: none.
    """

    ended_fracs: NDArray[np.float64]
    age_s: NDArray[np.float64]
    limit_s: NDArray[np.float64]

    @classmethod
    def of(cls, times: Sequence[RunTimes]) -> "RunTimeTable":
        """Make the table of some jobs."""
        ending = np.array([each.ending_fracs for each in times]).reshape(-1, BAND_COUNT)
        limits_s = [np.inf if each.limit_s is None else each.limit_s for each in times]
        return cls(
            np.cumsum(ending, axis=1),
            np.array([max(each.age_s, 0.0) for each in times], dtype=np.float64),
            np.array(limits_s, dtype=np.float64),
        )

    def rest_s(self, fracs: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return remaining run times, float64 [job], in seconds at full speed, 1 or more.

        Args:
            fracs: float64 [job], 0 to 1: of the jobs that came so far, this share ends earlier.
        """
        age_s, jobs = self.age_s, np.arange(len(self.age_s))
        own = np.maximum(np.searchsorted(_STARTS_S, age_s, side="right") - 1, 0)
        gone = self._ended_at(jobs, own, age_s)
        wanted = gone + fracs * (1.0 - gone)
        band = np.minimum((self.ended_fracs < wanted[:, None]).sum(axis=1), BAND_COUNT - 1)
        before, share = self._band(jobs, band)
        inside = np.clip((wanted - before) / np.maximum(share, 1e-12), 0.0, 1.0)
        whole_s = _STARTS_S[band] + inside * (_ENDS_S[band] - _STARTS_S[band])
        # Older than any job: it is expected to run for as long again.
        whole_s = np.where(1.0 - gone < _OLDER_THAN_ALL, age_s * (1.0 + 2.0 * fracs), whole_s)
        rest_s: NDArray[np.float64] = np.minimum(whole_s, self.limit_s) - age_s
        return np.maximum(rest_s, _SHORTEST_S)

    def _ended_at(
        self, jobs: NDArray[np.int64], band: NDArray[np.int64], age_s: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """Return the share of such jobs that have ended by an age in a band."""
        before, share = self._band(jobs, band)
        inside = (age_s - _STARTS_S[band]) / (_ENDS_S[band] - _STARTS_S[band])
        found: NDArray[np.float64] = before + share * np.clip(inside, 0.0, 1.0)
        return np.minimum(found, 1.0)

    def _band(
        self, jobs: NDArray[np.int64], band: NDArray[np.int64]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return the shares that end before a band, and in it."""
        before = np.where(band > 0, self.ended_fracs[jobs, np.maximum(band - 1, 0)], 0.0)
        return before, self.ended_fracs[jobs, band] - before
