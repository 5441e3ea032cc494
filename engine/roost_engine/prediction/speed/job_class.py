"""Timer classes: jobs of about as many GPUs and about the same sensitivity share a delay timer.

Dally keys its timers on the number of GPUs alone (arXiv 2401.16492, section 3), so insensitive jobs
wait as long as sensitive ones, and each rare number of GPUs starts without any history.
"""

from bisect import bisect_right
from dataclasses import dataclass
from enum import StrEnum

GPU_BUCKETS = (
    1,
    2,
    4,
    8,
    16,
    32,
    64,
)  # a bucket: from this count to below the next
_LOW_BELOW, _MID_BELOW = 0.05, 0.25


class Sensitivity(StrEnum):
    """How much speed a job loses one tier farther than the closest tier that it can have."""

    LOW = "low"  # less than 5 %
    MID = "mid"  # less than 25 %
    HIGH = "high"

    @classmethod
    def of(cls, lost_frac: float) -> "Sensitivity":
        """Return the sensitivity for a lost fraction of speed, 0 to 1; LOW for NaN."""
        if not lost_frac >= _LOW_BELOW:
            return cls.LOW
        return cls.MID if lost_frac < _MID_BELOW else cls.HIGH


@dataclass(frozen=True, slots=True, order=True)
class TimerClass:
    """The key of a timer: a GPU bucket and a sensitivity."""

    gpu_bucket: int
    sensitivity: Sensitivity

    @classmethod
    def of(cls, gpu_count: int, lost_frac: float) -> "TimerClass":
        """Return the class of a job with this many GPUs and this lost fraction of speed."""
        bucket = GPU_BUCKETS[bisect_right(GPU_BUCKETS, max(gpu_count, 1)) - 1]
        return cls(bucket, Sensitivity.of(lost_frac))

    @classmethod
    def parse(cls, name: str) -> "TimerClass | None":
        """Return the class of a name that `str` wrote, such as "8/high"; None for other text."""
        bucket, _, sensitivity = name.partition("/")
        for known in ALL_CLASSES:
            if (bucket, sensitivity) == (str(known.gpu_bucket), known.sensitivity.value):
                return known
        return None

    def __str__(self) -> str:
        return f"{self.gpu_bucket}/{self.sensitivity}"


ALL_CLASSES = tuple(
    TimerClass(bucket, sensitivity) for bucket in GPU_BUCKETS for sensitivity in Sensitivity
)
