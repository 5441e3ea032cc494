"""The daemon's clocks: engine time, which never jumps, and its relation to the wall clock."""

import time
from collections.abc import Callable
from typing import Protocol

_STEP_S = 1.0  # NTP slews smaller differences away, 0.5 ms in a second at most


class Clock(Protocol):
    """The daemon's source of time."""

    def now_s(self) -> float:
        """Return engine time: it never runs backwards, even if the wall clock does."""

    def to_engine_s(self, epoch_s: float) -> float:
        """Return the engine time of a wall clock time, seconds since 1970, as Slurm gives it."""

    def to_epoch_s(self, engine_s: float) -> float:
        """Return the wall clock time of an engine time, seconds since 1970."""

    def follow_wall(self) -> float:
        """Note a step of the wall clock; Slurm's times map to other engine times from now on.

        Returns:
            Seconds by which the wall clock was set forward since the last call; below 0: back. 0 if
            it was not set: small differences are ignored, so that times map steadily.
        """


class MonotonicClock:
    """The machine's monotonic clock, with an offset that continues the journal's time.

    A step of the wall clock changes no deadline of roostd's own. Slurm's times are wall clock
    times, and slurmctld acts on them by the wall clock as it is: they follow each step.

    Args:
        start_s: present engine time.
        epoch_s: present wall clock time, seconds since 1970.
        monotonic: the monotonic clock.
        wall: the wall clock.
    """

    def __init__(
        self,
        start_s: float,
        epoch_s: float,
        *,
        monotonic: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self._monotonic, self._wall = monotonic, wall
        self._offset_s = start_s - monotonic()
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
        return self._monotonic() + self._offset_s

    def to_engine_s(self, epoch_s: float) -> float:
        """See Clock."""
        return epoch_s - self.epoch_of_zero_s

    def to_epoch_s(self, engine_s: float) -> float:
        """See Clock."""
        return engine_s + self.epoch_of_zero_s

    def follow_wall(self) -> float:
        """See Clock."""
        step_s = self._wall() - self.now_s() - self.epoch_of_zero_s
        if abs(step_s) < _STEP_S:
            return 0.0
        self.epoch_of_zero_s += step_s
        return step_s
