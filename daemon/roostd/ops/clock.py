"""Engine time: seconds that never jump, on an origin that survives restarts."""

import time
from typing import Protocol


class Clock(Protocol):
    """Where the daemon reads the time."""

    def now_s(self) -> float:
        """Engine time: never runs backwards, whatever is done to the wall clock."""

    def to_engine_s(self, epoch_s: float) -> float:
        """Turn a wall clock time, as Slurm tells it, into engine time."""

    def to_epoch_s(self, engine_s: float) -> float:
        """Turn engine time into what Slurm and people read."""


class MonotonicClock:
    """The machine's monotonic clock, started where the journal left off.

    The wall clock is read once, when the daemon starts: a step by NTP or an operator moves no
    deadline, and the same Slurm time always maps to the same engine time within one run.

    Args:
        start_s: engine time now.
        epoch_s: wall clock now, seconds since 1970.
    """

    def __init__(self, start_s: float, epoch_s: float) -> None:
        self._offset_s = start_s - time.monotonic()
        self.epoch_of_zero_s = epoch_s - start_s

    @classmethod
    def resume(cls, last_at_s: float, epoch_of_zero_s: float | None) -> "MonotonicClock":
        """Continue a journal's time.

        Args:
            last_at_s: engine time of the newest entry; 0 for an empty journal.
            epoch_of_zero_s: the wall clock at engine time 0 as the journal has it; None: new.

        Returns:
            A clock past last_at_s. A wall clock that was set back since then does not take
            engine time back with it.
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
