"""Every set of GPUs of one kind of node, scored once and then looked up by bit mask.

A mask is an int whose bit i stands for GPU i. A node of 8 GPUs has 256 masks, one of 16 has 65,536;
both tables are built in milliseconds, so the best k of any free set is exact and costs one lookup.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, cached_property, lru_cache
from itertools import combinations
from weakref import WeakValueDictionary

import numpy as np
from numpy.typing import NDArray

from roost_engine.cluster.features import (
    COLUMN,
    HEURISTIC_WEIGHTS,
    LOAD_SCOPES,
    link_scale,
    weighted_sums,
)
from roost_engine.domain.topology import Level, Link, LinkMatrix

MAX_GPUS = 16  # of one node; the tables double with each GPU
_POTENTIAL_SIZES = (2, 4, 8)
_SHARE_WEIGHT = 0.25  # of the node's links in a free set's potential
_TIE_LIMIT = {8: 70, MAX_GPUS: 32}  # optimal subsets offered per lookup, by node size
_CACHE_LIMIT = 4096
STATIC_COLUMNS = slice(0, COLUMN["leftover_frac"] + 1)
LOAD_COLUMNS = slice(STATIC_COLUMNS.stop, STATIC_COLUMNS.stop + 4 * len(LOAD_SCOPES))
LOAD_COLUMN_COUNT = LOAD_COLUMNS.stop - LOAD_COLUMNS.start
_SCOPE_LEVELS = (Level.MULTIPLE_SWITCHES, Level.NUMA_NODE, Level.SYSTEM)  # as LOAD_SCOPES


@cache
def mask_of(gpu_indices: tuple[int, ...]) -> int:
    """Turn indices into a mask."""
    mask = 0
    for index in gpu_indices:
        mask |= 1 << index
    return mask


@cache
def indices_of(mask: int) -> tuple[int, ...]:
    """Turn a mask into ascending indices."""
    return tuple(index for index in range(mask.bit_length()) if mask >> index & 1)


@lru_cache(_CACHE_LIMIT)
def subsets(mask: int, size: int) -> tuple[int, ...]:
    """Return all masks of so many bits within a mask."""
    return tuple(mask_of(chosen) for chosen in combinations(indices_of(mask), size))


def popcounts(gpu_count: int) -> NDArray[np.int64]:
    """Return how many bits each mask of so many GPUs has: int64 [mask]."""
    counts = np.zeros(1, dtype=np.int64)
    for _ in range(gpu_count):
        counts = np.concatenate((counts, counts + 1))
    return counts


POPCOUNT = popcounts(MAX_GPUS)
"""How many bits each mask has: int64 [mask]."""


@dataclass(frozen=True, slots=True, eq=False)
class SubsetChoice:
    """The k-subsets of one free set that share the best link score, least fragmenting first.

    Attributes:
        free_mask: the free set.
        masks: int64 [subset].
        link_score: of each of them.
        ideal_link_score: of as many GPUs on an idle node.
        static: float32 [subset, 5], the load-free columns of a one-node candidate.
        neighbours: float32 [subset * scope, gpu]: weights that average over the GPUs of each
            scope that are not in the subset; times a node's load they give the load columns.
        best_static_score: the best heuristic score among `static`.
    """

    free_mask: int
    masks: NDArray[np.int64]
    link_score: int
    ideal_link_score: int
    static: NDArray[np.float32]
    neighbours: NDArray[np.float32]
    best_static_score: float


def best_static_score(static: NDArray[np.float32]) -> float:
    """Return the best heuristic score of some candidates on one node, load left out.

    Args:
        static: float32 [subset, 5], see SubsetChoice.
    """
    return float(weighted_sums(static, HEURISTIC_WEIGHTS[STATIC_COLUMNS, None]).max())


class LinkTable:
    """The sets of GPUs of one kind of node; each table is built when it is first needed."""

    def __init__(self, links: LinkMatrix) -> None:
        if not 1 <= links.gpu_count <= MAX_GPUS:
            raise ValueError(f"{links.gpu_count} GPUs in one node; want 1 to {MAX_GPUS}")
        self.links = links
        self.gpu_count = links.gpu_count
        self.full_mask = (1 << links.gpu_count) - 1
        self._choices: dict[tuple[int, int], SubsetChoice] = {}
        self._parts: dict[tuple[int, int], tuple[NDArray[np.float32], int]] = {}

    @classmethod
    def of(cls, links: LinkMatrix) -> "LinkTable":
        """Return the table of these links, the same to all clusters of the process.

        A training plays many small clusters of the same nodes side by side: with a table for each,
        choosing subsets that another cluster has chosen already took a twentieth of its time. Where
        one cluster drops its tables, another that has such nodes builds them again.
        """
        found = _shared.get(links)
        if found is None:
            found = _shared[links] = cls(links)
        return found

    def drop_tables(self) -> None:
        """Free the memory of all tables, 5 MB for 16 GPUs; they are built again when needed."""
        kept = ("links", "gpu_count", "full_mask")
        for name in self.__dict__.keys() - kept:
            del self.__dict__[name]
        self._choices, self._parts = {}, {}

    @cached_property
    def popcount(self) -> NDArray[np.int64]:
        """How many GPUs each set has: int64 [mask]."""
        return popcounts(self.gpu_count)

    @cached_property
    def set_scores(self) -> NDArray[np.int32]:
        """Link score of each set: int32 [mask]; source: docs/links.md."""
        return _set_scores(self.links)

    @cached_property
    def best_scores(self) -> NDArray[np.int32]:
        """Best link score of k GPUs out of a free set: int32 [k, mask]; -1: too few."""
        return _best_scores(self.set_scores, self.popcount, self.gpu_count)

    @cached_property
    def potential(self) -> NDArray[np.float64]:
        """What a free set is still good for: float64 [mask], 0..1.

        Three quarters are link_scale() of its best 2, 4 and 8 GPUs, each weighing its size, so that
        a job takes the last GPUs of a nearly full node before it breaks into an idle one. One
        quarter is its share of the node's links, which separates a GPU without a partner from one
        of a pair where whole pairs are left either way.
        """
        return self._potentials()

    @cached_property
    def _by_size(self) -> list[NDArray[np.int64]]:
        return [np.flatnonzero(self.popcount == k) for k in range(self.gpu_count + 1)]

    @cached_property
    def _around(self) -> NDArray[np.int64]:
        return _around(self.links)

    @cached_property
    def score_by_set(self) -> list[int]:
        """`set_scores` as a list, for single look-ups."""
        listed: list[int] = self.set_scores.tolist()
        return listed

    @cached_property
    def best_by_size(self) -> list[int]:
        """Best link score of each number of GPUs of an idle node."""
        listed: list[int] = self.best_scores[:, self.full_mask].tolist()
        return listed

    @cached_property
    def idle_losses(self) -> NDArray[np.float64]:
        """How much potential an idle node loses with each set: [mask], as `fragmentation`."""
        return self.fragmentation(self.full_mask, np.arange(len(self.potential)))

    def best_score(self, free_mask: int, gpu_count: int) -> int:
        """Best link score of `gpu_count` GPUs out of a free set, -1 where it holds fewer."""
        if gpu_count > self.gpu_count:
            return -1
        return int(self.best_scores[gpu_count, free_mask])

    def fragmentation(
        self, free_masks: int | NDArray[np.int64], masks: NDArray[np.int64]
    ) -> NDArray[np.float64]:
        """Return how much potential a free set loses when each of some subsets is taken from it.

        Args:
            free_masks: what is free before: one set for all, or [subset].
            masks: [subset], each within its free set.

        Returns:
            [subset], 0..1.
        """
        left = self.potential[free_masks & ~masks]
        lost: NDArray[np.float64] = self.potential[free_masks] - left
        return lost

    def choice(self, free_mask: int, gpu_count: int) -> SubsetChoice:
        """Return the optimal subsets of a free set. The set must hold that many GPUs."""
        key = (free_mask, gpu_count)
        found = self._choices.get(key)
        if found is None:
            if len(self._choices) >= _CACHE_LIMIT:
                self._choices.clear()
            found = self._choices[key] = self._choose(free_mask, gpu_count)
        return found

    def only(self, free_mask: int, mask: int) -> SubsetChoice:
        """One subset of a free set as a choice, for a job that can have no other."""
        masks = np.array([mask], dtype=np.int64)
        size = mask.bit_count()
        lost = self.fragmentation(free_mask, masks)
        left = int(self.popcount[free_mask]) - size
        static = self.static_features(masks, lost, left)
        return SubsetChoice(
            free_mask=free_mask,
            masks=masks,
            link_score=int(self.set_scores[mask]),
            ideal_link_score=self.best_score(self.full_mask, size),
            static=static,
            neighbours=self.neighbour_weights(masks),
            best_static_score=best_static_score(static),
        )

    def _choose(self, free_mask: int, gpu_count: int) -> SubsetChoice:
        best = self.best_scores[gpu_count, free_mask]
        sized = self._by_size[gpu_count]
        ties = sized[(sized & ~free_mask == 0) & (self.set_scores[sized] == best)]
        lost = self.fragmentation(free_mask, ties)
        order = np.lexsort((ties, lost))
        limit = _TIE_LIMIT[8 if self.gpu_count <= 8 else MAX_GPUS]
        if len(order) > limit:
            # Keep the least fragmenting, spread over the node: neighbours differ along it.
            least = order[lost[order] <= lost[order[0]] + 1e-12]
            order = least[np.linspace(0, len(least) - 1, min(limit, len(least))).astype(np.int64)]
        masks = ties[order]
        static = self.static_features(masks, lost[order], int(self.popcount[free_mask]) - gpu_count)
        return SubsetChoice(
            free_mask=free_mask,
            masks=masks,
            link_score=int(best),
            ideal_link_score=self.best_score(self.full_mask, gpu_count),
            static=static,
            neighbours=self.neighbour_weights(masks),
            best_static_score=best_static_score(static),
        )

    def part(self, free_mask: int, mask: int) -> tuple[NDArray[np.float32], int]:
        """Return what a subset of a free set adds to a gang: load-free columns and link score.

        Returns:
            float32 [5], as `static_features`; and its entry in `set_scores`.
        """
        key = (free_mask, mask)
        found = self._parts.get(key)
        if found is None:
            self.compute_parts((key,))
            found = self._parts[key]
        return found

    def compute_parts(self, parts: Sequence[tuple[int, int]]) -> None:
        """Compute what part() will return for each (free mask, subset), all in one go."""
        by_size: dict[int, list[tuple[int, int]]] = {}
        for key in dict.fromkeys(parts):
            if key not in self._parts:
                by_size.setdefault(key[1].bit_count(), []).append(key)
        for size, keys in by_size.items():
            if len(self._parts) >= _CACHE_LIMIT:
                self._parts.clear()
            free, masks = np.array(keys, dtype=np.int64).T
            left = self.popcount[free] - size
            static = self.static_features(masks, self.fragmentation(free, masks), left)
            for key, columns in zip(keys, static, strict=True):
                self._parts[key] = columns, int(self.set_scores[key[1]])

    def static_features(
        self,
        masks: NDArray[np.int64],
        lost: NDArray[np.float64],
        leftover_count: int | NDArray[np.int64],
    ) -> NDArray[np.float32]:
        """Return the load-free columns of one-node candidates.

        Args:
            masks: [subset], all of one size.
            lost: [subset], their fragmentation.
            leftover_count: GPUs that stay free on the node: one number for all, or [subset].

        Returns:
            float32 [subset, 5], the first columns of cluster.features.COLUMNS.
        """
        size = int(self.popcount[masks[0]])
        pair_count = size * (size - 1) // 2
        static = np.zeros((len(masks), STATIC_COLUMNS.stop), dtype=np.float32)
        scores = self.set_scores[masks].astype(np.float64)
        ideal = float(self.best_scores[size, self.full_mask])
        if pair_count:
            static[:, COLUMN["link_frac"]] = link_scale(scores / pair_count)
        static[:, COLUMN["link_best_frac"]] = scores / ideal if ideal > 0 else 1.0
        static[:, COLUMN["fragmentation_frac"]] = lost
        static[:, COLUMN["leftover_frac"]] = leftover_count / self.gpu_count
        return static

    def neighbour_weights(self, masks: NDArray[np.int64]) -> NDArray[np.float32]:
        """Averaging weights over the GPUs around each subset; see SubsetChoice.neighbours."""
        around = self._around[masks] & ~masks[:, None]
        bits = (around[:, :, None] >> np.arange(self.gpu_count)) & 1
        weights = bits / np.maximum(bits.sum(axis=2, keepdims=True), 1)
        return np.asarray(weights.reshape(-1, self.gpu_count), dtype=np.float32)

    def _potentials(self) -> NDArray[np.float64]:
        total = np.zeros(1 << self.gpu_count, dtype=np.float64)
        for size in _POTENTIAL_SIZES:
            if size <= self.gpu_count:
                best = np.maximum(self.best_scores[size], 0) / (size * (size - 1) // 2)
                total += size * link_scale(best)
        share = self.set_scores / max(int(self.set_scores[self.full_mask]), 1)
        return (1 - _SHARE_WEIGHT) * total / sum(_POTENTIAL_SIZES) + _SHARE_WEIGHT * share


_shared = WeakValueDictionary[LinkMatrix, LinkTable]()  # as long as some cluster has such a node


def _set_scores(links: LinkMatrix) -> NDArray[np.int32]:
    """Score of every mask: that of the mask without its highest GPU, plus that GPU's pairs."""
    scores = np.zeros(1, dtype=np.int32)
    for gpu, links_of_gpu in enumerate(links.links):
        pairs = np.zeros(1, dtype=np.int32)
        for other in range(gpu):
            link = links_of_gpu[other]
            pairs = np.concatenate((pairs, pairs + (link.score if link else 0)))
        scores = np.concatenate((scores, scores + pairs))
    return scores.astype(np.int32)


def _best_scores(
    set_scores: NDArray[np.int32], popcount: NDArray[np.int64], gpu_count: int
) -> NDArray[np.int32]:
    """Maximum over all subsets of one size, by the subset-maximum (zeta) transform."""
    sizes = np.arange(gpu_count + 1)[:, None]
    best = np.where(popcount[None, :] == sizes, set_scores[None, :], -1).astype(np.int32)
    for gpu in range(gpu_count):
        halves = best.reshape(gpu_count + 1, -1, 2, 1 << gpu)  # axis 2: without, with this GPU
        np.maximum(halves[:, :, 1], halves[:, :, 0], out=halves[:, :, 1])
    return best


def _around(links: LinkMatrix) -> NDArray[np.int64]:
    """[mask, scope]: every GPU that shares a switch, a root, the node with one of a mask."""
    around = np.zeros((1, len(LOAD_SCOPES)), dtype=np.int64)
    for links_of_gpu in links.links:
        near = [
            mask_of(tuple(b for b, link in enumerate(links_of_gpu) if link and link.level <= level))
            for level in _SCOPE_LEVELS
        ]
        around = np.concatenate((around, around | np.array(near, dtype=np.int64)))
    return around


@cache
def unknown_links(gpu_count: int) -> LinkMatrix:
    """Return links as far apart as can be: what is assumed until a probe reports."""
    return LinkMatrix.uniform(min(max(gpu_count, 1), MAX_GPUS), Link(Level.SYSTEM))
