"""The curves of one run for the report, in a few kilobytes: job times, queue, nodes over time.

Metrics are exact and computed elsewhere; curves are for drawing. They are plain lists, so that they
can be sent between processes and written to files without conversion.
"""

from array import array
from collections.abc import Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from roost_engine.domain.model import JobId, NodeName, NodeShare
from roost_sim.clusters.cluster_spec import ClusterSpec
from roost_sim.figures.metrics import Span
from roost_sim.figures.outcome import JobResult
from roost_sim.figures.sharing import GpuHolds
from roost_sim.runs.simulation import Report

QUANTILES = 200
QUEUE_POINTS = 400
HEAT_COLUMNS = 200
HEAT_ROWS = 64
# One letter for each fraction, "0" for 0 and "_" for 1: a thirtieth of the memory of numbers, for a
# sweep of thousands of runs. Steps of 1.6 % are too small to see.
HEAT_DIGITS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz-_"


@dataclass(frozen=True, slots=True, kw_only=True)
class Curves:
    """The curves of one run.

    Attributes:
        jct_s: quantiles of the measured jobs' completion times at (i + 0.5) / len, ascending.
        end_s: from the first submission to the last end; the other curves divide it evenly.
        queue: mean number of jobs that waited for GPUs, preempted ones included, in each of
            QUEUE_POINTS parts.
        heat: busy fraction of groups of nodes, a text for each group with a letter of HEAT_DIGITS
            for each part; nodes in the cluster's order.
        heat_names: first and last node of each group.
        tier_counts: placements on one node, in one rack, across racks.
        left_out: (reason, jobs).
        left_out_digest: the same for the same jobs left out, "" for none. None: written by an older
            Roost, which did not say.
    """

    jct_s: list[float]
    end_s: float
    queue: list[float]
    heat: list[str]
    heat_names: list[tuple[str, str]]
    tier_counts: tuple[int, ...]
    left_out: list[tuple[str, int]]
    left_out_digest: str | None = None


@dataclass(slots=True)
class HoldLog:
    """Records how many GPUs of each node were held when. A `roost_sim.runs.driver.HoldObserver`.

    Attributes:
        cluster: the cluster of the run.
        is_shared: whether two jobs may hold a GPU at once; it is busy once.
    """

    cluster: ClusterSpec
    is_shared: bool = False
    _index: dict[NodeName, int] = field(init=False)
    # Node, GPUs, begin, end of each interval: preemptive policies make millions.
    _rows: "array[float]" = field(default_factory=lambda: array("d"))
    # Begin, end of each interval, once for all its nodes.
    _stretches: "array[float]" = field(default_factory=lambda: array("d"))
    _gpu_holds: GpuHolds = field(default_factory=GpuHolds)

    def __post_init__(self) -> None:
        self._index = {node.name: number for number, node in enumerate(self.cluster.nodes)}

    def __call__(self, shares: tuple[NodeShare, ...], begin_s: float, end_s: float) -> None:
        """Record one interval in which a job held these GPUs."""
        self._stretches.extend((begin_s, end_s))
        for share in shares:
            gpu_count = len(share.gpu_indices)
            self._rows.extend((self._index[share.node], gpu_count, begin_s, end_s))
        if self.is_shared:
            for node, since_s, until_s in self._gpu_holds.doubled(shares, begin_s, end_s):
                self._rows.extend((self._index[node], -1, since_s, until_s))

    def stretches(self) -> NDArray[np.float64]:
        """Return the intervals in which a job held GPUs: float64 [interval, (begin, end)]."""
        return np.array(self._stretches).reshape(-1, 2)

    def busy_frac(self, begin_s: float, end_s: float) -> NDArray[np.float64]:
        """Return the busy fraction of the GPUs of each group of nodes in each part of a time.

        Returns:
            float64 [group, part].
        """
        nodes = self.cluster.nodes
        groups = _groups(len(nodes))
        busy_frac = np.zeros((len(groups), HEAT_COLUMNS))
        if not self._rows or end_s <= begin_s:
            return busy_frac
        number, gpus, since_s, until_s = np.array(self._rows).reshape(-1, 4).T
        for row, (first, last) in enumerate(groups):
            inside = (number >= first) & (number < last)
            held = _covered(
                since_s[inside], until_s[inside], gpus[inside], begin_s, end_s, HEAT_COLUMNS
            )
            busy_frac[row] = held / sum(node.kind.gpu_count for node in nodes[first:last])
        return busy_frac.clip(0.0, 1.0)

    def names(self) -> list[tuple[str, str]]:
        """Return the first and the last node of each group."""
        nodes = self.cluster.nodes
        return [(nodes[a].name, nodes[b - 1].name) for a, b in _groups(len(nodes))]


def curves_of(report: Report, span: Span, holds: HoldLog) -> Curves:
    """Compute the curves of a run."""
    jobs = report.outcome.jobs
    first_s = jobs[0].submit_s if jobs else 0.0
    last_s = max((job.ended_s for job in jobs if job.ended_s is not None), default=first_s)
    return Curves(
        jct_s=_quantiles(_measured_jct_s(jobs, span)),
        end_s=last_s - first_s,
        queue=_queue(jobs, holds, first_s, last_s),
        heat=_as_letters(holds.busy_frac(first_s, last_s)),
        heat_names=holds.names(),
        tier_counts=report.metrics.tier_counts,
        left_out=list(report.metrics.left_out),
        left_out_digest=_digest([job.job_id for job in jobs if job.ended_s is None]),
    )


def _digest(job_ids: Sequence[JobId]) -> str:
    return sha256(" ".join(job_ids).encode()).hexdigest()[:16] if job_ids else ""


def _as_letters(busy_frac: NDArray[np.float64]) -> list[str]:
    digits = np.rint(busy_frac * (len(HEAT_DIGITS) - 1)).astype(int)
    return ["".join(HEAT_DIGITS[digit] for digit in row) for row in digits.tolist()]


def _measured_jct_s(jobs: Sequence[JobResult], span: Span) -> list[float]:
    begin, end = span.range_of([job.submit_s for job in jobs])
    return [job.ended_s - job.submit_s for job in jobs[begin:end] if job.ended_s is not None]


def _quantiles(values: Sequence[float]) -> list[float]:
    if not values:
        return []
    count = min(QUANTILES, len(values))
    at = (np.arange(count) + 0.5) / count
    found: list[float] = np.quantile(values, at, method="inverted_cdf").round(3).tolist()
    return found


def _queue(jobs: Sequence[JobResult], holds: HoldLog, first_s: float, last_s: float) -> list[float]:
    """Mean queue in each part: jobs in the system minus jobs that hold GPUs.

    Jobs that did not end are left out: most of them could never be placed.
    """
    stays = [(job.submit_s, job.ended_s) for job in jobs if job.ended_s is not None]
    if not stays or last_s <= first_s:
        return [0.0] * QUEUE_POINTS
    (came_s, left_s), (begin_s, end_s) = np.array(stays).T, holds.stretches().T
    means = _covered(
        np.concatenate([came_s, begin_s]),
        np.concatenate([left_s, end_s]),
        np.concatenate([np.ones(len(came_s)), -np.ones(len(begin_s))]),
        first_s,
        last_s,
        QUEUE_POINTS,
    )
    # Adding 0.0 turns what was rounded to -0.0 into 0.0.
    rounded: list[float] = (np.maximum(means, 0.0).round(2) + 0.0).tolist()
    return rounded


def _covered(
    since_s: NDArray[np.float64],
    until_s: NDArray[np.float64],
    weight: NDArray[np.float64],
    begin_s: float,
    end_s: float,
    part_count: int,
) -> NDArray[np.float64]:
    """Return, for each of the equal parts of a time, the mean sum of weights of its intervals.

    The integral of that sum up to t is linear between begins and ends of intervals; its differences
    at the borders of the parts are the integrals over the parts.

    Returns:
        float64 [part].
    """
    borders = np.linspace(begin_s, end_s, part_count + 1)
    moments = np.concatenate([since_s, until_s])
    steps = np.concatenate([weight, -weight])
    order = np.argsort(moments, kind="stable")
    moments, level = moments[order], np.cumsum(steps[order])
    integral = np.concatenate([[0.0], np.cumsum(level[:-1] * np.diff(moments))])
    at_borders = np.interp(borders, moments, integral) if len(moments) else np.zeros(len(borders))
    means: NDArray[np.float64] = np.diff(at_borders) / (borders[1] - borders[0])
    return means


def _groups(node_count: int) -> list[tuple[int, int]]:
    """First and past-the-last node of at most HEAT_ROWS groups of nearly equal size."""
    rows = min(HEAT_ROWS, node_count)
    edges = [number * node_count // rows for number in range(rows + 1)]
    return list(pairwise(edges))
