"""The load vector of a job: what it does to its GPUs, links and network, as fractions with a mask.

A quantity has two columns: its mean, and its variation v / (1 + v) with v the standard deviation
over the mean; no table that is trained on has variations. A quantity that was not reported is
absent: its mask is 0 and its value is 0, which no reader may take for a measurement. Page:
docs/interference.md.
"""

from collections.abc import Mapping
from math import isfinite, sqrt

import numpy as np
from numpy.typing import NDArray

from roost_engine.cluster.features import NVLINK_HALF_BYTES_PER_S, PCIE_HALF_BYTES_PER_S

SCHEMA_VERSION = 1  # of QUANTITIES and of the layout below; a model says which one it reads

QUANTITIES = (
    "sm",
    "memory",
    "memory_used",
    "pcie",
    "nvlink",
    "nic",
    "power",
    "clock",
    "step_time",
)
COLUMNS: tuple[str, ...] = tuple(
    f"{quantity}_{what}" for what in ("mean", "variation") for quantity in QUANTITIES
)
COLUMN = {name: position for position, name in enumerate(COLUMNS)}
MASK = slice(len(COLUMNS), 2 * len(COLUMNS))
_NAMES = {quantity: f"{quantity}_mean" for quantity in QUANTITIES} | {
    name: name for name in COLUMNS if name.endswith("_variation")
}
_AT = {name: (COLUMN[column], MASK.start + COLUMN[column]) for name, column in _NAMES.items()}
PRESENT = 2 * len(COLUMNS)  # 1 in every vector: in a sum of vectors the number of jobs
WIDTH = PRESENT + 1
VECTOR_COLUMNS: tuple[str, ...] = (*COLUMNS, *(f"{name}_known" for name in COLUMNS), "present")

# A quantity r without an upper limit becomes r / (r + half). PCIe and NVLink: as in the columns of
# score policies. A GPU of 350 W, a clock of 1.5 GHz and steps of 0.1 s are in the middle of
# what public tables and data sheets have.
HALVES: Mapping[str, float] = {
    "pcie": PCIE_HALF_BYTES_PER_S,
    "nvlink": NVLINK_HALF_BYTES_PER_S,
    "power": 350.0,
    "clock": 1.5e9,
    "step_time": 0.1,
}


def fraction(quantity: str, value: float) -> float:
    """Return a quantity on the scale of the vectors, 0 to 1; NaN stays NaN.

    Args:
        quantity: of QUANTITIES.
        value: bytes per second for pcie and nvlink, watts, hertz, seconds a step; fractions for
            the other quantities.
    """
    half = HALVES.get(quantity)
    if not isfinite(value) or value < 0:
        return float("nan")
    return min(value, 1.0) if half is None else value / (value + half)


def variation(mean: float, square: float) -> float:
    """Return the variation column of values with this mean and mean square; NaN: no mean."""
    if not mean > 0.0:
        return float("nan")
    relative = sqrt(max(square - mean * mean, 0.0)) / mean
    return relative / (1.0 + relative)


def vector(means: Mapping[str, float]) -> NDArray[np.float32]:
    """Return the vector of a job from what is known of it.

    Args:
        means: by quantity, on the scale of `fraction`, and variations as "sm_variation"; one that
            is absent or NaN is unknown.

    Returns:
        float32 [WIDTH], columns VECTOR_COLUMNS.

    Raises:
        KeyError: there is no such quantity.
    """
    row = np.zeros(WIDTH, dtype=np.float32)
    row[PRESENT] = 1.0
    for quantity, mean in means.items():
        at, mask_at = _AT[quantity]
        if mean >= 0.0:  # NaN is not
            row[at], row[mask_at] = min(mean, 1.0), 1.0
    return row
