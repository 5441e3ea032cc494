"""Link bandwidth: the all-reduce bandwidth of a set of GPUs inside a node, as NCCL would find it.

The unit is NCCL's bus bandwidth: bytes per second that every GPU sends, independent of the number
of GPUs. The best of these counts:

    a switch    every GPU's lanes lead to the switch: lanes · bandwidth of a lane
    rings       over NVLink alone: rings that fit beside each other · bandwidth of a lane
    chains      over NVLink alone: 0.92 · chains that fit · lane · 2 (n - 1) / n
    a ring      over any links: the slowest link of the best order

Methods, constants and checks: docs/simulator/links.md.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from math import inf

from roost_engine.domain.topology import LinkMatrix
from roost_sim.worlds.links.link_constants import Generation, generation_of
from roost_sim.worlds.links.rings import MOST_GPUS, Lanes, chain_count, has_ring, ring_count
from roost_sim.worlds.links.set_search import FoundSet, fastest, slowest

# NCCL counts a tree inside one node as 0.92 of its lanes (its tuning, releases 2.5 to 2.28).
_TREE_FRAC = 0.92


@dataclass(slots=True)
class LinkBandwidth:
    """The all-reduce bandwidths of all sets of GPUs of one kind of node; cached by set.

    Attributes:
        links: of the node.
        generation: the constants of its links.
        has_trees: False: without chains, as NCCL before release 2.4.
    """

    links: LinkMatrix
    generation: Generation
    has_trees: bool = True
    _known: dict[tuple[int, ...], float] = field(default_factory=dict)
    _on_nvlink: dict[tuple[int, ...], bool] = field(default_factory=dict)
    _fastest: dict[int, FoundSet] = field(default_factory=dict)
    _by_matrix: dict[object, float] = field(default_factory=dict)

    @classmethod
    def of(cls, links: LinkMatrix, gpu_model: str = "") -> "LinkBandwidth":
        """Return the bandwidths of a kind of node; the same object for the same kind."""
        return _bandwidths(links, gpu_model)

    @property
    def is_switched(self) -> bool:
        """Return whether all GPUs are behind one NVLink switch.

        A matrix shows for each pair the lanes that reach the switch. So lanes between all pairs,
        and in sum more than a GPU has, are behind a switch.
        """
        lanes = {link.nvlink_count for row in self.links.links for link in row if link is not None}
        if len(lanes) != 1 or 0 in lanes:
            return False
        return min(lanes) * (self.links.gpu_count - 1) > self.generation.most_lanes

    def bytes_per_s(self, gpu_indices: Sequence[int]) -> float:
        """Return the bus bandwidth of a set; infinite for one GPU.

        Args:
            gpu_indices: of GPUs of the node, in any order, each once.
        """
        gpus = tuple(sorted(gpu_indices))
        if gpus not in self._known:
            self._known[gpus] = self._of_matrix(gpus)
        return self._known[gpus]

    def best_bytes_per_s(self, gpu_count: int) -> float:
        """Return the bandwidth of the best set of so many GPUs of an idle node; see `fastest`."""
        return self.fastest(gpu_count).value

    def fastest(self, gpu_count: int) -> FoundSet:
        """Return the set of so many GPUs with the highest bandwidth, in bytes per second.

        Where more than set_search.ALL_SETS sets are possible, the best of the promising ones.
        """
        if gpu_count not in self._fastest:
            self._fastest[gpu_count] = fastest(
                self._choice(gpu_count), gpu_count, self._of_matrix, self.most
            )
        return self._fastest[gpu_count]

    def slowest(self, gpu_count: int) -> FoundSet:
        """Return the set of so many GPUs with the lowest bandwidth; likewise."""
        return slowest(self._choice(gpu_count), gpu_count, self._of_matrix, self.least, self.most)

    def _choice(self, gpu_count: int) -> int:
        """Return of how many GPUs sets are chosen: behind a switch all sets are equal."""
        return gpu_count if self.is_switched else self.links.gpu_count

    def stretch(self, gpu_indices: Sequence[int], limit_bytes_per_s: float = inf) -> float:
        """Return how many times longer a set takes than the best set of its size, 1 or more.

        Args:
            gpu_indices: of the set.
            limit_bytes_per_s: of something else that the data passes in any case, such as the
                node's port; a set with more bandwidth gains nothing.
        """
        if len(gpu_indices) == 1:
            return 1.0
        best = min(self.best_bytes_per_s(len(gpu_indices)), limit_bytes_per_s)
        return max(best / min(self.bytes_per_s(gpu_indices), limit_bytes_per_s), 1.0)

    def is_on_nvlink(self, gpu_indices: Sequence[int]) -> bool:
        """Return whether the set reduces over NVLink alone, so that it uses no PCIe."""
        gpus = tuple(sorted(gpu_indices))
        if gpus not in self._on_nvlink:
            self._on_nvlink[gpus] = len(gpus) > 1 and self.bytes_per_s(gpus) == self._over_nvlink(
                gpus
            )
        return self._on_nvlink[gpus]

    def _of_matrix(self, gpus: tuple[int, ...]) -> float:
        """Return the bandwidth of a set; sets with the same links are computed once."""
        key = tuple(self.links.links[a][b] for a in gpus for b in gpus if b < a)
        if key not in self._by_matrix:
            self._by_matrix[key] = max(self._over_nvlink(gpus), self._over_any(gpus))
        return self._by_matrix[key]

    def _over_nvlink(self, gpus: tuple[int, ...]) -> float:
        """Return the bandwidth over NVLink alone; 0 where it does not join the set."""
        count = len(gpus)
        if count == 1:
            return inf
        lanes: Lanes = tuple(tuple(self._lanes(a, b) for b in gpus) for a in gpus)
        lane = self.generation.lane_bytes_per_s
        if self.is_switched:
            return lanes[0][1] * lane
        if count > MOST_GPUS:
            return 0.0
        rings = ring_count(lanes) * lane
        if not self.has_trees or count == 2:
            return rings
        chains = chain_count(lanes) * lane * 2 * (count - 1) / count
        return max(rings, _TREE_FRAC * chains)

    def _over_any(self, gpus: tuple[int, ...]) -> float:
        """Return the bandwidth of the best single ring: that of its slowest link."""
        widths = [[self._width(a, b) for b in gpus] for a in gpus]
        for least in sorted(
            {width for row in widths for width in row if width < inf}, reverse=True
        ):
            if has_ring([[width >= least for width in row] for row in widths]):
                return least
        return inf

    def most(self, gpus: tuple[int, ...]) -> float:
        """Return a bandwidth that the set does not exceed, found without a search.

        A ring takes two links of every GPU, so no more than the second widest of each. Rings and
        chains over NVLink take lanes of every GPU, and a chain one less than there are GPUs.
        """
        count = len(gpus)
        if self.is_switched or count <= 2:
            return self._of_matrix(gpus)
        others = [[b for b in gpus if b != a] for a in gpus]
        widths = (
            sorted(self._width(a, b) for b in near)[-2]
            for a, near in zip(gpus, others, strict=True)
        )
        any_ring = min(widths)
        if count > MOST_GPUS:
            return any_ring
        lanes = [sum(self._lanes(a, b) for b in near) for a, near in zip(gpus, others, strict=True)]
        chains = min(min(lanes), sum(lanes) / 2 / (count - 1)) * 2 * (count - 1) / count
        lane_count = max(min(lanes), _TREE_FRAC * chains)
        return max(any_ring, lane_count * self.generation.lane_bytes_per_s)

    def least(self, gpus: tuple[int, ...]) -> float:
        """Return a bandwidth that the set has at least: any ring has that of the narrowest pair."""
        return min(self._width(a, b) for a in gpus for b in gpus if a != b)

    def _lanes(self, a: int, b: int) -> int:
        link = self.links.links[a][b]
        return 0 if link is None else link.nvlink_count

    def _width(self, a: int, b: int) -> float:
        """Return the bandwidth between two GPUs; NVLink or PCIe, whichever is wider."""
        link = self.links.links[a][b]
        if link is None:
            return inf
        pcie = self.generation.pcie_bytes_per_s[link.level]
        return max(link.nvlink_count * self.generation.lane_bytes_per_s, pcie)


@lru_cache(maxsize=64)
def _bandwidths(links: LinkMatrix, gpu_model: str) -> LinkBandwidth:
    return LinkBandwidth(links, generation_of(gpu_model))
