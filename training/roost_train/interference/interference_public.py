"""Load vectors of the jobs in Gavel's public table, for the columns that it has.

What the table does not say stays absent. Where each column comes from: docs/interference.md.
"""

import csv
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from roost_engine.prediction.interference.interference_vector import fraction, vector
from roost_train.errors import BadTable

GAVEL_ISOLATED = Path("throughput/gavel_isolated_p100_k80.csv")


@dataclass(frozen=True, slots=True, order=True)
class PublicJob:
    """A job of a public table: the GPU it ran on, its model, its batch size ("" without one)."""

    gpu_type: str
    model: str
    batch: str


def read_rows(path: Path, columns: Iterable[str]) -> Iterator[dict[str, str]]:
    """Yield the rows of a table.

    Raises:
        BadTable: the file is missing, a column is missing, or a row has too few fields.
    """
    wanted = list(columns)
    try:
        with path.open(newline="", encoding="utf-8") as file:
            reader = csv.DictReader(line for line in file if not line.startswith("#"))
            missing = [name for name in wanted if name not in (reader.fieldnames or ())]
            if missing:
                raise BadTable(path, 1, f"no column {missing[0]}")
            for row in reader:
                if any(row[name] is None for name in wanted):
                    raise BadTable(path, reader.line_num, "too few fields")
                yield row
    except OSError as error:
        raise BadTable(path, 0, str(error.strerror)) from error
    except UnicodeDecodeError as error:
        raise BadTable(path, 0, str(error)) from error


def number(path: Path, row: Mapping[str, str], name: str) -> float:
    """Return a field as a number.

    Raises:
        BadTable: it is none, or not finite.
    """
    try:
        value = float(row[name])
    except ValueError:
        value = float("nan")
    if not np.isfinite(value):
        raise BadTable(path, 0, f"{name} is {row[name]!r}; want a number")
    return value


def gavel_vectors(data: Path) -> dict[PublicJob, NDArray[np.float32]]:
    """Return the vectors of Gavel's jobs alone on one GPU.

    SM activity is how far the batch size fills the GPU: samples per second over the most that any
    batch size of the model reaches on that GPU. It is absent for models with one batch size.
    """
    path = data / GAVEL_ISOLATED
    rates = dict[PublicJob, float]()
    names = ("gpu_type", "consolidated", "model", "batch_size", "num_gpus", "steps_per_s")
    for row in read_rows(path, names):
        if row["num_gpus"] == "1" and row["consolidated"] == "1":
            job = PublicJob(row["gpu_type"], row["model"], row["batch_size"])
            rates[job] = number(path, row, "steps_per_s")
    most: dict[tuple[str, str], list[float]] = defaultdict(list)
    for job, rate in rates.items():
        if job.batch:
            most[job.gpu_type, job.model].append(rate * float(job.batch))
    found = {}
    for job, rate in rates.items():
        means = {"step_time": fraction("step_time", 1.0 / rate)}
        samples = most.get((job.gpu_type, job.model), [])
        if len(samples) > 1:
            means["sm"] = rate * float(job.batch) / max(samples)
        found[job] = vector(means)
    return found
