"""Which jobs share a delay timer: those of about as many GPUs that the network hurts about as much.

Dally keys its timers on the number of GPUs alone (arXiv 2401.16492, section 3), so that jobs that
do not care wait as long as those that do, and every rare size starts from nothing.
"""

from dataclasses import dataclass
from enum import StrEnum

GPU_BUCKETS = (1, 2, 4, 8, 16, 32, 64)  # a bucket holds from its number up to below the next
_LOW_BELOW, _MID_BELOW = 0.05, 0.25


class Sensitivity(StrEnum):
    """How much of its speed a job loses one tier further out than it could be."""

    LOW = "low"  # less than 5 %
    MID = "mid"  # less than 25 %
    HIGH = "high"

    @classmethod
    def of(cls, lost_frac: float) -> "Sensitivity":
        """The class of a loss, 0 to 1; what is not a number counts as a low one."""
        if not lost_frac >= _LOW_BELOW:
            return cls.LOW
        return cls.MID if lost_frac < _MID_BELOW else cls.HIGH


@dataclass(frozen=True, slots=True, order=True)
class TimerClass:
    """The key of a timer."""

    gpu_bucket: int
    sensitivity: Sensitivity

    @classmethod
    def of(cls, gpu_count: int, lost_frac: float) -> "TimerClass":
        """The class of a job of so many GPUs that loses so much."""
        bucket = max(size for size in GPU_BUCKETS if size <= max(gpu_count, 1))
        return cls(bucket, Sensitivity.of(lost_frac))

    @classmethod
    def parse(cls, name: str) -> "TimerClass | None":
        """Read what `str` wrote: "8/high"; None when it is no class."""
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
