"""The search for placements written the plain way: every node is looked at, as entries of arrays.

What `placement.search` and `placement.gangs` find among groups of nodes must be the same, in the
same order, whatever is known of the nodes' load.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from roost_engine.cluster.cluster import Cluster
from roost_engine.cluster.features import COLUMN, COLUMNS, HEURISTIC_WEIGHTS, weighted_sums
from roost_engine.cluster.link_table import LOAD_COLUMNS, POPCOUNT, STATIC_COLUMNS
from roost_engine.cluster.node_sets import NodeSet, node_array
from roost_engine.domain.model import Shape
from roost_engine.placement.eligibility import first_largest
from roost_engine.placement.gangs import INDEX_SET_COUNT, RACK_COUNT
from roost_engine.placement.search import NODE_COUNT

_LINK_SHIFT, _REQUIRED = 47, 1 << 62


def nodes_and_masks(cluster: Cluster, gpu_count: int, nodes: NodeSet) -> list[tuple[int, int]]:
    """The best subsets of the best single nodes, by node index."""
    listed = node_array(nodes)
    best = [
        cluster.table(node).choice(int(cluster.free_mask[node]), gpu_count).best_static_score
        for node in listed.tolist()
    ]
    static = np.array(best, dtype=np.float32)
    weight = float(HEURISTIC_WEIGHTS[LOAD_COLUMNS].sum())
    worth = static + cluster.loads.mean[listed] * weight
    return [
        (node, mask)
        for node in listed[first_largest(worth, NODE_COUNT)].tolist()
        for mask in cluster.table(node)
        .choice(int(cluster.free_mask[node]), gpu_count)
        .masks.tolist()
    ]


def gangs(
    cluster: Cluster, shape: Shape, nodes: NodeSet, required: NodeSet
) -> list[tuple[tuple[int, ...], int]]:
    """The best-linked gangs, those within one rack first: nodes, ascending, and index set."""
    found: dict[tuple[tuple[int, ...], int], None] = {}
    listed, needed = node_array(nodes), node_array(required)
    for scope in _scopes(cluster, listed, needed, shape.node_count):
        for mask in _index_sets(cluster, scope, needed, shape):
            chosen = _best_nodes(cluster, scope, mask, shape.node_count)
            found.setdefault((tuple(chosen.tolist()), mask))
    return list(found)


def gang_features(cluster: Cluster, nodes: tuple[int, ...], mask: int) -> NDArray[np.float32]:
    """What a policy sees of one gang but for its tier: float32 [feature]."""
    listed = np.array(nodes)
    free, sets = cluster.free_mask[listed], np.full(len(listed), mask)
    left = POPCOUNT[free & ~sets]
    each = np.zeros((len(listed), len(COLUMNS)), dtype=np.float32)
    for table, here in cluster.by_kind(listed):
        mine, load = sets[here], cluster.loads.by_gpu[listed[here], : table.gpu_count]
        lost = table.fragmentation(free[here], mine)
        each[here, STATIC_COLUMNS] = table.static_features(mine, lost, left[here])
        weights = table.neighbour_weights(mine).reshape(len(here), -1, table.gpu_count)
        each[here, LOAD_COLUMNS] = weighted_sums(weights, load).reshape(len(here), -1)
    each[:, COLUMN["load_known_frac"]] = cluster.loads.known_frac[listed]
    mean: NDArray[np.float32] = each.mean(axis=0)
    return mean


@dataclass(frozen=True, slots=True, eq=False)
class _Scope:
    """Nodes to choose a gang's nodes from.

    Attributes:
        listed, free: int64 [node]; listed ascend, `free` are their free masks.
        preference: int64 [node], higher goes first among the equally well linked: required by the
            job, then in the fullest rack, then nearly taken, then with little load.
    """

    listed: NDArray[np.int64]
    free: NDArray[np.int64]
    preference: NDArray[np.int64]


def _scopes(
    cluster: Cluster, listed: NDArray[np.int64], required: NDArray[np.int64], node_count: int
) -> Iterator[_Scope]:
    """The tightest racks that hold enough nodes, then everything."""
    rack_ids = cluster.racks.ids[listed]
    counts = np.bincount(rack_ids)
    free = cluster.free_mask[listed]
    idle = ((1.0 - cluster.loads.mean[listed]) * ((1 << 10) - 1)).astype(np.int64)
    preference = (counts[rack_ids] << 31) - (rack_ids << 15) - (POPCOUNT[free] << 10) + idle
    racks = np.flatnonzero(counts >= node_count)
    if len(required):
        preference[np.isin(listed, required)] = _REQUIRED
        racks = racks[(racks == cluster.racks.ids[required][:, None]).all(axis=0)]
    for rack in racks[np.argsort(counts[racks], kind="stable")][:RACK_COUNT]:
        here = rack_ids == rack
        yield _Scope(listed[here], free[here], preference[here])
    if np.count_nonzero(counts) > 1:
        yield _Scope(listed, free, preference)


def _index_sets(
    cluster: Cluster, scope: _Scope, required: NDArray[np.int64], shape: Shape
) -> list[int]:
    """The index sets with the best link scores on their best nodes; set by set, node by node."""
    width = int(cluster.gpu_count[scope.listed].max())
    sets = np.flatnonzero(POPCOUNT[: 1 << width] == shape.gpus_per_node)
    keys: list[tuple[float, int]] = []
    for mask in sets.tolist():
        fits = [
            node for node in scope.listed.tolist() if int(cluster.free_mask[node]) & mask == mask
        ]
        if len(fits) < shape.node_count or not set(required.tolist()) <= set(fits):
            continue
        scores = {node: int(cluster.table(node).set_scores[mask]) for node in fits}
        others = sorted((scores[node] for node in fits if node not in required), reverse=True)
        total = sum(scores[node] for node in required.tolist())
        total += sum(others[: shape.node_count - len(required)])
        lost = 0.0
        for table, here in cluster.by_kind(scope.listed):
            if mask <= table.full_mask:
                lost += len(here) * float(table.fragmentation(table.full_mask, np.array(mask)))
        keys.append((lost / (2 * len(scope.listed)) - total, mask))
    return [mask for _, mask in sorted(keys)[:INDEX_SET_COUNT]]


def _best_nodes(cluster: Cluster, scope: _Scope, mask: int, node_count: int) -> NDArray[np.int64]:
    """The nodes that suit an index set best: well linked, then by preference. Ascending."""
    fits = np.flatnonzero(scope.free & mask == mask)
    preference = scope.preference[fits]
    kinds = cluster.kind[scope.listed[fits]]
    if (kinds != kinds[0]).any():
        scores = [int(table.set_scores[mask & table.full_mask]) for table in cluster.tables]
        ranks = np.unique(scores, return_inverse=True)[1]
        preference = preference + (ranks[kinds] << _LINK_SHIFT)
    return scope.listed[fits[first_largest(preference, node_count)]]
