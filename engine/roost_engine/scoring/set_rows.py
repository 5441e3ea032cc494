"""The neighbours of sets of free GPUs, as rows of one table, and what newcomers lose there."""

import numpy as np
from numpy.typing import NDArray

from roost_engine.scoring.neighbour_levels import LEVELS

Array = NDArray[np.float32]

_FIRST_COUNT = 256
_NEWCOMER_COUNT = 32
_MOST_ROWS = 8192  # 7 MB


class SetRows:
    """The neighbours of sets of GPUs of one node: a row for each set, in one table.

    What newcomers were predicted to lose on a row is stored beside it, so that the next newcomer
    with the same vector need not be predicted again.

    Args:
        width: columns of a load vector.

    Rows that no set has are meaningless.

    Attributes:
        sums: float32 [row, level, width], of the other jobs' vectors, weighted.
        joined: float32 [row, width], the other jobs as one.
        gpus: float64 [row], how many GPUs lose as `joined` does, weighted by what the set is of
            their others.
        level: int64 [row], the closest that any of them shares, a position in LEVELS.
    """

    def __init__(self, width: int) -> None:
        self.sums = np.zeros((_FIRST_COUNT, len(LEVELS), width), dtype=np.float32)
        self.joined = np.zeros((_FIRST_COUNT, width), dtype=np.float32)
        self.gpus = np.zeros(_FIRST_COUNT)
        self.level = np.zeros(_FIRST_COUNT, dtype=np.int64)
        self._count = 0
        self._newcomers: dict[tuple[int, bytes], int] = {}  # the one asked about last is the last
        self._losses = _unpredicted(_FIRST_COUNT)

    @property
    def is_full(self) -> bool:
        """Whether it is time to begin again with an empty table."""
        return self._count >= _MOST_ROWS

    def clear(self) -> None:
        """Begin again with an empty table; its memory stays, for the rows to come."""
        self._count = 0
        self._newcomers.clear()

    def take(self, count: int) -> slice:
        """Return rows that no set has."""
        begin, self._count = self._count, self._count + count
        while self._count > len(self.gpus):
            for name in ("sums", "joined", "gpus", "level"):
                old = getattr(self, name)
                setattr(self, name, np.concatenate([old, np.zeros_like(old)]))
            added = _unpredicted(self._losses.shape[1])
            self._losses = np.concatenate([self._losses, added], axis=1)
        return slice(begin, self._count)

    def losses(self, vector: Array, tier: int) -> Array:
        """Return what was predicted of newcomers with one vector, to be read and written.

        Args:
            vector: of the newcomer.
            tier: of its GPUs.

        Returns:
            float32 [row, 2], log slowdowns of the newcomer and of the others as one; NaN: not
            predicted yet. Valid until rows are taken or other losses are asked for.
        """
        key, newcomers = (tier, vector.tobytes()), self._newcomers
        at = newcomers.pop(key, None)
        if at is None:
            is_full = len(newcomers) == _NEWCOMER_COUNT
            at = newcomers.pop(next(iter(newcomers))) if is_full else len(newcomers)
            self._losses[at] = np.nan
        newcomers[key] = at
        found: Array = self._losses[at]
        return found


def _unpredicted(row_count: int) -> Array:
    return np.full((_NEWCOMER_COUNT, row_count, 2), np.nan, dtype=np.float32)
