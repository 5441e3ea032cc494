"""What a job does to its GPUs over minutes, of the samples of their probes.

Each sample is averaged over the job's GPUs; a window has the mean of these averages and how they
vary, as columns of the load vector (prediction.interference.interference_vector). A quantity that
one sample of the window lacks, of any GPU, is absent.
"""

from collections.abc import Sequence
from math import isfinite

import numpy as np
from numpy.typing import NDArray

from roost_engine.domain.events import LOAD_COLUMNS
from roost_engine.prediction.interference.interference_vector import fraction, variation
from roostd.telemetry.board import NodeReport
from roostd.telemetry.link_use import nic_fracs
from roostd.telemetry.probe_messages import column, read_load

# In the order of LOAD_COLUMNS first.
QUANTITIES = ("sm", "memory", "pcie", "nvlink", "memory_used", "power", "clock", "nic")
# The newest load has the means of the first (LoadsSeen). That of `nic` is a job's expected
# communication: measured, it would be known only of jobs that have all GPUs of their nodes.
_MEANS = frozenset(QUANTITIES[len(LOAD_COLUMNS) : -1])
_NIC = QUANTITIES.index("nic")
WINDOW_S = 300.0
LEAST_SAMPLES = 5


def gpu_readings(report: NodeReport) -> NDArray[np.float64] | None:
    """Return what the newest sample of a node says of each GPU.

    Returns:
        [gpu, quantity] in gres order, columns QUANTITIES: fractions, bytes per second, watts and
        hertz, of cards what is used of their speed; NaN where nothing was reported. None before
        the first sample.
    """
    sample, order = report.sample, report.hello.order
    if sample is None:
        return None
    sizes = [gpu.memory_bytes for gpu in report.hello.gpus]
    used = column(sample.memory_used_bytes, order)
    memory = [
        None if in_use is None or not size else in_use / size
        for in_use, size in zip(used, sizes, strict=True)
    ]
    more = (
        memory,
        column(sample.power_w, order),
        column(sample.sm_clock_hz, order),
        nic_fracs(report),
    )
    columns = [np.array(values, dtype=np.float64) for values in more]
    found: NDArray[np.float64] = np.column_stack([read_load(sample, order), *columns])
    return found


def share_of(readings: NDArray[np.float64], gpus: Sequence[int]) -> NDArray[np.float64]:
    """Return the readings of a job's GPUs on a node: [gpu, quantity].

    A card counts for all GPUs near it, so it is known only of a job that has all of the node's.

    Args:
        readings: of the node's GPUs.
        gpus: of the job, by gres index.
    """
    found: NDArray[np.float64] = readings[list(gpus)]
    if len(found) < len(readings):
        found[:, _NIC] = np.nan
    return found


class LoadWindow:
    """Sums of the samples since `began_s`, in engine time."""

    def __init__(self, began_s: float) -> None:
        self.began_s, self.sample_count = began_s, 0
        self._sum = np.zeros(len(QUANTITIES))
        self._square = np.zeros(len(QUANTITIES))

    def add(self, readings: Sequence[NDArray[np.float64]]) -> None:
        """Count one sample.

        Args:
            readings: of the job's GPUs, by node: [gpu, quantity].
        """
        mean = np.concatenate(readings).mean(axis=0)
        self.sample_count += 1
        self._sum += mean
        self._square += mean * mean

    def load(self) -> dict[str, float]:
        """Return the columns that are known: JobLoadSeen.load; empty with too few samples."""
        if self.sample_count < LEAST_SAMPLES:
            return {}
        means, squares = self._sum / self.sample_count, self._square / self.sample_count
        found = dict[str, float]()
        for quantity, mean, square in zip(
            QUANTITIES, means.tolist(), squares.tolist(), strict=True
        ):
            if quantity in _MEANS:
                found[quantity] = fraction(quantity, mean)
            found[f"{quantity}_variation"] = variation(mean, square)
        return {name: value for name, value in found.items() if isfinite(value)}


def has_changed(before: dict[str, float], now: dict[str, float]) -> bool:
    """Return whether a load differs from the one reported last by more than 0.02 in a column."""
    return before.keys() != now.keys() or any(abs(before[name] - now[name]) > 0.02 for name in now)
