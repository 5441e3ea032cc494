"""Load vectors of the jobs in public tables, for as many columns as each table has.

What a table does not say stays absent. Where each column comes from: docs/interference.md.
"""

import csv
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from roost_engine.prediction.interference_vector import fraction, vector
from roost_train.errors import BadTable

GAVEL_ISOLATED = Path("throughput/gavel_isolated_p100_k80.csv")
MURI_STAGES = Path("throughput/muri_stage_profile.csv")
ALNAIR_PROFILES = Path("interference/alnair_p100_job_profiles.csv")
MISO_TIMES = Path("interference/miso_a100_mig_batch_time.csv")
MISO_MEMORY = Path("interference/miso_memory_mib.csv")
_A100_MIB = 40_960.0
_WHOLE_SLICES = "7"


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
            reader = csv.DictReader(file)
            missing = [name for name in wanted if name not in (reader.fieldnames or ())]
            if missing:
                raise BadTable(path, 1, f"no column {missing[0]}")
            for row in reader:
                if any(row[name] is None for name in wanted):
                    raise BadTable(path, reader.line_num, "too few fields")
                yield row
    except (OSError, UnicodeDecodeError) as error:
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


def muri_vectors(data: Path) -> dict[PublicJob, NDArray[np.float32]]:
    """Return the vectors of Muri's stage profiles, one for each model and number of GPUs.

    Shares of a step: the GPU's stage is SM activity, the network's stage how busy the card is.
    The `batch` of the result is "64x8" for a batch of 64 on 8 GPUs.
    """
    path, found = data / MURI_STAGES, {}
    names = ("model", "batch_size", "num_gpus", "iteration_ms", "gpu_ms", "network_ms")
    for row in read_rows(path, names):
        step_ms = number(path, row, "iteration_ms")
        means = {
            "sm": min(number(path, row, "gpu_ms") / step_ms, 1.0),
            "nic": min(number(path, row, "network_ms") / step_ms, 1.0),
            "step_time": fraction("step_time", step_ms / 1000.0),
        }
        found[PublicJob("v100", row["model"], f"{row['batch_size']}x{row['num_gpus']}")] = vector(
            means
        )
    return found


def alnair_vectors(data: Path) -> dict[PublicJob, NDArray[np.float32]]:
    """Return the vectors of Alnair's profiles on a P100.

    The table has the least and the most of each quantity. Their middle stands for the mean, and
    half their distance for the standard deviation, which is an upper bound of it.
    """
    path, found = data / ALNAIR_PROFILES, {}
    ends = {
        "sm": ("Min_GPU_Util_%", "MGUP"),
        "memory": ("MiGTSAMP", "MaGTSAMP"),
        "power": ("MiGPUPR", "MaGPUPR"),
    }
    names = ("Model", "Dataset", "BS", "MGMAP", *(name for pair in ends.values() for name in pair))
    for row in read_rows(path, names):
        means = {"memory_used": number(path, row, "MGMAP") / 100.0}
        variations = {}
        for quantity, (least, most) in ends.items():
            low, high = sorted((number(path, row, least) / 100, number(path, row, most) / 100))
            middle = (low + high) / 2
            # Power is a share of the card's limit, 250 W for this P100.
            means[quantity] = fraction(quantity, middle * (250.0 if quantity == "power" else 1.0))
            if middle > 0:
                variations[quantity] = (high - low) / 2 / middle
        model = f"{row['Model'].replace(' ', '')}/{row['Dataset']}"
        found[PublicJob("p100", model, row["BS"])] = vector(means, variations)
    return found


def miso_vectors(data: Path) -> dict[PublicJob, NDArray[np.float32]]:
    """Return the vectors of MISO's jobs alone on a whole A100: memory used and step time."""
    memory = {
        (row["model"], row["batch_size"]): number(data / MISO_MEMORY, row, "gpu_mem_mib")
        for row in read_rows(data / MISO_MEMORY, ("model", "batch_size", "gpu_mem_mib"))
    }
    path, found = data / MISO_TIMES, {}
    for row in read_rows(path, ("model", "batch_size", "mig_compute_slices", "median_batch_s")):
        if row["mig_compute_slices"] != _WHOLE_SLICES:
            continue
        means = {"step_time": fraction("step_time", number(path, row, "median_batch_s"))}
        mib = memory.get((row["model"], row["batch_size"]))
        if mib is not None:
            means["memory_used"] = mib / _A100_MIB
        found[PublicJob("a100", row["model"], row["batch_size"])] = vector(means)
    return found
