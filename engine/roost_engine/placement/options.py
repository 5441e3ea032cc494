"""Options: candidate placements that no score can tell apart, described once.

A search does not list candidates one by one. Nodes with the same links and the same GPUs free are
interchangeable while their load is unknown, so one option stands for all of them.
"""

from collections.abc import Sequence
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from roost_engine.cluster.features import COLUMN, COLUMNS
from roost_engine.cluster.link_table import LOAD_COLUMNS, STATIC_COLUMNS, LinkTable, SubsetChoice
from roost_engine.cluster.node_sets import NodeSet
from roost_engine.domain.tier import Tier
from roost_engine.domain.value import value

Part: TypeAlias = tuple[int, int, int]
"""What one node gives: kind of the node, mask of its free GPUs, mask of the GPUs taken."""


class Load(NamedTuple):
    """How busy the GPUs around a candidate are.

    Attributes:
        around: float32 [candidate, column], the LOAD_COLUMNS of cluster.features.COLUMNS.
        known_frac: share of the nodes' GPUs whose load is known.
    """

    around: NDArray[np.float32]
    known_frac: float


@value(eq=False)
class NodeOption:
    """Candidates on one node each: every subset of the choice, on every node of the set.

    Attributes:
        nodes: interchangeable nodes; a single one where the load is known.
        kind: of the nodes.
        choice: the link-optimal subsets of what is free on each of them. Their scores depend on
            nothing else while the load is unknown.
        load: of the subsets; None while it is unknown.
    """

    nodes: NodeSet
    kind: int
    choice: SubsetChoice
    load: Load | None = None


@value(eq=False)
class GangOption:
    """One candidate on several nodes, or on GPUs that a policy of the literature scattered.

    Attributes:
        nodes: node indices, ascending.
        parts: what each of them gives.
        tier: how close together they are.
        load: None while it is unknown.
    """

    nodes: tuple[int, ...]
    parts: tuple[Part, ...]
    tier: Tier
    load: Load | None = None

    @property
    def key(self) -> object:
        """What its score depends on while the load is unknown."""
        return self.parts, self.tier


Option: TypeAlias = NodeOption | GangOption


def node_features(options: Sequence[NodeOption]) -> NDArray[np.float32]:
    """Return what a policy sees of the subsets on one node of each option.

    Args:
        options: one or more.

    Returns:
        float32 [subset of an option, feature], option by option.
    """
    static = np.concatenate([option.choice.static for option in options])
    features = np.zeros((len(static), len(COLUMNS)), dtype=np.float32)
    features[:, STATIC_COLUMNS] = static
    end = 0
    for option in options:
        start, end = end, end + len(option.choice.masks)
        if option.load is not None:
            features[start:end, LOAD_COLUMNS] = option.load.around
            features[start:end, COLUMN["load_known_frac"]] = option.load.known_frac
    return features


def gang_features(
    options: Sequence[GangOption], tables: Sequence[LinkTable]
) -> NDArray[np.float32]:
    """Return what a policy sees of gangs of one size, the means over their nodes.

    Args:
        options: one or more, all on as many nodes.
        tables: by kind of node.

    Returns:
        float32 [gang, feature].
    """
    wanted = [part for gang in options for part in gang.parts]
    by_kind: dict[int, list[tuple[int, int]]] = {}
    for kind, free, mask in wanted:
        by_kind.setdefault(kind, []).append((free, mask))
    for kind, pairs in by_kind.items():
        tables[kind].compute_parts(pairs)
    parts = [tables[kind].part(free, mask)[0] for kind, free, mask in wanted]
    each = np.zeros((len(parts), len(COLUMNS)), dtype=np.float32)
    each[:, STATIC_COLUMNS] = parts
    features: NDArray[np.float32] = each.reshape(len(options), -1, len(COLUMNS)).mean(axis=1)
    features[:, COLUMN["tier_frac"]] = [gang.tier / 2 for gang in options]
    for position, gang in enumerate(options):
        if gang.load is not None:
            features[position, LOAD_COLUMNS] = gang.load.around[0]
            features[position, COLUMN["load_known_frac"]] = gang.load.known_frac
    return features
