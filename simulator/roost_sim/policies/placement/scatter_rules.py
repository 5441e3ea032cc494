"""Rules that look at nothing but what is free: first fit, random, load balance, alignment.

Definitions and sources: docs/simulator/placements.md.
"""

from dataclasses import dataclass
from hashlib import blake2b

import numpy as np
from numpy.typing import NDArray

from roost_engine.cluster.link_table import MAX_GPUS
from roost_sim.policies.placement.free_gpus import FreeGpus, exact_shape, lowest_of

_GAMMA = np.uint64(0x9E3779B97F4A7C15)


class FirstFit:
    """The first free GPUs in the order of nodes, then of indices. See scatter.ScatterRule."""

    def take(self, free: FreeGpus, at_s: float) -> NDArray[np.int64]:
        """See ScatterRule."""
        return lowest_of(free.masks, fill(free.counts, free.wanted))


@dataclass(frozen=True, slots=True)
class RandomGpus:
    """Any free GPUs, each set as likely. See scatter.ScatterRule.

    Every GPU has a number that the seed, the job and its own place decide; the smallest are taken.

    Attributes:
        seed: the same seed draws the same.
    """

    seed: int

    def take(self, free: FreeGpus, at_s: float) -> NDArray[np.int64]:
        """See ScatterRule."""
        salt = self.seed.to_bytes(8, "little", signed=True)
        digest = blake2b(free.job.job_id.encode(), digest_size=8, key=salt).digest()
        gpus = free.rows[:, None] * MAX_GPUS + np.arange(MAX_GPUS)
        draws = _mixed(np.uint64(int.from_bytes(digest, "little")) ^ gpus.astype(np.uint64))
        node, gpu = np.nonzero(free.masks[:, None] >> np.arange(MAX_GPUS) & 1)
        first = np.argsort(draws[node, gpu], kind="stable")[: free.wanted]
        taken = np.zeros_like(free.masks)
        np.bitwise_or.at(taken, node[first], np.int64(1) << gpu[first])
        return taken


@dataclass(frozen=True, slots=True)
class MachineOrRandom:
    """The first node with room for the whole job, without one any free GPUs. See ScatterRule.

    Attributes:
        scattered: for those that find no node.
    """

    scattered: RandomGpus

    def take(self, free: FreeGpus, at_s: float) -> NDArray[np.int64]:
        """See ScatterRule."""
        roomy = np.flatnonzero(free.counts >= free.wanted)
        if not len(roomy):
            return self.scattered.take(free, at_s)
        counts = np.zeros_like(free.counts)
        counts[roomy[0]] = free.wanted
        return lowest_of(free.masks, counts)


class LoadBalance:
    """Again and again one GPU of the node with the most free ones, ties to the first node."""

    def take(self, free: FreeGpus, at_s: float) -> NDArray[np.int64]:
        """See ScatterRule.

        A node with f free GPUs is drawn from when it has f, f-1, ... left, so what is taken are
        the highest of these numbers over all nodes.
        """
        levels = np.arange(int(free.counts.max()), 0, -1)
        drawn_at = (free.counts[:, None] >= levels).sum(axis=0)
        full = int(np.searchsorted(np.cumsum(drawn_at), free.wanted, side="right"))
        floor = int(levels[0]) - full  # every node goes down to that many
        counts = np.maximum(free.counts - floor, 0)
        left = free.wanted - int(counts.sum())
        counts[np.flatnonzero(free.counts >= floor)[:left]] += 1
        return lowest_of(free.masks, counts)


class TreeLoadBalance:
    """Again and again one GPU: of the rack with the most free ones, of its node with the most."""

    def take(self, free: FreeGpus, at_s: float) -> NDArray[np.int64]:
        """See ScatterRule."""
        racks, left, in_rack = free.racks, free.counts.copy(), free.rack_counts()
        for _ in range(free.wanted):
            rack = int(np.argmax(in_rack))
            left[np.argmax(np.where(racks == rack, left, -1))] -= 1
            in_rack[rack] -= 1
        return lowest_of(free.masks, free.counts - left)


class Alignment:
    """Task by task, a GPU of the node whose free resources point most where the task's needs do.

    The score is the dot product of what is free and what is asked for, in GPUs, CPUs and memory,
    each as a part of what the node has. Ties go to the first node.
    """

    def take(self, free: FreeGpus, at_s: float) -> NDArray[np.int64]:
        """See ScatterRule."""
        cluster, rows, shape = free.cluster, free.rows, exact_shape(free.job)
        size = shape.gpus_per_node
        parts = (
            (cluster.gpu_free.of(rows), cluster.gpu_count[rows], 1.0),
            (cluster.cpu_free.of(rows), cluster.cpu_count[rows], shape.cpus_per_node / size),
            (
                cluster.memory_free.of(rows),
                cluster.memory_bytes[rows],
                shape.memory_per_node_bytes / size,
            ),
        )
        score, step = np.zeros(len(rows)), np.zeros(len(rows))
        for there, whole, asked in parts:
            if asked:
                score += there / whole * (asked / whole)
                step += (asked / whole) ** 2  # what a task takes away from its node's score
        return lowest_of(free.masks, _greedily(score, step, free.counts, free.wanted))


def fill(counts: NDArray[np.int64], wanted: int) -> NDArray[np.int64]:
    """How many of each, when each in turn gives all that it has until it is enough."""
    before = np.cumsum(counts) - counts
    given: NDArray[np.int64] = np.clip(wanted - before, 0, counts)
    return given


def _greedily(
    score: NDArray[np.float64],
    step: NDArray[np.float64],
    counts: NDArray[np.int64],
    wanted: int,
) -> NDArray[np.int64]:
    """One at a time from the node with the highest score, which goes down by its step."""
    taken = np.zeros_like(counts)
    base, score = score, score.copy()
    for _ in range(wanted):
        node = int(np.argmax(score))
        taken[node] += 1
        if taken[node] == counts[node]:
            score[node] = -np.inf
        else:
            score[node] = base[node] - taken[node] * step[node]
    return taken


def _mixed(numbers: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Spread numbers evenly over all 64-bit ones: the finalizer of splitmix64 (Steele, 2014)."""
    mixed = numbers * _GAMMA
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        mixed = (mixed ^ (mixed >> np.uint64(shift))) * np.uint64(factor)
    result: NDArray[np.uint64] = mixed ^ (mixed >> np.uint64(31))
    return result
