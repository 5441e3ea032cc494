"""Measured pairs of jobs on one GPU, as cases of the interference model.

The only public table with jobs alone and beside each other is Gavel's, on P100 and K80; Roost's own
pairs are read by `measured_pairs`. Ratios at or above 1 are noise: they count as no slowdown.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from roost_engine.prediction.interference.interference_model import Cases
from roost_train.errors import BadTable
from roost_train.interference.public import PublicJob, gavel_vectors
from roost_train.interference.table_rows import read_rows

GAVEL_PAIRS = Path("interference/gavel_pairs_p100_k80.csv")
_LEAST_RATIO = 0.05
FOLD_COUNT = 5


class Split(StrEnum):
    """What of the judged pairs was not learned from."""

    PAIRS = "random pairs"
    FAMILY = "unseen model family"
    GPU = "unseen GPU type"


@dataclass(frozen=True, slots=True, eq=False)
class Pairs:
    """Ordered pairs: how much slower job a is beside job b.

    Attributes:
        a, b: the jobs.
        own, beside: float32 [pair, WIDTH], their vectors alone.
        slowdown: float64 [pair], log slowdown of a.
    """

    a: Sequence[PublicJob]
    b: Sequence[PublicJob]
    own: NDArray[np.float32]
    beside: NDArray[np.float32]
    slowdown: NDArray[np.float64]

    def __len__(self) -> int:
        return len(self.a)

    def where(self, chosen: NDArray[np.bool_]) -> "Pairs":
        """Return some of the pairs."""
        at = np.flatnonzero(chosen).tolist()
        return Pairs(
            [self.a[i] for i in at],
            [self.b[i] for i in at],
            self.own[at],
            self.beside[at],
            self.slowdown[at],
        )

    def cases(self) -> Cases:
        """Return the pairs as cases of jobs on one node."""
        cases = Cases.empty(len(self))
        cases.own[:] = self.own
        cases.level("gpu")[:] = self.beside
        return cases


def read_pairs(data: Path) -> Pairs:
    """Read Gavel's pairs; those that did not fit in memory never ran, and are left out.

    Raises:
        BadTable: a table cannot be read, or a pair names a job that never ran alone.
    """
    vectors, path = gavel_vectors(data), data / GAVEL_PAIRS
    names = (
        "gpu_type",
        "model_a",
        "batch_a",
        "model_b",
        "batch_b",
        "speed_ratio_a",
        "fits_in_memory",
    )
    a, b, slowdown = list[PublicJob](), list[PublicJob](), list[float]()
    for row in read_rows(path, names):
        if row["fits_in_memory"] != "1":
            continue
        a.append(PublicJob(row["gpu_type"], row["model_a"], row["batch_a"]))
        b.append(PublicJob(row["gpu_type"], row["model_b"], row["batch_b"]))
        slowdown.append(log_slowdown(row.number("speed_ratio_a")))
    if missing := sorted({*a, *b} - vectors.keys()):
        raise BadTable(path, 0, f"{missing[0]} has no speed alone")
    if not a:
        raise BadTable(path, 0, "no pair ran")
    own, beside = (np.stack([vectors[job] for job in jobs]) for jobs in (a, b))
    return Pairs(a, b, own, beside, np.array(slowdown))


def join(parts: Sequence[Pairs]) -> Pairs:
    """Return the pairs of several sources as one."""
    return Pairs(
        [job for part in parts for job in part.a],
        [job for part in parts for job in part.b],
        np.concatenate([part.own for part in parts]),
        np.concatenate([part.beside for part in parts]),
        np.concatenate([part.slowdown for part in parts]),
    )


def log_slowdown(ratio: float) -> float:
    """Return the log slowdown of a job's speed over its speed alone."""
    return -float(np.log(np.clip(ratio, _LEAST_RATIO, 1.0)))


def family_of(job: PublicJob) -> str:
    """Return the family of a job's model: ResNet of ResNet-18 and ResNet-50."""
    return job.model.split("-")[0]


def parts_of(
    split: Split, pairs: Pairs, seed: int = 0
) -> list[tuple[NDArray[np.bool_], NDArray[np.bool_]]]:
    """Return (to learn from, to judge by) of each part of a split.

    Both orders of a pair are on the same side. Of an unseen family no pair is learned from in
    which either job belongs to it.
    """
    match split:
        case Split.PAIRS:
            both = [tuple(sorted(pair)) for pair in zip(pairs.a, pairs.b, strict=True)]
            numbers = {pair: at for at, pair in enumerate(sorted(set(both)))}
            folds = np.random.default_rng(seed).integers(0, FOLD_COUNT, len(numbers))
            fold = folds[[numbers[pair] for pair in both]]
            return [(fold != each, fold == each) for each in range(FOLD_COUNT)]
        case Split.FAMILY:
            of_a = np.array([family_of(job) for job in pairs.a])
            of_b = np.array([family_of(job) for job in pairs.b])
            touched = [(of_a == name) | (of_b == name) for name in sorted({*of_a, *of_b})]
            return [(~each, each) for each in touched]
        case Split.GPU:
            types = np.array([job.gpu_type for job in pairs.a])
            return [(types != name, types == name) for name in sorted(set(types))]
