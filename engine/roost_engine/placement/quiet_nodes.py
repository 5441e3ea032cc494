"""Single nodes of whose load nobody has told: those with the same GPUs free are equally good.

So sets of nodes are compared, not nodes, and what a subset of their GPUs is worth need not be
worked out anew for each.
"""

from collections.abc import Sequence
from itertools import groupby
from operator import itemgetter
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from roost_engine.cluster.cluster import Cluster
from roost_engine.cluster.features import COLUMNS
from roost_engine.cluster.link_table import STATIC_COLUMNS, SubsetChoice
from roost_engine.cluster.node_sets import NO_ROWS, RowSet, first_rows

NODE_COUNT = 8  # single nodes whose optimal subsets are scored

QuietChoices: TypeAlias = tuple[tuple[RowSet, SubsetChoice], ...]


def quiet_choices(cluster: Cluster, rows: RowSet, size: int) -> QuietChoices:
    """The best nodes, with their best subsets of a size."""
    tables, alike = cluster.tables, []
    for (kind, free_mask), there in cluster.free_sets.items():
        if here := there & rows:
            choice = tables[kind].choice(free_mask, size)
            alike.append((choice.best_static_score, here, choice))
    alike.sort(key=itemgetter(0), reverse=True)
    found: list[tuple[RowSet, SubsetChoice]] = []
    wanted = NODE_COUNT
    for _, equals in groupby(alike, itemgetter(0)):
        level = [(here, choice) for _, here, choice in equals]
        together = NO_ROWS
        for here, _ in level:
            together |= here
        wanted -= together.bit_count()
        if wanted < 0:
            first = first_rows(together, wanted + together.bit_count())
            level = [(chosen, choice) for here, choice in level if (chosen := here & first)]
        found += level
        if wanted <= 0:
            break
    return tuple(found)


def quiet_features(choices: Sequence[SubsetChoice]) -> NDArray[np.float32]:
    """What a policy sees of some nodes' subsets when nothing is told of their load.

    Returns:
        float32 [candidate, feature], columns cluster.features.COLUMNS.
    """
    static = np.concatenate([choice.static for choice in choices])
    features = np.zeros((len(static), len(COLUMNS)), dtype=np.float32)
    features[:, STATIC_COLUMNS] = static
    return features
