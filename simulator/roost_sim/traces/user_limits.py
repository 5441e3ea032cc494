"""Time limits as users give them, for generated jobs: round numbers, chosen once for alike jobs.

No public trace of GPU jobs has limits. On batch systems users choose from a handful of round
numbers, many take the longest one for everything, and jobs that are submitted again keep theirs
(Tsafrir, Etsion and Feitelson, Modeling User Runtime Estimates, JSSPP 2005). The shares below are
set by hand, not fitted: figures from such limits show what limits of this kind tell, and no more.
"""

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from roost_sim.traces.trace import Trace

_MINUTE_S, _HOUR_S, _DAY_S = 60.0, 3_600.0, 86_400.0
_CHOICES_S = np.array(
    [
        *(minutes * _MINUTE_S for minutes in (5, 15, 30)),
        *(hours * _HOUR_S for hours in (1, 2, 4, 8, 12)),
        *(days * _DAY_S for days in (1, 2, 3, 5, 7, 14, 30, 60, 90, 180)),
    ]
)
_LONGEST_S = 14 * _DAY_S  # of the partition: what users take who do not think about it
_CARELESS_FRAC = 0.3  # of the users
_MOST_SPARE = 4.0  # a careful user asks for up to so many times the longest run


def with_user_limits(trace: Trace, seed: int) -> Trace:
    """Return a trace in which each job has the limit of its user, name and GPUs.

    A careless user takes the partition's longest limit. Any other takes, for each name and number
    of GPUs, the next round number above one to four times the longest of these jobs. So the limits
    know the longest job of a kind, as users do, and nothing of single jobs.

    Args:
        trace: with users and names.
        seed: of the random numbers.
    """
    rng = np.random.default_rng(np.random.SeedSequence([seed, len(trace), 2]))
    careless = rng.random(int(trace.user_id.max(initial=0)) + 1) < _CARELESS_FRAC
    kinds = np.stack([trace.user_id, trace.job_name.ids, trace.gpu_count], axis=1)
    kind_count, kind = _numbered(kinds)
    longest_s = np.zeros(kind_count)
    np.maximum.at(longest_s, kind, trace.duration_s)
    asked_s = longest_s * _MOST_SPARE ** rng.random(kind_count)
    limit_s = _rounded_up_s(asked_s)[kind]
    partition_s = np.maximum(_rounded_up_s(longest_s)[kind], _LONGEST_S)
    return replace(trace, time_limit_s=np.where(careless[trace.user_id], partition_s, limit_s))


def _numbered(rows: NDArray[np.int32]) -> tuple[int, NDArray[np.int64]]:
    """Return how many different rows there are, and the number of each row among them."""
    different, number = np.unique(rows, axis=0, return_inverse=True)
    return len(different), number.reshape(-1)


def _rounded_up_s(wanted_s: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the next of the round numbers, or beyond them all the next whole day."""
    place = np.searchsorted(_CHOICES_S, wanted_s)
    beyond_s = np.ceil(wanted_s / _DAY_S) * _DAY_S
    return np.where(place < len(_CHOICES_S), np.take(_CHOICES_S, place, mode="clip"), beyond_s)
