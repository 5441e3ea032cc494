"""A history of run times that is wrong, old, or of another site: what bad predictions cost."""

from collections import deque
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from math import floor, log

import numpy as np
from numpy.typing import NDArray

from roost_engine.domain.model import JobId, JobSpec
from roost_engine.prediction.run_time.history import RunTimeHistory
from roost_engine.prediction.run_time.history_kinds import KnownKind
from roost_engine.prediction.run_time.history_state import HistoryState
from roost_engine.prediction.run_time.run_times import BAND_COUNT, ENDS_S, STARTS_S, RunTimes
from roost_sim.worlds.prediction_spec import PredictionSpec

_LN_BAND = log(ENDS_S[-1] / STARTS_S[-1])  # bands grow by this factor


class AlteredHistory(RunTimeHistory):
    """A history of run times, altered as a PredictionSpec says.

    A job keeps its random factor: another factor at each question would be noise that averages out.

    Args:
        spec: what is altered.
        seed: for the factors.
        reads_limits: see RunTimeHistory.
    """

    def __init__(self, spec: PredictionSpec, seed: int, reads_limits: bool = True) -> None:
        super().__init__(reads_limits)
        self._sigma, self._stale_s, self._seed = spec.sigma, spec.stale_s, seed
        self._learns = spec.other_site is None
        self._unknown = deque[tuple[float, Callable[[], None]]]()  # reports, the oldest first
        if spec.other_site is not None:
            super().restore(spec.other_site.history)

    def begin(self, job: JobSpec, age_s: float, speed_frac: float, at_s: float) -> None:
        """See RunTimeHistory."""
        self._report(at_s, partial(super().begin, job, age_s, speed_frac, at_s))

    def pause(self, job_id: JobId, age_s: float, at_s: float) -> None:
        """See RunTimeHistory."""
        self._report(at_s, partial(super().pause, job_id, age_s, at_s))

    def add(self, job: JobSpec, run_s: float, at_s: float) -> None:
        """See RunTimeHistory."""
        self._report(at_s, partial(super().add, job, run_s, at_s))

    def times(self, job: JobSpec, age_s: float, at_s: float) -> RunTimes:
        """Return how long a job may run, by what is known, times the job's factor."""
        known = super().times(job, age_s, self._as_of(at_s))
        if not self._sigma:
            return known
        number = int.from_bytes(str(job.job_id).encode()[-8:])  # a generator is seeded by integers
        rng = np.random.default_rng([self._seed, number])
        factor_ln = self._sigma * float(rng.standard_normal())
        return replace(known, ending_fracs=moved(known.ending_fracs, factor_ln / _LN_BAND))

    def known_kinds(self, job: JobSpec, at_s: float) -> tuple[KnownKind, ...]:
        """Return what is known of the kinds of a job; the factor is not in it."""
        return super().known_kinds(job, self._as_of(at_s))

    def restore(self, state: HistoryState) -> None:
        """See RunTimeHistory; another site's history stays."""
        if self._learns:
            super().restore(state)

    def _report(self, at_s: float, apply: Callable[[], None]) -> None:
        if self._learns:
            self._unknown.append((at_s, apply))
            self._as_of(at_s)

    def _as_of(self, at_s: float) -> float:
        """Apply the reports that are known by now. Returns the time up to which they are known."""
        known_s = at_s - self._stale_s
        while self._unknown and self._unknown[0][0] <= known_s:
            self._unknown.popleft()[1]()
        return known_s if self._learns else at_s + self._stale_s


def moved(fracs: NDArray[np.float64], band_count: float) -> NDArray[np.float64]:
    """Shift a distribution by a number of bands; a part of a band divides it between two.

    Example: [1, 0, 0, ...] by 1.25 is [0, 0.75, 0.25, ...].

    Args:
        fracs: float64 [band].
        band_count: bands to shift by, below 0 to earlier ones; what would leave the first or last
            band stays in it.

    Returns:
        float64 [band], with the same sum.
    """
    whole = floor(band_count)
    part = band_count - whole
    found = np.zeros(BAND_COUNT)
    for step, share in ((whole, 1.0 - part), (whole + 1, part)):
        bands = np.clip(np.arange(BAND_COUNT) + step, 0, BAND_COUNT - 1)
        np.add.at(found, bands, share * fracs)
    return found
