"""Groups of nodes ranked by the score of the best subset of their free GPUs.

The score is a property of the link table and never changes. So each group is ranked once, when it
first has a node, and a search reads the ranking from the top until it has enough nodes.
"""

from bisect import insort
from collections.abc import Sequence
from math import inf
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from roost_engine.cluster.link_table import LinkTable
from roost_engine.cluster.node_groups import NodeGroup
from roost_engine.cluster.node_sets import NO_NODES, NodeSet, doubled, first_nodes


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
        self._scores = np.full(64, -inf, dtype=np.float32)
        self._known_count = 0

    def best(self, nodes: NodeSet, count: int) -> list[tuple[NodeGroup, NodeSet]]:
        """Choose the nodes of the best groups; ties go to the lower node index.

        Args:
            nodes: to choose from, all with enough free GPUs.
            count: how many to choose; all if there are no more.

        Returns:
            Groups, and the chosen nodes of each.
        """
        if self._known_count < len(self._groups):
            self._rank_new_groups()
        found, level = list[tuple[NodeGroup, NodeSet]](), list[tuple[NodeGroup, NodeSet]]()
        # Groups of one score form a level; from the last level only the first nodes are chosen.
        together, score_of_level = NO_NODES, -inf
        for negative_score, _, group in self._ranked:
            if not (here := group.nodes & nodes):
                continue
            if negative_score != score_of_level:
                if (level_count := together.bit_count()) >= count:
                    break
                found += level
                count -= level_count
                level, together, score_of_level = [], NO_NODES, negative_score
            level.append((group, here))
            together |= here
        first = first_nodes(together, count)
        return found + [(group, chosen) for group, here in level if (chosen := here & first)]

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
            if group.free.bit_count() >= self._gpu_count:
                choice = self._tables[group.kind].choice(group.free, self._gpu_count)
                score = choice.best_static_score
                insort(self._ranked, RankedGroup(-score, (group.kind, group.free), group))
                self._scores[group.number] = score
        self._known_count = len(self._groups)
