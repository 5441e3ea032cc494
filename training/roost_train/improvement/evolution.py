"""CMA-ES: a search for the numbers with the least cost, where only the costs can be computed.

Each generation draws candidates about a mean, and moves mean, step and covariance towards the best
half. It needs no gradient, and reads the order of the costs only, so a cost of one simulated
month serves as it is. Costs may be noisy: the mean averages the noise of many candidates.

Source: Hansen, The CMA Evolution Strategy: A Tutorial, arXiv 1604.00772, 2016, with its constants
and without negative weights. Page: docs/learned.md.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import exp, log, sqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray

_DRAW_STREAM = 53  # keeps these draws apart from those of episodes

Vector = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class _Constants:
    """What depends on the numbers of dimensions and of candidates alone; see the source, table 1.

    Attributes:
        weights: [parent], of the best candidates, the best first; sum 1.
        effective: how many equal parents these weights are worth.
        step_rate, step_damping: of the path that the step follows.
        path_rate: of the path that the covariance follows.
        rank_one, rank_many: how quickly the covariance follows the path and the parents.
        expected_norm: of a standard normal draw.
    """

    weights: Vector
    effective: float
    step_rate: float
    step_damping: float
    path_rate: float
    rank_one: float
    rank_many: float
    expected_norm: float

    @classmethod
    def of(cls, size: int, candidate_count: int) -> "_Constants":
        raw = log((candidate_count + 1) / 2) - np.log(np.arange(1, candidate_count // 2 + 1))
        weights = raw / raw.sum()
        effective = 1.0 / float((weights**2).sum())
        rank_one = 2.0 / ((size + 1.3) ** 2 + effective)
        step_rate = (effective + 2.0) / (size + effective + 5.0)
        return cls(
            weights=weights,
            effective=effective,
            step_rate=step_rate,
            step_damping=1.0
            + 2.0 * max(0.0, sqrt((effective - 1.0) / (size + 1.0)) - 1.0)
            + step_rate,
            path_rate=(4.0 + effective / size) / (size + 4.0 + 2.0 * effective / size),
            rank_one=rank_one,
            rank_many=min(
                1.0 - rank_one,
                2.0 * (effective - 2.0 + 1.0 / effective) / ((size + 2.0) ** 2 + effective),
            ),
            expected_norm=sqrt(size) * (1.0 - 1.0 / (4.0 * size) + 1.0 / (21.0 * size**2)),
        )


class Evolution:
    """See the module.

    Args:
        start: the first mean, [number].
        step: the first standard deviation of each number about the mean, above 0.
        candidate_count: of a generation, at least 4.
        seed: of the draws.
    """

    def __init__(self, start: Vector, step: float, candidate_count: int, seed: int) -> None:
        self.mean, self.step = np.array(start, dtype=np.float64), step
        self.generation = 0
        size = len(self.mean)
        self._count, self._seed = candidate_count, seed
        self._constants = _Constants.of(size, candidate_count)
        self._covariance = np.eye(size)
        self._step_path, self._path = np.zeros((2, size))

    def ask(self) -> NDArray[np.float64]:
        """Return the candidates of the next generation, [candidate, number]."""
        rng = np.random.default_rng([_DRAW_STREAM, self._seed, self.generation])
        lengths, axes = self._axes()
        drawn = rng.standard_normal((self._count, len(self.mean)))
        return np.asarray(self.mean + self.step * (drawn * lengths) @ axes.T)

    def tell(self, candidates: NDArray[np.float64], costs: Sequence[float]) -> None:
        """Learn what the candidates of this generation cost.

        Args:
            candidates: as `ask` returned them.
            costs: one for each; the least is the best, and of equal ones the first.
        """
        constants, size = self._constants, len(self.mean)
        best = np.argsort(costs, kind="stable")[: len(constants.weights)]
        moves = (candidates[best] - self.mean) / self.step
        move = constants.weights @ moves
        lengths, axes = self._axes()
        self.mean = self.mean + self.step * move
        self.generation += 1

        rate = constants.step_rate
        whitened = axes @ ((axes.T @ move) / lengths)
        self._step_path *= 1.0 - rate
        self._step_path += sqrt(rate * (2.0 - rate) * constants.effective) * whitened
        norm = float(np.linalg.norm(self._step_path))
        # A path that is long because the step has just grown would stretch the covariance too.
        usual = norm / sqrt(1.0 - (1.0 - rate) ** (2 * self.generation))
        is_steady = usual < (1.4 + 2.0 / (size + 1.0)) * constants.expected_norm

        rate = constants.path_rate
        self._path *= 1.0 - rate
        if is_steady:
            self._path += sqrt(rate * (2.0 - rate) * constants.effective) * move
        one, many = constants.rank_one, constants.rank_many
        lost = 0.0 if is_steady else one * rate * (2.0 - rate)
        self._covariance *= 1.0 - one - many + lost
        self._covariance += one * np.outer(self._path, self._path)
        self._covariance += many * (moves.T * constants.weights) @ moves
        self.step *= exp(
            constants.step_rate / constants.step_damping * (norm / constants.expected_norm - 1.0)
        )

    def state(self) -> dict[str, Any]:
        """Return everything that changes, as plain data."""
        return {
            "mean": self.mean.tolist(),
            "step": self.step,
            "generation": self.generation,
            "covariance": self._covariance.tolist(),
            "step_path": self._step_path.tolist(),
            "path": self._path.tolist(),
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Restore what `state` returned."""
        self.mean, self.step = np.array(state["mean"]), float(state["step"])
        self.generation = int(state["generation"])
        self._covariance = np.array(state["covariance"])
        self._step_path, self._path = np.array(state["step_path"]), np.array(state["path"])

    def _axes(self) -> tuple[Vector, NDArray[np.float64]]:
        """Return the standard deviations along the covariance's axes, and the axes as columns."""
        values, axes = np.linalg.eigh((self._covariance + self._covariance.T) / 2.0)
        return np.sqrt(np.maximum(values, 1e-20)), axes
