"""What a report draws of one run, cut down to a few kilobytes: job times, queue, nodes over time.

Metrics are exact and made elsewhere; curves are for the eye. They are plain lists, so that they
travel between processes and into files as they are.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from roost_sim.cluster_spec import ClusterSpec
from roost_sim.driver import JobResult, Outcome
from roost_sim.metrics import Span
from roostd.core.model import NodeName, NodeShare

QUANTILES = 200
QUEUE_POINTS = 400
HEAT_COLUMNS = 200
HEAT_ROWS = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class Curves:
    """Of one run.

    Attributes:
        jct_s: quantiles of the measured jobs' completion times at (i + 0.5) / len, ascending.
        end_s: from the first submission to the last end; the time that the others divide evenly.
        queue: mean number of jobs that had not started yet, in each of QUEUE_POINTS parts.
        heat: busy share 0..1 of groups of nodes [group][part], nodes in the cluster's order.
        heat_names: first and last node of each group.
        tier_counts: placements on one node, in one rack, across racks.
        left_out: (reason, jobs).
    """

    jct_s: list[float]
    end_s: float
    queue: list[float]
    heat: list[list[float]]
    heat_names: list[tuple[str, str]]
    tier_counts: tuple[int, ...]
    left_out: list[tuple[str, int]]


@dataclass(slots=True)
class HoldLog:
    """Notes who held GPUs of which node when. It is a `roost_sim.driver.HoldSeen`.

    Attributes:
        cluster: whose nodes.
    """

    cluster: ClusterSpec
    _index: dict[NodeName, int] = field(init=False)
    _rows: list[tuple[int, int, float, float]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._index = {node.name: number for number, node in enumerate(self.cluster.nodes)}

    def __call__(self, shares: tuple[NodeShare, ...], begin_s: float, end_s: float) -> None:
        """Take in one stretch."""
        for share in shares:
            gpu_count = len(share.gpu_indices)
            self._rows.append((self._index[share.node], gpu_count, begin_s, end_s))

    def heat(self, begin_s: float, end_s: float) -> list[list[float]]:
        """Busy share of the GPUs of each group of nodes in each part of a time: Curves.heat."""
        groups = _groups(len(self.cluster.nodes))
        group_of = np.repeat(np.arange(len(groups)), [last - first for first, last in groups])
        gpu_counts = np.array([node.kind.gpu_count for node in self.cluster.nodes], dtype=float)
        there = np.array([gpu_counts[first:last].sum() for first, last in groups])
        if not self._rows or end_s <= begin_s:
            return [[0.0] * HEAT_COLUMNS for _ in groups]
        node, gpus, since_s, until_s = np.array(self._rows, dtype=float).T
        grid = np.array(
            [
                _covered(since_s[rows], until_s[rows], gpus[rows], begin_s, end_s, HEAT_COLUMNS)
                for rows in (group_of[node.astype(int)] == number for number in range(len(groups)))
            ]
        )
        shares: list[list[float]] = np.clip(grid / there[:, None], 0.0, 1.0).round(3).tolist()
        return shares

    def names(self) -> list[tuple[str, str]]:
        """First and last node of each group."""
        nodes = self.cluster.nodes
        return [(nodes[a].name, nodes[b - 1].name) for a, b in _groups(len(nodes))]


def curves_of(outcome: Outcome, span: Span, holds: HoldLog) -> Curves:
    """Cut a run down to its curves."""
    jobs = outcome.jobs
    first_s = jobs[0].submit_s if jobs else 0.0
    last_s = max((job.ended_s for job in jobs if job.ended_s is not None), default=first_s)
    left_out: dict[str, int] = {}
    for job in jobs:
        if job.left_out:
            left_out[job.left_out] = left_out.get(job.left_out, 0) + 1
    tiers = [job.tier for job in jobs]
    return Curves(
        jct_s=_quantiles(_measured_jct_s(jobs, span)),
        end_s=last_s - first_s,
        queue=_queue(jobs, first_s, last_s),
        heat=holds.heat(first_s, last_s),
        heat_names=holds.names(),
        tier_counts=tuple(tiers.count(tier) for tier in range(3)),
        left_out=sorted(left_out.items(), key=lambda item: (-item[1], item[0])),
    )


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


def _queue(jobs: Sequence[JobResult], first_s: float, last_s: float) -> list[float]:
    """Jobs that nothing could ever place wait for nothing, and do not count."""
    waits = [(job.submit_s, job.started_s) for job in jobs if job.started_s is not None]
    if not waits or last_s <= first_s:
        return [0.0] * QUEUE_POINTS
    since_s, until_s = np.array(waits).T
    ones = np.ones(len(waits))
    means = _covered(since_s, until_s, ones, first_s, last_s, QUEUE_POINTS)
    rounded: list[float] = np.maximum(means, 0.0).round(2).tolist()
    return rounded


def _covered(
    since_s: NDArray[np.float64],
    until_s: NDArray[np.float64],
    weight: NDArray[np.float64],
    begin_s: float,
    end_s: float,
    part_count: int,
) -> NDArray[np.float64]:
    """Mean weight of the stretches that cover each of the equal parts of a time, [part].

    The integral of the covering weight up to t is linear between ends of stretches; its
    differences at the borders of the parts are what each part received.
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
    """First and past-the-last node of at most HEAT_ROWS groups that are as equal as can be."""
    rows = min(HEAT_ROWS, node_count)
    edges = [number * node_count // rows for number in range(rows + 1)]
    return list(pairwise(edges))
