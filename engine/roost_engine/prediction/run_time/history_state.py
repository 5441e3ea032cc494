"""Everything that a history of run times has learned, as plain data for journals and copies."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from roost_engine.domain.model import JobId
from roost_engine.prediction.run_time.history_kinds import KindSums, WatchedRun
from roost_engine.prediction.run_time.run_times import BAND_COUNT

LAST_COUNT = 2  # run times of each kind that are remembered one by one


@dataclass(frozen=True, slots=True, eq=False)
class HistoryState:
    """Everything learned, as plain data.

    Attributes:
        kinds: names, the one reported longest ago first.
        at_s: float64 [kind]; ended, entered: float32 [kind, band]; see KindSums.
        last_s: float32 [kind, LAST_COUNT], the newest first; below 0: there is none.
    """

    kinds: tuple[str, ...] = ()
    at_s: NDArray[np.float64] = field(default_factory=lambda: np.zeros(0))
    ended: NDArray[np.float32] = field(
        default_factory=lambda: np.zeros((0, BAND_COUNT), dtype=np.float32)
    )
    entered: NDArray[np.float32] = field(
        default_factory=lambda: np.zeros((0, BAND_COUNT), dtype=np.float32)
    )
    last_s: NDArray[np.float32] = field(
        default_factory=lambda: np.zeros((0, LAST_COUNT), dtype=np.float32)
    )
    running: tuple[tuple[JobId, WatchedRun], ...] = ()

    @classmethod
    def of(
        cls, kinds: Mapping[str, KindSums], running: Mapping[JobId, WatchedRun]
    ) -> "HistoryState":
        """Return copies of what is remembered of kinds and running jobs."""
        sums = kinds.values()
        empty = np.zeros((0, BAND_COUNT), dtype=np.float32)
        return cls(
            kinds=tuple(kinds),
            at_s=np.array([each.at_s for each in sums]),
            ended=np.array([each.ended for each in sums], dtype=np.float32) if sums else empty,
            entered=np.array([each.entered for each in sums], dtype=np.float32) if sums else empty,
            last_s=np.array([_last_row(each.last_s) for each in sums], dtype=np.float32).reshape(
                len(sums), LAST_COUNT
            ),
            running=tuple((job_id, replace(run)) for job_id, run in running.items()),
        )

    def __eq__(self, other: object) -> bool:
        """Compare the arrays by value."""
        return (
            isinstance(other, HistoryState)
            and (self.kinds, self.running) == (other.kinds, other.running)
            and np.array_equal(self.at_s, other.at_s)
            and np.array_equal(self.ended, other.ended)
            and np.array_equal(self.entered, other.entered)
            and np.array_equal(self.last_s, other.last_s)
        )

    def __hash__(self) -> int:
        """Hash what is cheap."""
        return hash(self.kinds)


def _last_row(last_s: tuple[float, ...]) -> list[float]:
    row = [*reversed(last_s)]
    return row + [-1.0] * (LAST_COUNT - len(row))
