"""What the interference model is compared with. Each learns from pairs and predicts others."""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray
from sklearn.ensemble import HistGradientBoostingRegressor
from threadpoolctl import threadpool_limits

from roost_train.interference.pairs import Pairs
from roost_train.interference.public import PublicJob

Array = NDArray[np.float64]
Predictor: TypeAlias = Callable[[Pairs, Pairs], Array]
"""(pairs to learn from, pairs to predict) to their log slowdowns."""

_RIDGE = 1e-2
_FEW_COUNT = 2.0
_ROUNDS = 8


def constant_mean(train: Pairs, test: Pairs) -> Array:
    """Predict the mean of what was learned from."""
    return np.full(len(test), train.slowdown.mean())


def nearest_neighbour(train: Pairs, test: Pairs) -> Array:
    """Predict the slowdown of the pair whose two vectors are closest."""
    known, asked = _both(train), _both(test)
    nearest = [int(np.argmin(((known - row) ** 2).sum(axis=1))) for row in asked]
    return train.slowdown[nearest]


def lif_linear(train: Pairs, test: Pairs) -> Array:
    """Predict by a linear form of both vectors and the products of their columns.

    Source: the linear interference model that Bao et al. compare with (Harmony, INFOCOM 2019).
    """

    def columns(pairs: Pairs) -> Array:
        own, beside = (rows[:, _used(train)].astype(float) for rows in (pairs.own, pairs.beside))
        products = (own[:, :, None] * beside[:, None, :]).reshape(len(pairs), -1)
        return np.hstack([np.ones((len(pairs), 1)), own, beside, products])

    known = columns(train)
    gram = known.T @ known + _RIDGE * np.eye(known.shape[1])
    predicted: Array = columns(test) @ np.linalg.solve(gram, known.T @ train.slowdown)
    return predicted


def boosted_trees(train: Pairs, test: Pairs) -> Array:
    """Predict by gradient-boosted trees on both vectors."""
    trees = HistGradientBoostingRegressor(
        max_iter=200, learning_rate=0.05, early_stopping=False, random_state=0
    )
    # Threads of OpenMP spin while they wait: on a busy machine a fit of 0.5 s took minutes.
    with threadpool_limits(limits=1):
        trees.fit(_both(train), train.slowdown)
        predicted: Array = trees.predict(_both(test))
    return predicted


BASELINES: Mapping[str, Predictor] = {
    "constant mean": constant_mean,
    "nearest neighbour": nearest_neighbour,
    "LIF-linear": lif_linear,
    "gradient-boosted trees": boosted_trees,
}


def table_of_kinds(
    train: Pairs, test: Pairs, known: Array | None = None, asked: Array | None = None
) -> Array:
    """Predict by what each kind of job suffers and causes, shrunk towards a prediction.

    A kind is a model with its batch size on one GPU type.

    Args:
        train: pairs to learn from.
        test: pairs to predict.
        known: predictions of those learned from; None: their mean slowdown.
        asked: predictions of the others; None: the same.
    """
    known = np.full(len(train), train.slowdown.mean()) if known is None else known
    asked = np.full(len(test), train.slowdown.mean()) if asked is None else asked
    left = train.slowdown - known
    suffered, caused = dict[PublicJob, float](), dict[PublicJob, float]()
    for _ in range(_ROUNDS):
        _update(suffered, train.a, left, caused, train.b)
        _update(caused, train.b, left, suffered, train.a)
    parts = [suffered.get(a, 0.0) + caused.get(b, 0.0) for a, b in zip(test.a, test.b, strict=True)]
    found: Array = np.maximum(asked + np.array(parts), 0.0)
    return found


def counts_of_kinds(train: Pairs, test: Pairs) -> tuple[Array, Array]:
    """Return how many pairs were learned from of each job a, and of each job b."""
    counts = defaultdict[PublicJob, int](int)
    for job in train.a:
        counts[job] += 1
    found = [np.array([counts[job] for job in jobs], dtype=float) for jobs in (test.a, test.b)]
    return found[0], found[1]


def _update(
    mine: dict[PublicJob, float],
    jobs: Sequence[PublicJob],
    left: Array,
    others: Mapping[PublicJob, float],
    partners: Sequence[PublicJob],
) -> None:
    found = defaultdict[PublicJob, list[float]](list)
    for job, partner, value in zip(jobs, partners, left.tolist(), strict=True):
        found[job].append(value - others.get(partner, 0.0))
    for job, values in found.items():
        mine[job] = sum(values) / (len(values) + _FEW_COUNT)


def _used(pairs: Pairs) -> NDArray[np.int64]:
    """Return the columns that differ anywhere: the others are absent in every public pair."""
    both = np.concatenate([pairs.own, pairs.beside])
    return np.flatnonzero(both.max(axis=0) > both.min(axis=0))


def _both(pairs: Pairs) -> Array:
    return np.hstack([pairs.own, pairs.beside]).astype(np.float64)
