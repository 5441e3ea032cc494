"""What a policy is told of how long jobs run, where it is not told the truth.

Traces have no time limits and no predictions. Both are made from the trace without looking ahead.
"""

from bisect import bisect_left, insort
from collections import defaultdict
from heapq import heappop, heappush
from math import ceil

import numpy as np
from numpy.typing import NDArray

from roost_sim.traces.trace import Trace

_RECENT_COUNT = 50  # a class remembers so many ended jobs: users change their habits
_LEAST_OVERESTIMATE, _MOST_OVERESTIMATE = 2.0, 10.0  # of users' time limits on batch systems
_LIMIT_STEP_S = 3_600.0
_SECONDS_OF_NOBODY = 3_600.0  # before any job has ended


def predicted_s(trace: Trace) -> NDArray[np.float64]:
    """Run times as a site could predict them: the median of the jobs most like it that ended.

    Most alike are jobs of the same user and GPU count, then of the GPU count, then all; of each
    class the last fifty that had ended, in the trace, when the job was submitted.

    Returns:
        float64 [job], above 0.
    """
    recent = defaultdict[tuple[int, ...], _Recent](_Recent)
    running = list[tuple[float, int]]()
    users, sizes = trace.user_id.tolist(), trace.gpu_count.tolist()
    durations = trace.duration_s.tolist()
    found = np.empty(len(trace))
    for job, submit_s in enumerate(trace.submit_s.tolist()):
        while running and running[0][0] <= submit_s:
            _, ended = heappop(running)
            for key in ((users[ended], sizes[ended]), (sizes[ended],), ()):
                recent[key].add(durations[ended])
        classes = ((users[job], sizes[job]), (sizes[job],), ())
        best = next((recent[key] for key in classes if key in recent), None)
        found[job] = _SECONDS_OF_NOBODY if best is None else best.median()
        heappush(running, (submit_s + durations[job], job))
    return found


def limits_s(trace: Trace, seed: int) -> NDArray[np.float64]:
    """Time limits as users ask for them: 2 to 10 times too long, in whole hours.

    Returns:
        float64 [job], never below the run time.
    """
    rng = np.random.default_rng(np.random.SeedSequence([seed, len(trace), 1]))
    factor = rng.uniform(_LEAST_OVERESTIMATE, _MOST_OVERESTIMATE, len(trace))
    hours = [ceil(value / _LIMIT_STEP_S) for value in (trace.duration_s * factor).tolist()]
    return np.array(hours, dtype=np.float64) * _LIMIT_STEP_S


class _Recent:
    """The last few values, and their median."""

    def __init__(self) -> None:
        self._arrived, self._sorted, self._oldest = list[float](), list[float](), 0

    def add(self, value: float) -> None:
        if len(self._arrived) < _RECENT_COUNT:
            self._arrived.append(value)
        else:
            gone, self._arrived[self._oldest] = self._arrived[self._oldest], value
            self._oldest = (self._oldest + 1) % _RECENT_COUNT
            del self._sorted[bisect_left(self._sorted, gone)]
        insort(self._sorted, value)

    def median(self) -> float:
        middle = len(self._sorted) // 2
        return self._sorted[middle]
