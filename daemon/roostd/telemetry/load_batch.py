"""The load of many nodes, made of their newest samples at once.

Of one node the load takes 26 us: half for the check of all values, half for arrays of eight
numbers. Here only the columns that are read are checked, and all nodes' numbers are one array:
9 us a node. A sample that is not of the usual form, or not plausible, is read as one alone.
"""

import math
from collections.abc import Iterator
from itertools import compress

import numpy as np
from numpy.typing import NDArray

from roost_engine.domain.events import LOAD_COLUMNS, LoadsSeen
from roost_proto.v1 import telemetry_pb2 as pb
from roostd.telemetry.board import NodeReport
from roostd.telemetry.probe_messages import FLOAT_LIMITS, read_load

_COLUMNS = (
    "sm_frac",
    "memory_activity_frac",
    "pcie_tx_bytes_per_s",
    "pcie_rx_bytes_per_s",
    "nvlink_tx_bytes_per_s",
    "nvlink_rx_bytes_per_s",
)
_LIMITS = np.array([FLOAT_LIMITS[name] for name in _COLUMNS])[:, None]


class LoadBatch:
    """Gathers reports of nodes, for one event for each number of GPUs that a node has."""

    def __init__(self) -> None:
        self._by_gpu_count: dict[int, _Rows] = {}

    def add(self, report: NodeReport) -> None:
        """Add the newest plausible sample of a node; nothing where there is none."""
        gpu_count = len(report.hello.gpus)
        rows = self._by_gpu_count.get(gpu_count)
        if rows is None:
            rows = self._by_gpu_count[gpu_count] = _Rows(gpu_count)
        rows.add(report)

    def events(self, at_s: float) -> Iterator[LoadsSeen]:
        """Yield the load of all that were added."""
        for rows in self._by_gpu_count.values():
            reports, load = rows.load()
            if reports:
                names = tuple(report.hello.node for report in reports)
                yield LoadsSeen(at_s=at_s, names=names, load=load)


class _Rows:
    """The samples of nodes that have the same number of GPUs."""

    def __init__(self, gpu_count: int) -> None:
        self._gpu_count, self._full_mask = gpu_count, (1 << gpu_count) - 1
        self._unknown = [math.nan] * gpu_count
        self._reports: list[NodeReport] = []
        self._values: list[float] = []  # [node, column, GPU as NVML numbers it]
        self._has: list[bool] = []  # [node, column]
        self._alone: list[bool] = []  # [node]: is to be read alone

    def add(self, report: NodeReport) -> None:
        sample = report.newest
        if sample is None:
            return
        self._reports.append(report)
        count = len(self._has)
        is_usual = self._add_columns(sample)
        if not is_usual:
            del self._has[count:], self._values[count * self._gpu_count :]
            self._has += [False] * len(_COLUMNS)
            self._values += self._unknown * len(_COLUMNS)
        self._alone.append(not is_usual)

    def _add_columns(self, sample: pb.Sample) -> bool:
        """Add the columns of which a sample has all GPUs or none; return False for any other."""
        for packed in (
            sample.sm_frac,
            sample.memory_activity_frac,
            sample.pcie_tx_bytes_per_s,
            sample.pcie_rx_bytes_per_s,
            sample.nvlink_tx_bytes_per_s,
            sample.nvlink_rx_bytes_per_s,
        ):
            mask, values = packed.present_mask, packed.values[:]
            if mask == self._full_mask and len(values) == self._gpu_count:
                self._values += values
            elif mask or values:
                return False
            else:
                self._values += self._unknown
            self._has.append(bool(mask))
        return True

    def load(self) -> tuple[list[NodeReport], NDArray[np.float32]]:
        """Return the nodes with a plausible sample, and their load: LoadsSeen.load."""
        node_count = len(self._reports)
        values = np.array(self._values).reshape(node_count, len(_COLUMNS), self._gpu_count)
        has = np.array(self._has, dtype=bool).reshape(node_count, len(_COLUMNS), 1)
        is_plausible = (values >= 0) & (values <= _LIMITS) | ~has
        alone = np.array(self._alone, dtype=bool) | ~is_plausible.all(axis=(1, 2))
        load = self._in_gres_order(_loads_of(values))
        left_out = []
        for place in np.flatnonzero(alone).tolist():
            report = self._reports[place]
            if (sample := report.sample) is None:
                left_out.append(place)
            else:
                load[place] = read_load(sample, report.hello.order)
        if not left_out:
            return self._reports, load
        keeps = np.ones(node_count, dtype=bool)
        keeps[left_out] = False
        return [*compress(self._reports, keeps.tolist())], load[keeps]

    def _in_gres_order(self, load: NDArray[np.float32]) -> NDArray[np.float32]:
        orders = [report.hello.order for report in self._reports]
        if all(order == tuple(range(self._gpu_count)) for order in set(orders)):
            return load
        return np.take_along_axis(load, np.array(orders)[:, :, None], axis=1)


def _loads_of(values: NDArray[np.float64]) -> NDArray[np.float32]:
    """Return [node, GPU, 4] of [node, column, GPU]; a rate is the sum of those that are known."""
    load = np.empty((values.shape[0], values.shape[2], len(LOAD_COLUMNS)), dtype=np.float32)
    sent, received = values[:, 2::2], values[:, 3::2]
    with np.errstate(over="ignore", invalid="ignore"):  # of implausible samples, which are replaced
        both = sent + received
        rates = np.where(np.isnan(sent), received, np.where(np.isnan(received), sent, both))
        load[:, :, :2] = np.minimum(values[:, :2], 1.0).transpose(0, 2, 1)
        load[:, :, 2:] = rates.transpose(0, 2, 1)
    return load
