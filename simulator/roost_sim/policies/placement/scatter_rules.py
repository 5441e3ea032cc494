"""Scatter rules that depend on free GPUs only: first fit, random, load balance, alignment.

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
    """Any free GPUs; every set is equally likely. See scatter.ScatterRule.

    Each GPU gets a hash of seed, job and position; the GPUs with the smallest hashes are taken.

    Attributes:
        seed: of the hashes.
    """

    seed: int

    def take(self, free: FreeGpus, at_s: float) -> NDArray[np.int64]:
        """See ScatterRule."""
        salt = self.seed.to_bytes(8, "little", signed=True)
        digest = blake2b(free.job.job_id.encode(), digest_size=8, key=salt).digest()
        gpus = free.nodes[:, None] * MAX_GPUS + np.arange(MAX_GPUS)
        draws = _mixed(np.uint64(int.from_bytes(digest, "little")) ^ gpus.astype(np.uint64))
        node, gpu = np.nonzero(free.masks[:, None] >> np.arange(MAX_GPUS) & 1)
        first = np.argsort(draws[node, gpu], kind="stable")[: free.wanted]
        taken = np.zeros_like(free.masks)
        np.bitwise_or.at(taken, node[first], np.int64(1) << gpu[first])
        return taken


@dataclass(frozen=True, slots=True)
class MachineOrRandom:
    """The first node that holds the whole job; without one, any free GPUs. See ScatterRule.

    Attributes:
        scattered: places the jobs that no node holds.
    """

    scattered: RandomGpus

    def take(self, free: FreeGpus, at_s: float) -> NDArray[np.int64]:
        """See ScatterRule."""
        holds = np.flatnonzero(free.counts >= free.wanted)
        if not len(holds):
            return self.scattered.take(free, at_s)
        counts = np.zeros_like(free.counts)
        counts[holds[0]] = free.wanted
        return lowest_of(free.masks, counts)


class LoadBalance:
    """GPU by GPU, the node with the most free GPUs; ties go to the first node."""

    def take(self, free: FreeGpus, at_s: float) -> NDArray[np.int64]:
        """See ScatterRule.

        A node with f free GPUs gives GPUs when it has f, f-1, ... left, so the GPUs taken are
        those with the highest of these numbers over all nodes. Example: 4 of counts [4, 2, 3] are
        taken at 4, 3, 3 and 2, which is [3, 0, 1].
        """
        levels = np.arange(int(free.counts.max()), 0, -1)
        drawn_at = (free.counts[:, None] >= levels).sum(axis=0)
        full = int(np.searchsorted(np.cumsum(drawn_at), free.wanted, side="right"))
        floor = int(levels[0]) - full  # every node is left with at most so many
        counts = np.maximum(free.counts - floor, 0)
        left = free.wanted - int(counts.sum())
        counts[np.flatnonzero(free.counts >= floor)[:left]] += 1
        return lowest_of(free.masks, counts)


class TreeLoadBalance:
    """GPU by GPU, the rack with the most free GPUs, and in it the node with the most."""

    def take(self, free: FreeGpus, at_s: float) -> NDArray[np.int64]:
        """See ScatterRule."""
        racks, left, in_rack = free.racks, free.counts.copy(), free.rack_counts()
        for _ in range(free.wanted):
            rack = int(np.argmax(in_rack))
            left[np.argmax(np.where(racks == rack, left, -1))] -= 1
            in_rack[rack] -= 1
        return lowest_of(free.masks, free.counts - left)


class Alignment:
    """GPU by GPU, the node whose free resources align best with the demand of one GPU: Tetris.

    The score is the dot product of free resources and demand, in GPUs, CPUs and memory, each as a
    fraction of the node's. Ties go to the first node.
    """

    def take(self, free: FreeGpus, at_s: float) -> NDArray[np.int64]:
        """See ScatterRule."""
        cluster, nodes, shape = free.cluster, free.nodes, exact_shape(free.job)
        size = shape.gpus_per_node
        parts = (
            (cluster.gpu_free.of(nodes), cluster.gpu_count[nodes], 1.0),
            (cluster.cpu_free.of(nodes), cluster.cpu_count[nodes], shape.cpus_per_node / size),
            (
                cluster.memory_free.of(nodes),
                cluster.memory_bytes[nodes],
                shape.memory_per_node_bytes / size,
            ),
        )
        score, step = np.zeros(len(nodes)), np.zeros(len(nodes))
        for idle, whole, asked in parts:
            if asked:
                score += idle / whole * (asked / whole)
                step += (asked / whole) ** 2  # each GPU taken lowers its node's score by this
        return lowest_of(free.masks, _greedily(score, step, free.counts, free.wanted))


def fill(counts: NDArray[np.int64], wanted: int) -> NDArray[np.int64]:
    """Return how many each gives if each in turn gives all it has: 5 of [2, 4, 1] are [2, 3, 0]."""
    before = np.cumsum(counts) - counts
    given: NDArray[np.int64] = np.clip(wanted - before, 0, counts)
    return given


def _greedily(
    score: NDArray[np.float64],
    step: NDArray[np.float64],
    counts: NDArray[np.int64],
    wanted: int,
) -> NDArray[np.int64]:
    """One at a time from the node with the highest score, which then falls by the node's step."""
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
    """Hash numbers to 64 bits: the finalizer of splitmix64 (Steele et al., OOPSLA 2014)."""
    mixed = numbers * _GAMMA
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        mixed = (mixed ^ (mixed >> np.uint64(shift))) * np.uint64(factor)
    result: NDArray[np.uint64] = mixed ^ (mixed >> np.uint64(31))
    return result
