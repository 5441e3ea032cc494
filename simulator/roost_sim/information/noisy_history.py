"""A history whose predictions are wrong by a random factor: what bad predictions cost."""

from dataclasses import replace
from math import floor, log

import numpy as np
from numpy.typing import NDArray

from roost_engine.domain.model import JobSpec
from roost_engine.prediction.history import RunTimeHistory
from roost_engine.prediction.run_times import BAND_COUNT, ENDS_S, STARTS_S, RunTimes

_LN_BAND = log(ENDS_S[-1] / STARTS_S[-1])  # bands grow by this factor


class NoisyHistory(RunTimeHistory):
    """See RunTimeHistory; it learns as that does.

    A job keeps its factor: another factor at each question would be noise that averages out.

    Args:
        sigma: of the normal distribution of the factor's logarithm.
        seed: for the factors.
        reads_limits: see RunTimeHistory.
    """

    def __init__(self, sigma: float, seed: int, reads_limits: bool = True) -> None:
        super().__init__(reads_limits)
        self._sigma, self._seed = sigma, seed

    def times(self, job: JobSpec, age_s: float, at_s: float) -> RunTimes:
        """Return how long a job may run, times its factor."""
        known = super().times(job, age_s, at_s)
        number = int.from_bytes(str(job.job_id).encode()[-8:])
        rng = np.random.default_rng([self._seed, number])
        factor_ln = self._sigma * float(rng.standard_normal())
        return replace(known, ending_fracs=moved(known.ending_fracs, factor_ln / _LN_BAND))


def moved(fracs: NDArray[np.float64], band_count: float) -> NDArray[np.float64]:
    """Move a distribution over bands by so many, later or earlier; between two it is divided.

    Args:
        fracs: float64 [band].
        band_count: bands to move by; what would leave the first or last band stays in it.

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
