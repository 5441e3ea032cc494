"""How many pairs of a new GPU type must be observed until slowdowns there are predicted well?

For each GPU type in turn, everything is learned on the other types and on the first N pairs of the
new one, in an order drawn by a seed; a third of its pairs, the same for every N, are judged. Both
orders of a pair go together. Figures: docs/results/neighbours.md.
"""

import argparse
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike, NDArray

from roost_train.interference.baselines import BASELINES, lif_linear, table_of_kinds
from roost_train.interference.fit import Shape, fit
from roost_train.interference.measured_pairs import read_measured
from roost_train.interference.pairs import Pairs, Split, join, parts_of, read_pairs
from roost_train.interference.training import BOTH, train

Array = NDArray[np.float64]
Predictor = Callable[[Pairs, Pairs, Pairs], Array]
Errors = dict[tuple[str, str, int], list[float]]  # by GPU type, predictor and pairs observed

OBSERVED = (0, 5, 10, 20, 40)
WIDTH = 0.8
_FEW_COUNT = 2.0  # as in the table of kinds
_INTERVAL = 1.645
SEED_COUNT = 10
_STUDENT = 2.262  # of SEED_COUNT values: what 95 % of them are within
INSIDE = "share inside the 90 % interval of model and table"


def fitted(known: Pairs, asked: Pairs) -> Array:
    """Return the predictions of a model fitted to pairs of any types."""
    return fit(known, Shape(width=WIDTH)).slowdowns(asked.cases()).mean.astype(float)


def linear(known: Pairs, asked: Pairs) -> Array:
    """Return LIF-linear's predictions; none is a gain."""
    return np.maximum(lif_linear(known, asked), 0.0)


def model_and_table(old: Pairs, new: Pairs, asked: Pairs) -> Array:
    """Correct a model of the other types by what kinds of jobs suffered and caused on this one."""
    known = join([old, new])
    return table_of_kinds(known, asked, fitted(old, known), fitted(old, asked))


def model_type_and_table(old: Pairs, new: Pairs, asked: Pairs) -> Array:
    """Correct it first by what it misses on this type on average, shrunk towards 0."""
    moved = (new.slowdown - fitted(old, new)).sum() / (len(new) + _FEW_COUNT)
    known = join([old, new])
    is_new = np.arange(len(known)) >= len(old)
    return table_of_kinds(
        known, asked, fitted(old, known) + moved * is_new, fitted(old, asked) + moved
    )


def refitted_and_table(old: Pairs, new: Pairs, asked: Pairs) -> Array:
    """Fit the model to the pairs of all types, and correct it by kinds."""
    known = join([old, new])
    return table_of_kinds(known, asked, fitted(known, known), fitted(known, asked))


def linear_and_table(old: Pairs, new: Pairs, asked: Pairs) -> Array:
    """Correct LIF-linear by kinds."""
    known = join([old, new])
    return table_of_kinds(known, asked, linear(known, known), linear(known, asked))


def blend_and_table(old: Pairs, new: Pairs, asked: Pairs) -> Array:
    """Correct the mean of model and LIF-linear by kinds."""
    known = join([old, new])
    mean = [(fitted(known, each) + linear(known, each)) / 2 for each in (known, asked)]
    return table_of_kinds(known, asked, *mean)


def _retrained(predict: Callable[[Pairs, Pairs], Array]) -> Predictor:
    return lambda old, new, asked: predict(join([old, new]), asked)


PREDICTORS: Mapping[str, Predictor] = {
    **{name: _retrained(predict) for name, predict in BASELINES.items()},
    "LIF-linear and table": linear_and_table,
    "model and table": model_and_table,
    "model, type and table": model_type_and_table,
    "model fitted again, and table": refitted_and_table,
    "equal blend fitted again, and table": blend_and_table,
}
OURS = "model and table"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True, help="folder of the public tables")
    options = parser.parse_args()
    pairs = join([read_pairs(options.data), read_measured()])
    off: Errors = {}
    for learned, judged in parts_of(Split.GPU, pairs):
        old, new = pairs.where(learned), pairs.where(judged)
        gpu_type, trained = new.a[0].gpu_type, train(old)
        for seed in range(SEED_COUNT):
            for count, seen, asked in curve(new, seed):
                for name, predict in PREDICTORS.items():
                    answer = predict(old, seen, asked)
                    missed = np.abs(np.exp(-answer) - np.exp(-asked.slowdown)).mean()
                    off.setdefault((gpu_type, name, count), []).append(float(missed))
                mean, spread = trained.predict(join([old, seen]), asked)[BOTH]
                inside = np.abs(mean - asked.slowdown) <= _INTERVAL * (
                    0 if spread is None else spread
                )
                off.setdefault((gpu_type, INSIDE, count), []).append(float(inside.mean()))
    report(off)
    return 0


def curve(pairs: Pairs, seed: int) -> list[tuple[int, Pairs, Pairs]]:
    """Return (count, the pairs observed first, the pairs to judge by) of each point."""
    both = [tuple(sorted(pair)) for pair in zip(pairs.a, pairs.b, strict=True)]
    names = sorted(set(both))
    drawn = np.random.default_rng(seed).permutation(len(names)).tolist()
    place = {names[at]: position for position, at in enumerate(drawn)}
    places = np.array([place[pair] for pair in both])
    asked = pairs.where(places >= len(names) - len(names) // 3)
    return [(count, pairs.where(places < count), asked) for count in OBSERVED]


def report(off: Errors) -> None:
    """Print errors by type, their mean over the types, and what each is beyond ours by seed."""
    types = sorted({gpu_type for gpu_type, _, _ in off})
    for gpu_type in types:
        print_table(gpu_type, (*PREDICTORS, INSIDE), lambda *key, one=gpu_type: off[one, *key])

    def mean(name: str, count: int) -> Array:
        each: Array = np.mean([off[one, name, count] for one in types], axis=0)
        return each

    print_table("mean of the types", (*PREDICTORS, INSIDE), mean)
    others = [name for name in PREDICTORS if name != OURS]
    beyond = lambda name, count: mean(name, count) - mean(OURS, count)  # noqa: E731
    print_table(f"beyond {OURS}", others, beyond)


def print_table(title: str, names: Sequence[str], values: Callable[[str, int], ArrayLike]) -> None:
    print(f"\n| {title} | " + " | ".join(map(str, OBSERVED)) + " |")
    print("|---" * (1 + len(OBSERVED)) + "|")
    for name in names:
        cells = [interval(np.asarray(values(name, count), float)) for count in OBSERVED]
        print(f"| {name} | " + " | ".join(cells) + " |")


def interval(values: Array) -> str:
    """Return mean and half-width of a 95 % interval over the seeds, by Student's t."""
    half = _STUDENT * values.std(ddof=1) / np.sqrt(SEED_COUNT)
    return f"{values.mean():.3f} ± {half:.3f}"


if __name__ == "__main__":
    sys.exit(main())
