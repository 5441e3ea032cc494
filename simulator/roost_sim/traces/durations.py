"""Time limits for jobs of a trace: no public trace has any."""

from math import ceil

import numpy as np
from numpy.typing import NDArray

from roost_sim.traces.trace import Trace

_LEAST_OVERESTIMATE, _MOST_OVERESTIMATE = 2.0, 10.0  # as on batch systems
_LIMIT_STEP_S = 3_600.0


def limits_s(trace: Trace, seed: int) -> NDArray[np.float64]:
    """Draw time limits as users set them: 2 to 10 times the run time, in whole hours.

    Returns:
        float64 [job], never below the run time.
    """
    rng = np.random.default_rng(np.random.SeedSequence([seed, len(trace), 1]))
    factor = rng.uniform(_LEAST_OVERESTIMATE, _MOST_OVERESTIMATE, len(trace))
    hours = [ceil(value / _LIMIT_STEP_S) for value in (trace.duration_s * factor).tolist()]
    return np.array(hours, dtype=np.float64) * _LIMIT_STEP_S
