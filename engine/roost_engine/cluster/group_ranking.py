"""Groups of nodes ranked by the score of the best subset of their free GPUs.

The score is a property of the link table and never changes. So each group is ranked once, when it
first has a node, and a search reads the ranking from the top until it has enough nodes. Where only
a few of the ranked groups have nodes, it sorts these instead.
"""

from bisect import bisect_left, insort
from collections.abc import Iterable, Sequence
from math import inf
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from roost_engine.cluster.link_table import LinkTable, SubsetChoice
from roost_engine.cluster.node_groups import NodeGroup, NodeGroups
from roost_engine.cluster.node_sets import NO_NODES, NodeSet, doubled, first_nodes

_MANY = 2  # groups in the ranking for each one with nodes: to sort the latter is quicker


class RankedGroup(NamedTuple):
    """A group and its place in a ranking.

    Attributes:
        negative_score: so that the best score sorts first.
        key: settles ties.
        choice: the link-optimal subsets of what is free on each of its nodes.
    """

    negative_score: float
    key: tuple[int, int]
    group: NodeGroup
    choice: SubsetChoice


class GroupRanking:
    """The groups that can give a number of GPUs, best first.

    The score of a group is the heuristic's score of the best subset, load left out.

    Args:
        gpu_count: GPUs wanted of a node.
        tables: link tables, by kind of node; grows at its end.
        groups: of the nodes.
    """

    def __init__(self, gpu_count: int, tables: Sequence[LinkTable], groups: NodeGroups) -> None:
        self._gpu_count, self._tables, self._groups = gpu_count, tables, groups
        self._ranked: list[RankedGroup] = []
        self._by_number: list[RankedGroup | None] = []  # None: it has too few free GPUs
        self._places: list[int] = []  # by number of a group, where it is in the ranking; -1: not
        self._scores = np.full(64, -inf, dtype=np.float32)

    def best(self, nodes: NodeSet, count: int) -> list[tuple[RankedGroup, NodeSet]]:
        """Choose the nodes of the best groups; ties go to the lower node index.

        Args:
            nodes: to choose from, all with enough free GPUs.
            count: how many to choose; all if there are no more.

        Returns:
            Groups, and the chosen nodes of each.
        """
        self._rank_new_groups()
        ranked: Iterable[RankedGroup] = self._ranked
        if len(self._ranked) > _MANY * len(self._groups.occupied):
            place_of = self._places
            places = sorted([place_of[group.number] for group in self._groups.occupied])
            ranked = map(self._ranked.__getitem__, places[bisect_left(places, 0) :])  # -1: not
        found: list[tuple[RankedGroup, NodeSet]] = []
        # Groups of one score form a level; from the last level only the first nodes are chosen.
        level: list[tuple[RankedGroup, NodeSet]] = []
        together, score_of_level = NO_NODES, -inf
        for one in ranked:
            here = one[2].nodes & nodes  # its group's; a field by name takes four times as long
            if not here:
                continue
            negative_score = one[0]
            if negative_score != score_of_level:
                if (level_count := together.bit_count()) >= count:
                    break
                found += level
                count -= level_count
                level, together, score_of_level = [], NO_NODES, negative_score
            level.append((one, here))
            together |= here
        if together.bit_count() <= count:
            return found + level
        first = first_nodes(together, count)
        return found + [(one, chosen) for one, here in level if (chosen := here & first)]

    def among(self, nodes: NodeSet) -> list[tuple[RankedGroup, NodeSet]]:
        """Return the groups of some nodes, which are few, in the order of their nodes.

        Args:
            nodes: all with enough free GPUs.
        """
        self._rank_new_groups()
        by_number, found = self._by_number, self._groups.among(nodes)
        return [(one, some) for group, some in found.items() if (one := by_number[group.number])]

    def scores(self) -> NDArray[np.float32]:
        """Return the score of each group: float32 [group], -inf where it has too few free GPUs."""
        self._rank_new_groups()
        return self._scores

    def _rank_new_groups(self) -> None:
        if len(self._by_number) == len(self._groups.groups):
            return
        for group in self._groups.groups[len(self._by_number) :]:
            if group.number >= len(self._scores):
                self._scores = doubled(self._scores)
                self._scores[group.number :] = -inf
            ranked = None
            if group.free.bit_count() >= self._gpu_count:
                choice = self._tables[group.kind].choice(group.free, self._gpu_count)
                score = choice.best_static_score
                ranked = RankedGroup(-score, (group.kind, group.free), group, choice)
                insort(self._ranked, ranked)
                self._scores[group.number] = score
            self._by_number.append(ranked)
        self._places = [-1] * len(self._by_number)
        for place, each in enumerate(self._ranked):
            self._places[each.group.number] = place
