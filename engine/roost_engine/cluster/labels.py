"""Which nodes carry which partitions and features."""

import numpy as np
from numpy.typing import NDArray

from roost_engine.domain.model import NodeSpec


class NodeLabels:
    """By kind and name of a label, the rows that carry it."""

    def __init__(self) -> None:
        self._carriers: dict[tuple[str, str], NDArray[np.bool_]] = {}
        self._row_count = 0

    def add_node(self) -> None:
        """Begin the next row, which carries nothing."""
        self._row_count += 1

    def carriers(self, what: str, name: str) -> NDArray[np.bool_]:
        """Which rows carry a "partition" or "feature" of that name: bool [row]; a copy."""
        found = np.zeros(self._row_count, dtype=np.bool_)
        known = self._carriers.get((what, name))
        if known is not None:
            count = min(len(known), self._row_count)
            found[:count] = known[:count]
        return found

    def change(self, row: int, old: NodeSpec | None, new: NodeSpec | None) -> None:
        """Let a row carry what one spec names, and no longer what another does."""
        for spec, value in ((old, False), (new, True)):
            if spec is None:
                continue
            named = [("partition", name) for name in spec.partitions]
            named += [("feature", name) for name in spec.features]
            for key in named:
                known = self._carriers.get(key)
                if known is None or row >= len(known):
                    grown = np.zeros(max(64, 2 * row), dtype=np.bool_)
                    if known is not None:
                        grown[: len(known)] = known
                    known = self._carriers[key] = grown
                known[row] = value
