"""Load vectors of the jobs in Gavel's public table, for the columns that it has.

What the table does not say stays absent. Where each column comes from: docs/interference.md.
"""

from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from roost_engine.prediction.interference.interference_vector import fraction, vector
from roost_train.interference.table_rows import read_rows

GAVEL_ISOLATED = Path("throughput/gavel_isolated_p100_k80.csv")


@dataclass(frozen=True, slots=True, order=True)
class PublicJob:
    """A job of a public table: the GPU it ran on, its model, its batch size ("" without one)."""

    gpu_type: str
    model: str
    batch: str


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
            rates[job] = row.number("steps_per_s")
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
