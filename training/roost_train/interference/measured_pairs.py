"""Pairs that Roost's own benchmark measured on an H200: `benchmarks/measure_pairs.py`.

The tables are in `measured/`; their first lines say on what and how they were measured. Their jobs
have the two columns that Gavel's have, or also what the driver said of them while they ran alone.
"""

from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from roost_engine.prediction.interference.interference_vector import fraction, vector
from roost_train.errors import BadTable
from roost_train.interference.pairs import Pairs, log_slowdown
from roost_train.interference.public import PublicJob
from roost_train.interference.table_rows import Row, read_rows

GPU_TYPE = "h200"
_FOLDER = Path(__file__).with_name("measured")
ALONE, PAIRS = _FOLDER / "alone_h200.csv", _FOLDER / "pairs_h200.csv"
_MEMORY_BYTES = 150_754_820_096  # of the GPU
_LOADS = {
    "sm": "sm_frac",
    "memory": "memory_activity_frac",
    "power": "power_w",
    "clock": "sm_clock_hz",
}


def read_measured(*, with_mps: bool = False, with_loads: bool = False) -> Pairs:
    """Read the pairs of the H200.

    Args:
        with_mps: those of two clients of MPS, relative to a client alone; else those without.
        with_loads: all columns that the driver reported; else Gavel's two, by Gavel's definitions.

    Raises:
        BadTable: a table cannot be read.
    """
    mps = "1" if with_mps else "0"
    rates = {
        _job(row, ""): row.number("steps_per_s")
        for row in read_rows(ALONE, ("mps", "model", "batch", "steps_per_s"))
        if row["mps"] == mps
    }
    vectors = _loads() if with_loads else _by_speed(rates)
    a, b, slowdown = list[PublicJob](), list[PublicJob](), list[float]()
    names = [f"{what}_{one}" for what in ("model", "batch", "steps_per_s") for one in "ab"]
    for row in read_rows(PAIRS, ("mps", *names)):
        if row["mps"] != mps:
            continue
        both = {one: _job(row, f"_{one}") for one in "ab"}
        for one, other in ("ab", "ba"):
            if (alone := rates.get(both[one])) is None:
                raise BadTable(PAIRS, 0, f"{both[one]} has no speed alone")
            a.append(both[one])
            b.append(both[other])
            slowdown.append(log_slowdown(row.number(f"steps_per_s_{one}") / alone))
    own, beside = (np.stack([vectors[job] for job in jobs]) for jobs in (a, b))
    return Pairs(a, b, own, beside, np.array(slowdown))


def _job(row: Row, which: str) -> PublicJob:
    return PublicJob(GPU_TYPE, row[f"model{which}"], row[f"batch{which}"])


def _by_speed(rates: Mapping[PublicJob, float]) -> dict[PublicJob, NDArray[np.float32]]:
    """Return vectors of step time and how full the batch makes the GPU, as gavel_vectors does."""
    most = defaultdict[str, float](float)
    for job, rate in rates.items():
        most[job.model] = max(most[job.model], rate * float(job.batch))
    return {
        job: vector(
            {
                "step_time": fraction("step_time", 1.0 / rate),
                "sm": rate * float(job.batch) / most[job.model],
            }
        )
        for job, rate in rates.items()
    }


def _loads() -> dict[PublicJob, NDArray[np.float32]]:
    """Return vectors of what the driver said of each job alone without MPS."""
    found = {}
    for row in read_rows(ALONE, ("mps", "model", "batch", "steps_per_s", *_LOADS.values())):
        if row["mps"] != "0":
            continue
        means = {
            quantity: fraction(quantity, row.number(column)) for quantity, column in _LOADS.items()
        }
        means["step_time"] = fraction("step_time", 1.0 / row.number("steps_per_s"))
        means["memory_used"] = row.number("memory_bytes") / _MEMORY_BYTES
        found[_job(row, "")] = vector(means)
    return found
