"""Groups of interchangeable nodes, ranked by what the best subset of their free GPUs is worth.

Nodes of one kind with the same GPUs free form a group; its score is a property of the link table
and never changes. So groups are ranked once, when they first appear, and a search reads the ranking
from the top until it has enough nodes.
"""

from bisect import insort
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from roost_engine.cluster.link_table import LinkTable, SubsetChoice
from roost_engine.cluster.node_sets import NodeSet


class RankedGroup(NamedTuple):
    """Some nodes of a group.

    Attributes:
        score: the heuristic's load-free score of the best subset.
        nodes: with the same kind and the same GPUs free.
        kind: of the nodes.
        choice: the best subsets.
    """

    score: float
    nodes: NodeSet
    kind: int
    choice: SubsetChoice


class GroupRanking:
    """The groups that can give a number of GPUs, best first.

    Args:
        gpu_count: GPUs wanted of a node.
        tables: link tables, by kind of node; grows at its end.
        groups: the nodes of each group, by (kind, mask of the free GPUs).
        keys: every key that `groups` ever had, once; grows at its end.
    """

    def __init__(
        self,
        gpu_count: int,
        tables: Sequence[LinkTable],
        groups: Mapping[tuple[int, int], NodeSet],
        keys: Sequence[tuple[int, int]],
    ) -> None:
        self._gpu_count, self._tables, self._groups, self._keys = gpu_count, tables, groups, keys
        self._ranked: list[tuple[float, tuple[int, int], SubsetChoice]] = []
        self._seen_count = 0

    def among(self, nodes: NodeSet) -> Iterator[RankedGroup]:
        """Yield the groups that have some of the nodes, with these only; the best group first.

        Args:
            nodes: all with as many free GPUs; others are ignored.
        """
        if self._seen_count < len(self._keys):
            self._catch_up()
        groups = self._groups
        for negative_score, key, choice in self._ranked:
            if (all_of_group := groups.get(key)) and (here := all_of_group & nodes):
                yield RankedGroup(-negative_score, here, key[0], choice)

    def _catch_up(self) -> None:
        for key in self._keys[self._seen_count :]:
            kind, free_mask = key
            if free_mask.bit_count() >= self._gpu_count:
                choice = self._tables[kind].choice(free_mask, self._gpu_count)
                insort(self._ranked, (-choice.best_static_score, key, choice), key=_by_score)
        self._seen_count = len(self._keys)


def _by_score(entry: tuple[float, tuple[int, int], SubsetChoice]) -> tuple[float, tuple[int, int]]:
    return entry[0], entry[1]
