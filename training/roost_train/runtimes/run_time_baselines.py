"""Predictors of run times to compare with: each gives one number for a job.

* the time limit that the user gave;
* the mean of the user's last two jobs (Tsafrir, Etsion and Feitelson, IEEE TPDS 18, 2007);
* the median of the user's jobs of the same number of GPUs;
* gradient-boosted trees, as in Helios' QSSF (Hu et al., SC 2021): run_time_trees.

All learn from jobs that ended before the job that they predict was submitted.
"""

from collections import deque
from statistics import median

from roost_engine.domain.model import JobSpec

_BEFORE_ANY_S = 3_600.0
_MEDIAN_COUNT = 1_000


class LastTwo:
    """The mean run time of the user's last two jobs, or else of the last two of all jobs."""

    def __init__(self) -> None:
        self._last_s: dict[int, deque[float]] = {}
        self._all_s = deque[float](maxlen=2)

    def add(self, job: JobSpec, run_s: float) -> None:
        """Add a job that ended."""
        self._last_s.setdefault(job.user_id, deque(maxlen=2)).append(run_s)
        self._all_s.append(run_s)

    def predict_s(self, job: JobSpec) -> float:
        """Return the run time that is expected of a job."""
        known_s = self._last_s.get(job.user_id) or self._all_s
        return sum(known_s) / len(known_s) if known_s else _BEFORE_ANY_S


class MedianOfSize:
    """The median run time of the user's jobs of as many GPUs, or of all jobs of as many.

    The newest thousand of each count.
    """

    def __init__(self) -> None:
        self._runs_s: dict[tuple[int | None, int], deque[float]] = {}

    def add(self, job: JobSpec, run_s: float) -> None:
        """Add a job that ended."""
        for user_id in (job.user_id, None):
            key = (user_id, job.gpu_count)
            self._runs_s.setdefault(key, deque(maxlen=_MEDIAN_COUNT)).append(run_s)

    def predict_s(self, job: JobSpec) -> float:
        """Return the run time that is expected of a job."""
        known_s = self._runs_s.get((job.user_id, job.gpu_count))
        known_s = known_s or self._runs_s.get((None, job.gpu_count))
        return median(known_s) if known_s else _BEFORE_ANY_S
