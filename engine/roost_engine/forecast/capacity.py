"""What the jobs of a play share: free GPUs, quotas of Slurm's, and the ends by time limits."""

from bisect import bisect_left, insort
from collections.abc import Iterator, Sequence
from math import inf

from roost_engine.cluster.node_sets import NO_NODES, NodeSet, first_nodes, node_set, nodes_in
from roost_engine.forecast.snapshot import Held, Part, Uses

_ROUNDING = 1e-6  # amounts are counts, or sums of a few fractions


class QuotaCapacity:
    """What Slurm's limits leave, and what running jobs give back when they end.

    Args:
        free: by number of the quota.
    """

    def __init__(self, free: Sequence[float]) -> None:
        self._free = list(free)
        self._held: dict[int, Uses] = {}

    def allow(self, uses: Uses) -> bool:
        """Return whether each quota has enough left."""
        return all(amount <= self._free[quota] + _ROUNDING for quota, amount in uses)

    def note(self, number: int, uses: Uses) -> None:
        """Note what a job that counts already gives back."""
        if uses:
            self._held[number] = uses

    def take(self, number: int, uses: Uses) -> None:
        """Let a job count that starts."""
        self.note(number, uses)
        for quota, amount in uses:
            self._free[quota] -= amount

    def give_back(self, number: int) -> bool:
        """Take a job out that ended; returns whether a quota has more left than before."""
        uses = self._held.pop(number, ())
        for quota, amount in uses:
            self._free[quota] += amount
        return bool(uses)


class NodeCapacity:
    """The free GPUs of every node."""

    def __init__(self, free: Sequence[int]) -> None:
        self.free = list(free)
        self.most = max(self.free, default=0)
        self.at_least: list[NodeSet] = []
        self._grow(self.most)

    def _grow(self, most: int) -> None:
        """Make the sets of nodes with at least 0, 1, ... and up to `most` + 1 free GPUs."""
        self.most = max(most, self.most)
        self.at_least = [
            node_set(node for node, free in enumerate(self.free) if free >= count)
            for count in range(self.most + 2)
        ]

    def change(self, held: Held, sign: int) -> NodeSet:
        """Free (1) or take (-1) GPUs; returns the nodes."""
        changed = NO_NODES
        for node, count in held:
            bit, before = 1 << node, self.free[node]
            after = self.free[node] = before + sign * count
            changed |= bit
            if after > self.most:
                self._grow(after)
                continue
            low, high = (before, after) if sign > 0 else (after, before)
            for level in range(low + 1, high + 1):
                self.at_least[level] ^= bit
        return changed

    def able(self, part: Part) -> NodeSet:
        """Return the nodes that hold one node's part of a shape now."""
        if part.gpu_count > self.most:
            return NO_NODES
        return part.nodes & self.at_least[part.gpu_count]

    def fullest(self, part: Part, able: NodeSet) -> Held:
        """Choose the fullest nodes; of equals the first."""
        chosen, missing = list[tuple[int, int]](), part.node_count
        for level in range(part.gpu_count, self.most + 1):
            here = able & ~self.at_least[level + 1]
            if not here:
                continue
            if missing == 1:
                chosen.append(((here & -here).bit_length() - 1, part.gpu_count))
                return tuple(chosen)
            found = nodes_in(first_nodes(here, missing))
            chosen += [(node, part.gpu_count) for node in found]
            missing -= len(found)
            if not missing:
                break
            able &= self.at_least[level + 1]
        return tuple(chosen)


class LimitEnds:
    """When running jobs end by their time limits, in order of time; those without one are left out.

    Args:
        is_on: False where nothing is ever reserved: then nothing is kept.
    """

    def __init__(self, is_on: bool) -> None:
        self._is_on = is_on
        self._ends: list[tuple[float, int, Held]] = []
        self._end_of: dict[int, float] = {}

    def __iter__(self) -> Iterator[tuple[float, int, Held]]:
        return iter(self._ends)

    def add(self, number: int, end_s: float, held: Held) -> None:
        """Add a job that starts."""
        if self._is_on and end_s < inf:
            self._end_of[number] = end_s
            insort(self._ends, (end_s, number, held))

    def remove(self, number: int) -> None:
        """Take a job out, if it is in."""
        end_s = self._end_of.pop(number, None)
        if end_s is not None:
            del self._ends[bisect_left(self._ends, (end_s, number))]
