"""A graph model in numpy with fixed weights, for tests of whatever asks one."""

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from roost_engine.cluster.features import weighted_sums
from roost_engine.scoring import graph_columns as names
from roost_engine.scoring.graph_columns import HIDDEN, INPUT_SIZES

Array = NDArray[np.float32]


class DrawnGraph:
    """A network of one layer a level. See scoring.graph_tree.GraphModel.

    Attributes:
        calls: what was asked, newest last.
        fails: whether the next calls raise this.
    """

    name = "drawn"

    def __init__(self, seed: int = 0) -> None:
        self.calls: list[Mapping[str, Array]] = []
        self.fails: Exception | None = None
        own = (names.GPUS, names.NODES, names.RACKS, names.PODS)
        self._own = {name: _waves(seed, int(INPUT_SIZES[name][1]), HIDDEN) for name in own}
        self._below = _waves(seed, HIDDEN, HIDDEN)
        self._head = _waves(seed, _width(), 1)

    def ask(self, inputs: Mapping[str, Array]) -> Mapping[str, Array]:
        """See GraphModel."""
        self.calls.append(inputs)
        if self.fails is not None:
            raise self.fails
        below = np.tanh(weighted_sums(inputs[names.GPUS], self._own[names.GPUS]))
        found = [below]
        for level, shares, rest in (
            (names.NODES, names.GPU_SHARES, names.NODE_REST),
            (names.RACKS, names.NODE_SHARES, names.RACK_REST),
            (names.PODS, names.RACK_SHARES, names.POD_REST),
        ):
            means = weighted_sums(inputs[shares], below) + inputs[rest]
            own = weighted_sums(inputs[level], self._own[level])
            below = np.tanh(own + weighted_sums(means, self._below))
            found.append(below)
        head = np.concatenate((inputs[names.CANDIDATES], inputs[names.CONTEXT]), axis=1)
        found.append(weighted_sums(head, self._head)[:, 0])
        return dict(zip(names.OUTPUT_SIZES, found, strict=True))


def _waves(seed: int, rows: int, columns: int) -> Array:
    """Return weights without a pattern, between -0.3 and 0.3: [row, column]."""
    numbers = np.arange(rows * columns, dtype=np.float64) + 1
    return (0.3 * np.sin(numbers * (12.9898 + seed % 97))).reshape(rows, columns).astype(np.float32)


def _width() -> int:
    return int(INPUT_SIZES[names.CANDIDATES][1]) + int(INPUT_SIZES[names.CONTEXT][1])
