"""Does the interference model together with LIF-linear predict unseen jobs and GPUs better?

Each combination ends with the same table of kinds, and is judged under every split without any
choice. For unseen GPU types a blend's weight and width are also chosen, by held-out model families
of the types that are learned from. Figures: docs/results/neighbours.md.
"""

import argparse
import sys
from collections.abc import Callable, Mapping
from dataclasses import replace
from itertools import product
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from roost_engine.prediction.interference.interference_vector import COLUMN
from roost_train.interference.baselines import lif_linear, table_of_kinds
from roost_train.interference.fit import Shape, fit, nonnegative_least_squares
from roost_train.interference.measured_pairs import read_measured
from roost_train.interference.pairs import Pairs, Split, join, parts_of, read_pairs
from roost_train.interference.training import WIDTHS
from roost_train.runtimes.run_time_figures import rank_correlation

Array = NDArray[np.float64]
# Predicted log slowdowns [pair]: of the pairs learned from, and of the pairs asked about.
Means = tuple[Array, Array]
Combination = Callable[[Pairs, Pairs], Means]
WIDTH, RIDGE = 0.8, 0.3  # as shipped
_SM, _STEP = COLUMN["sm_mean"], COLUMN["step_time_mean"]
WEIGHTS = (0.0, 0.25, 0.5, 0.75, 1.0)


def blended(known: Pairs, asked: Pairs, weight: float, width: float) -> Array:
    """Return predicted log slowdowns, `weight` of them LIF-linear's, with the table of kinds."""
    model = fit(known, Shape(width=width))
    fitted, mean = (
        (1 - weight) * model.slowdowns(each.cases()).mean.astype(float)
        + weight * np.maximum(lif_linear(known, each), 0.0)
        for each in (known, asked)
    )
    return table_of_kinds(known, asked, fitted, mean)


def model_means(known: Pairs, asked: Pairs) -> Means:
    model = fit(known, Shape(width=WIDTH))
    first, second = (model.slowdowns(each.cases()).mean.astype(float) for each in (known, asked))
    return first, second


def linear_means(known: Pairs, asked: Pairs) -> Means:
    first, second = (np.maximum(lif_linear(known, each), 0.0) for each in (known, asked))
    return first, second


def linear_costs(known: Pairs, asked: Pairs) -> Means:
    """Predict by a bilinear form whose costs are 0 or more: more load never predicts less."""

    def columns(pairs: Pairs) -> Array:
        sm, step = (pairs.own[:, at].astype(float) for at in (_SM, _STEP))
        corners = np.stack([(1 - sm) * (1 - step), (1 - sm) * step, sm * (1 - step), sm * step], 1)
        sm, step = (pairs.beside[:, at].astype(float) for at in (_SM, _STEP))
        loads = np.stack([np.ones(len(pairs)), sm, step, sm * step], axis=1)
        found: Array = (corners[:, :, None] * loads[:, None, :]).reshape(len(pairs), -1)
        return found

    costs = nonnegative_least_squares(columns(known), known.slowdown, RIDGE)
    return columns(known) @ costs, columns(asked) @ costs


def linear_of_residuals(known: Pairs, asked: Pairs) -> Means:
    """Add what LIF-linear predicts of the model's residuals to what the model predicts."""
    fitted, mean = model_means(known, asked)
    residuals = replace(known, slowdown=known.slowdown - fitted)
    first, second = (lif_linear(residuals, each) for each in (known, asked))
    return np.maximum(fitted + first, 0.0), np.maximum(mean + second, 0.0)


def linear_as_offset(known: Pairs, asked: Pairs) -> Means:
    """Add half of what LIF-linear predicts to a model that is fitted to the residuals of that."""
    first, second = linear_means(known, asked)
    residuals = replace(known, slowdown=np.maximum(known.slowdown - first / 2, 0.0))
    fitted, mean = model_means(residuals, asked)
    return first / 2 + fitted, second / 2 + mean


def equal_blend(known: Pairs, asked: Pairs) -> Means:
    model, linear = model_means(known, asked), linear_means(known, asked)
    return (model[0] + linear[0]) / 2, (model[1] + linear[1]) / 2


COMBINATIONS: Mapping[str, Combination] = {
    "model": model_means,
    "LIF-linear": linear_means,
    "equal blend": equal_blend,
    "linear, no cost below 0": linear_costs,
    "LIF-linear of what the model leaves": linear_of_residuals,
    "half of LIF-linear as offset of the model": linear_as_offset,
}


def missed(predicted: Array, asked: Pairs) -> Array:
    found: Array = np.abs(np.exp(-predicted) - np.exp(-asked.slowdown))
    return found


def chosen(known: Pairs) -> tuple[float, float]:
    """Return the weight and the width that are best on held-out families."""
    parts = [part for part in parts_of(Split.FAMILY, known) if part[0].any() and part[1].any()]
    pairs = [(known.where(learned), known.where(judged)) for learned, judged in parts]

    def error(one: tuple[float, float]) -> float:
        return float(np.concatenate([missed(blended(a, b, *one), b) for a, b in pairs]).mean())

    return min(product(WEIGHTS, WIDTHS), key=error)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True, help="folder of the public tables")
    parser.add_argument("--gavel", action="store_true", help="without the pairs of an H200")
    options = parser.parse_args()
    sources = [read_pairs(options.data)] + ([] if options.gavel else [read_measured()])
    for split in Split:
        judge(split, join(sources))
    return 0


def judge(split: Split, pairs: Pairs) -> None:
    """Print the figures of one split; a blend is chosen only where the GPU type is unseen."""
    found: dict[str, list[tuple[Array, Pairs]]] = {}
    for learned, judged in parts_of(split, pairs):
        known, asked = pairs.where(learned), pairs.where(judged)
        answers = {
            f"{name}, and table": table_of_kinds(known, asked, *combine(known, asked))
            for name, combine in COMBINATIONS.items()
        }
        if split is Split.GPU:
            weight, width = chosen(known)
            print(f"judged on {asked.a[0].gpu_type}: weight {weight:g}, width {width:g}")
            answers["chosen blend"] = blended(known, asked, weight, width)
        for name, answer in answers.items():
            found.setdefault(name, []).append((answer, asked))
    for name, parts in found.items():
        mean = np.concatenate([answer for answer, _ in parts])
        off = np.concatenate([missed(answer, asked) for answer, asked in parts])
        rank = rank_correlation(mean, np.concatenate([asked.slowdown for _, asked in parts]))
        print(f"{split}: {name}: error {off.mean():.4f}, rank {rank:.3f}")


if __name__ == "__main__":
    sys.exit(main())
