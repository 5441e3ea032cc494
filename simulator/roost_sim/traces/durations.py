"""Time limits for jobs of a trace: its own, and drawn ones where it has none."""

from math import ceil

import numpy as np
from numpy.typing import NDArray

from roost_sim.traces.trace import Trace

_LEAST_OVERESTIMATE, _MOST_OVERESTIMATE = 2.0, 10.0  # as on batch systems
_LIMIT_STEP_S = 3_600.0


def limits_s(trace: Trace, seed: int) -> NDArray[np.float64]:
    """Return the time limits of a trace; draw those that it does not have as users set them.

    Drawn limits are 2 to 10 times the run time, in whole hours: no public trace has any. A job
    without a limit in the trace gets a drawn one too, since policies that rely on limits need one.

    Returns:
        float64 [job], never below the run time.
    """
    rng = np.random.default_rng(np.random.SeedSequence([seed, len(trace), 1]))
    factor = rng.uniform(_LEAST_OVERESTIMATE, _MOST_OVERESTIMATE, len(trace))
    hours = [ceil(value / _LIMIT_STEP_S) for value in (trace.duration_s * factor).tolist()]
    drawn_s = np.array(hours, dtype=np.float64) * _LIMIT_STEP_S
    # Slurm stops a job up to a minute after its limit, so that a run time may exceed it.
    own_s = np.maximum(trace.time_limit_s, trace.duration_s)
    return np.where(np.isfinite(own_s), own_s, drawn_s)
