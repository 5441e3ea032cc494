"""95 % confidence intervals of means over a few seeds.

Means: Student's t interval. Ratios of two policies: a bootstrap over seeds; a seed has the figures
of both policies, since both ran the same jobs.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt

import numpy as np
from numpy.typing import NDArray

RESAMPLES = 10_000
_BOOTSTRAP_SEED = 20_240_901  # fixed: the same figures must give the same interval
_Z975 = 1.959963984540054
# Upper 2.5 % points of Student's t for 1 to 30 degrees of freedom.
# Source: Abramowitz and Stegun, Handbook of Mathematical Functions, table 26.10.
# fmt: off
_T975 = (
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228,
    2.201, 2.179, 2.160, 2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086,
    2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042,
)
# fmt: on


@dataclass(frozen=True, slots=True)
class Interval:
    """A 95 % confidence interval."""

    low: float
    high: float


@dataclass(frozen=True, slots=True)
class SeedMean:
    """A mean over seeds with its confidence interval.

    Attributes:
        mean: over the seeds that have the figure.
        ci95: None: one seed has no spread.
        least, most: smallest and largest value of a seed.
    """

    mean: float
    ci95: Interval | None
    least: float
    most: float


def mean_of(values: Sequence[float]) -> SeedMean | None:
    """Return mean and Student's t interval of independent values; None if there is none."""
    if not values:
        return None
    count = len(values)
    mean = sum(values) / count
    interval = None
    if count > 1:
        variance = sum((value - mean) ** 2 for value in values) / (count - 1)
        half = t975(count - 1) * sqrt(variance / count)
        interval = Interval(mean - half, mean + half)
    return SeedMean(mean, interval, min(values), max(values))


def ratio_of(values: Sequence[float], baseline: Sequence[float]) -> SeedMean | None:
    """Return the mean of the ratios of paired values, with the bootstrap percentile interval.

    Args:
        values: one for each seed.
        baseline: of the same seeds, in the same order.

    Returns:
        None if there is no pair, or a baseline is 0.
    """
    if not values or not all(baseline):
        return None
    ratios = [value / other for value, other in zip(values, baseline, strict=True)]
    count = len(ratios)
    mean = sum(ratios) / count
    interval = None if count == 1 else _bootstrap(np.asarray(ratios))
    return SeedMean(mean, interval, min(ratios), max(ratios))


def t975(freedom: int) -> float:
    """Return the point that Student's t exceeds with probability 2.5 %, to three digits.

    Source: from 31 degrees of freedom on Abramowitz and Stegun, formula 26.7.5, three terms.
    """
    if freedom < 1:
        raise ValueError(f"want 1 degree of freedom or more, got {freedom}")
    if freedom <= len(_T975):
        return _T975[freedom - 1]
    z = _Z975
    first = (z**3 + z) / 4
    second = (5 * z**5 + 16 * z**3 + 3 * z) / 96
    return z + first / freedom + second / freedom**2


def _bootstrap(ratios: NDArray[np.float64]) -> Interval:
    rng = np.random.default_rng(_BOOTSTRAP_SEED)
    count = len(ratios)
    drawn = rng.integers(0, count, size=(count, RESAMPLES))
    totals = np.zeros(RESAMPLES)
    for row in drawn:  # row by row: the order of additions must not depend on the processor
        totals += ratios[row]
    low, high = np.quantile(totals / count, (0.025, 0.975)).tolist()
    return Interval(low, high)
