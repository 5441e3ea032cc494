"""Groups of nodes ranked by the score of the best subset of their free GPUs.

The score is a property of the link table and never changes. So each group is ranked once, when it
first has a node, and a search reads the ranking from the top until it has enough nodes.
"""

from bisect import insort
from collections.abc import Iterator, Sequence
from math import inf
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from roost_engine.cluster.link_table import LinkTable
from roost_engine.cluster.node_groups import NodeGroup
from roost_engine.cluster.node_sets import NodeSet, doubled


class RankedGroup(NamedTuple):
    """A group and its place in a ranking.

    Attributes:
        negative_score: so that the best score sorts first.
        key: settles ties.
    """

    negative_score: float
    key: tuple[int, int]
    group: NodeGroup


class GroupRanking:
    """The groups that can give a number of GPUs, best first.

    The score of a group is the heuristic's score of the best subset, load left out.

    Args:
        gpu_count: GPUs wanted of a node.
        tables: link tables, by kind of node; grows at its end.
        groups: every group, by number; grows at its end.
    """

    def __init__(
        self, gpu_count: int, tables: Sequence[LinkTable], groups: Sequence[NodeGroup]
    ) -> None:
        self._gpu_count, self._tables, self._groups = gpu_count, tables, groups
        self._ranked: list[RankedGroup] = []
        self._negative_scores: list[float] = []
        self._scores = np.full(64, -inf, dtype=np.float32)  # the same as an array
        self._known_count = 0

    def among(self, nodes: NodeSet) -> Iterator[tuple[float, NodeSet, NodeGroup]]:
        """Yield the groups that have some of the nodes, the best first.

        Args:
            nodes: all with enough free GPUs; others are ignored.

        Yields:
            Negative score, those of the nodes that are in the group, and the group.
        """
        if self._known_count < len(self._groups):
            self._rank_new_groups()
        for negative_score, _, group in self._ranked:
            if here := group.nodes & nodes:
                yield negative_score, here, group

    def negative_scores(self) -> Sequence[float]:
        """Return minus the score of each group, by number; inf where it has too few free GPUs."""
        if self._known_count < len(self._groups):
            self._rank_new_groups()
        return self._negative_scores

    def scores(self) -> NDArray[np.float32]:
        """Return the score of each group: float32 [group], -inf where it has too few free GPUs."""
        if self._known_count < len(self._groups):
            self._rank_new_groups()
        return self._scores

    def _rank_new_groups(self) -> None:
        for group in self._groups[self._known_count :]:
            if group.number >= len(self._scores):
                self._scores = doubled(self._scores)
                self._scores[group.number :] = -inf
            score = -inf
            if group.free.bit_count() >= self._gpu_count:
                choice = self._tables[group.kind].choice(group.free, self._gpu_count)
                score = choice.best_static_score
                insort(self._ranked, RankedGroup(-score, (group.kind, group.free), group))
                self._scores[group.number] = score
            self._negative_scores.append(-score)
        self._known_count = len(self._groups)
