"""Does a blend of the interference model with LIF-linear predict unseen jobs and GPUs better?

For unseen GPU types weight and width are also chosen, by held-out model families of the types that
are learned from; the equal blend is judged under every split without any choice. Figures:
docs/results/neighbours.md.
"""

import argparse
import sys
from itertools import product
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from roost_train.interference.interference_baselines import lif_linear, table_of_kinds
from roost_train.interference.interference_fit import Shape, fit
from roost_train.interference.interference_measured import read_measured
from roost_train.interference.interference_pairs import Pairs, Split, join, parts_of, read_pairs
from roost_train.interference.interference_training import WIDTHS
from roost_train.runtimes.run_time_figures import rank_correlation

Array = NDArray[np.float64]
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
    """Print the figures of one split; the blend is chosen where the GPU type is unseen alone."""
    found: dict[str, list[tuple[Array, Pairs]]] = {}
    for learned, judged in parts_of(split, pairs):
        known, asked = pairs.where(learned), pairs.where(judged)
        answers = {
            "equal blend, width 0.8": blended(known, asked, 0.5, 0.8),
            "model and table, width 0.8": blended(known, asked, 0.0, 0.8),
            "LIF-linear": lif_linear(known, asked),
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
