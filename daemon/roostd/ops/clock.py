"""Engine time: seconds that never jump, from an origin that survives restarts."""

import time
from typing import Protocol


class Clock(Protocol):
    """The daemon's source of time."""

    def now_s(self) -> float:
        """Return engine time: it never runs backwards, even if the wall clock does."""

    def to_engine_s(self, epoch_s: float) -> float:
        """Return the engine time of a wall clock time, seconds since 1970, as Slurm gives it."""

    def to_epoch_s(self, engine_s: float) -> float:
        """Return the wall clock time of an engine time, seconds since 1970."""


class MonotonicClock:
    """The machine's monotonic clock, with an offset that continues the journal's time.

    The wall clock is read once, when the daemon starts: a step by NTP or an operator changes no
    deadline, and the same Slurm time always maps to the same engine time within one run.

    Args:
        start_s: present engine time.
        epoch_s: present wall clock time, seconds since 1970.
    """

    def __init__(self, start_s: float, epoch_s: float) -> None:
        self._offset_s = start_s - time.monotonic()
        self.epoch_of_zero_s = epoch_s - start_s

    @classmethod
    def resume(cls, last_at_s: float, epoch_of_zero_s: float | None) -> "MonotonicClock":
        """Return a clock that continues a journal's time.

        Args:
            last_at_s: engine time of the newest entry; 0 for an empty journal.
            epoch_of_zero_s: the wall clock at engine time 0, by the journal; None: it is new.

        Returns:
            A clock at last_at_s or later, even if the wall clock was set back since then.
        """
        epoch_s = time.time()
        elapsed_s = 0.0 if epoch_of_zero_s is None else epoch_s - epoch_of_zero_s
        return cls(max(last_at_s, elapsed_s), epoch_s)

    def now_s(self) -> float:
        """See Clock."""
        return time.monotonic() + self._offset_s

    def to_engine_s(self, epoch_s: float) -> float:
        """See Clock."""
        return epoch_s - self.epoch_of_zero_s

    def to_epoch_s(self, engine_s: float) -> float:
        """See Clock."""
        return engine_s + self.epoch_of_zero_s
