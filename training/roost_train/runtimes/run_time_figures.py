"""Figures of how good predictions of run times are."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from roost_engine.prediction.run_time.run_times import RunTimes

QUANTILES = (0.1, 0.25, 0.5, 0.75, 0.9)
FEW_JOBS_COUNT = 5  # a user with fewer is new


@dataclass(frozen=True, slots=True, kw_only=True)
class RunTimeFigures:
    """How good one predictor is.

    Attributes:
        predictor: its name.
        pinball_ln: mean pinball loss over QUANTILES of ln seconds; lower is better. A number
            without an interval counts as all quantiles at once.
        pinball_s: the same of seconds.
        rank: Spearman's rank correlation of medians and run times.
        inside_frac: share of run times between the 10 % and the 90 % quantile; None: no interval.
        new_user_ln_error: mean of |ln(run time / median)| over jobs of users with fewer than
            FEW_JOBS_COUNT ended jobs at submission; None: there is no such job.
        job_count: jobs that it predicted.
    """

    predictor: str
    pinball_ln: float
    pinball_s: float
    rank: float
    inside_frac: float | None
    new_user_ln_error: float | None
    job_count: int


def quantiles_s(ending_fracs: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the quantiles of some distributions.

    Args:
        ending_fracs: [job, band].

    Returns:
        [quantile, job].
    """
    times = [RunTimes(fracs) for fracs in ending_fracs]
    return np.array([[one.quantile_s(frac) for one in times] for frac in QUANTILES])


def figures(
    predictor: str,
    predicted_s: NDArray[np.float64],
    run_s: NDArray[np.float64],
    is_new_user: NDArray[np.bool_],
) -> RunTimeFigures:
    """Compare predictions with what happened.

    Args:
        predictor: its name.
        predicted_s: [quantile, job]; or [job], numbers without an interval.
        run_s: [job].
        is_new_user: [job].
    """
    is_point = predicted_s.ndim == 1
    table_s = np.broadcast_to(predicted_s, (len(QUANTILES), len(run_s)))
    table_s = np.maximum(table_s, 1.0)
    real_s = np.maximum(run_s, 1.0)
    median_s = table_s[QUANTILES.index(0.5)]
    errors = np.abs(np.log(real_s) - np.log(median_s))
    inside = (run_s >= table_s[0]) & (run_s <= table_s[-1])
    return RunTimeFigures(
        predictor=predictor,
        pinball_ln=pinball(np.log(table_s), np.log(real_s)),
        pinball_s=pinball(table_s, real_s),
        rank=rank_correlation(median_s, run_s),
        inside_frac=None if is_point else float(inside.mean()),
        new_user_ln_error=float(errors[is_new_user].mean()) if is_new_user.any() else None,
        job_count=len(run_s),
    )


def pinball(predicted: NDArray[np.float64], real: NDArray[np.float64]) -> float:
    """Return the mean pinball loss; a quantile q costs q below the truth, 1 - q above it.

    Args:
        predicted: [quantile, job].
        real: [job].
    """
    fracs = np.array(QUANTILES)[:, None]
    off = real - predicted
    return float(np.maximum(fracs * off, (fracs - 1.0) * off).mean())


def rank_correlation(one: NDArray[np.float64], two: NDArray[np.float64]) -> float:
    """Return Spearman's rank correlation, equal values sharing their ranks; 0 if one is constant.

    Source: Spearman, American Journal of Psychology 15, 1904.
    """
    ranks = [_ranks(values) - (len(values) - 1) / 2.0 for values in (one, two)]
    sizes = [float(np.sqrt(rank @ rank)) for rank in ranks]
    return float(ranks[0] @ ranks[1]) / (sizes[0] * sizes[1]) if all(sizes) else 0.0


def _ranks(values: NDArray[np.float64]) -> NDArray[np.float64]:
    _, place, counts = np.unique(values, return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    middles = last - (counts + 1) / 2.0
    found: NDArray[np.float64] = middles[place.reshape(-1)]
    return found
