"""Gangs: jobs on several nodes, each of which gives the same index set.

Exact: for every scope (a rack, the cluster) the index set and nodes with the best link score are
among those offered, also where nodes of several kinds and sizes mix. Here every node is looked at;
`placement.quiet_gangs` finds the same with less work where nobody has told the nodes' load.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray

from roost_engine.cluster.cluster import Cluster
from roost_engine.cluster.features import COLUMN, COLUMNS, weighted_sums
from roost_engine.cluster.link_table import LOAD_COLUMNS, STATIC_COLUMNS
from roost_engine.cluster.node_sets import RowSet, row_array
from roost_engine.domain.model import Shape
from roost_engine.placement.eligibility import POPCOUNT, first_largest
from roost_engine.placement.quiet_gangs import INDEX_SET_COUNT, RACK_COUNT

# Of a preference: below it fit 65,535 racks of as many nodes.
_LINK_SHIFT, _REQUIRED = 47, 1 << 62


def gangs(
    cluster: Cluster, shape: Shape, room: RowSet, required: RowSet
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """List the best-linked gangs, those within one rack first.

    Args:
        cluster: the nodes.
        shape: how many nodes, and how many GPUs on each.
        room: the nodes with room.
        required: those of them that the gang must hold.

    Returns:
        int64 [gang, node], ascending in each gang, and int64 [gang], the index set on each node.
    """
    found: dict[tuple[bytes, int], NDArray[np.int64]] = {}
    rows, needed = row_array(room), row_array(required)
    for scope in _scopes(cluster, rows, needed, shape.node_count):
        for mask in _index_sets(cluster, scope, needed, shape):
            nodes = _best_nodes(cluster, scope, mask, shape.node_count)
            found.setdefault((nodes.tobytes(), mask), nodes)
    nodes = np.array(list(found.values()), dtype=np.int64).reshape(-1, shape.node_count)
    return nodes, np.array([mask for _, mask in found], dtype=np.int64)


@dataclass(frozen=True, slots=True, eq=False)
class _Scope:
    """Nodes to choose a gang's nodes from.

    Attributes:
        rows, free: int64 [row]; rows ascend, `free` are their free masks.
        preference: int64 [row], higher goes first among the equally well linked: required by the
            job, then in the fullest rack, then nearly taken, then quiet.
    """

    rows: NDArray[np.int64]
    free: NDArray[np.int64]
    preference: NDArray[np.int64]


def _scopes(
    cluster: Cluster, rows: NDArray[np.int64], required: NDArray[np.int64], node_count: int
) -> Iterator[_Scope]:
    """The tightest racks that hold enough nodes, then everything."""
    rack_ids = cluster.rack_id[rows]
    counts = np.bincount(rack_ids)
    free = cluster.free_mask[rows]
    quiet = ((1.0 - cluster.loads.mean[rows]) * ((1 << 10) - 1)).astype(np.int64)
    preference = (counts[rack_ids] << 31) - (rack_ids << 15) - (POPCOUNT[free] << 10) + quiet
    racks = np.flatnonzero(counts >= node_count)
    if len(required):
        preference[np.isin(rows, required)] = _REQUIRED
        racks = racks[(racks == cluster.rack_id[required][:, None]).all(axis=0)]
    for rack in racks[np.argsort(counts[racks], kind="stable")][:RACK_COUNT]:
        here = rack_ids == rack
        yield _Scope(rows[here], free[here], preference[here])
    if np.count_nonzero(counts) > 1:
        yield _Scope(rows, free, preference)


def _index_sets(
    cluster: Cluster, scope: _Scope, required: NDArray[np.int64], shape: Shape
) -> list[int]:
    """The index sets whose best free nodes link best, all told."""
    sets = _sets_of_size(int(cluster.gpu_count[scope.rows].max()), shape.gpus_per_node)
    if len(sets) == 1:  # whole nodes: nothing to compare
        has_it = scope.free & sets == sets
        on_required = cluster.free_mask[required] & sets == sets
        is_free = np.count_nonzero(has_it) >= shape.node_count and bool(on_required.all())
        return sets.tolist() if is_free else []
    total, lost = np.zeros(len(sets), dtype=np.int64), np.zeros(len(sets))
    possible = np.ones(len(sets), dtype=np.bool_)
    for row in required.tolist():
        possible &= cluster.free_mask[row] & sets == sets
        total[possible] += cluster.table(row).set_scores[sets[possible]]
    wanted = np.full(len(sets), shape.node_count - len(required))
    optional = scope.rows[scope.preference != _REQUIRED]
    free_on, scores = _free_counts(cluster, optional, sets)
    for kind in np.argsort(-scores, axis=0, kind="stable"):  # best linked first, set by set
        each = kind, np.arange(len(sets))
        taken = np.minimum(wanted, free_on[each])
        total += taken * scores[each]
        wanted -= taken
    for table, here in cluster.by_kind(scope.rows):
        inside = sets <= table.full_mask
        lost[inside] += len(here) * table.fragmentation(table.full_mask, sets[inside])
    found = np.flatnonzero(possible & (wanted == 0))
    keys = total[found] - lost[found] / (2 * len(scope.rows))
    best = first_largest(keys, INDEX_SET_COUNT)
    order = best[np.argsort(-keys[best], kind="stable")]
    return [int(mask) for mask in sets[found[order]]]


@cache
def _sets_of_size(gpu_count: int, size: int) -> NDArray[np.int64]:
    return np.flatnonzero(POPCOUNT[: 1 << gpu_count] == size)


def _free_counts(
    cluster: Cluster, rows: NDArray[np.int64], sets: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """On how many nodes of each kind each set is free, and how well it is linked there.

    Returns:
        int64 [kind, set], twice.
    """
    counts: list[NDArray[np.int64]] = []
    scores: list[NDArray[np.int64]] = []
    for table, here in cluster.by_kind(rows):
        free_on = np.bincount(cluster.free_mask[rows[here]], minlength=table.full_mask + 1)
        free_on = free_on.astype(np.int32)
        for gpu in range(table.gpu_count):  # superset sums: every set within a free set is free
            halves = free_on.reshape(-1, 2, 1 << gpu)
            halves[:, 0] += halves[:, 1]
        inside = np.minimum(sets, table.full_mask)
        counts.append(np.where(sets == inside, free_on[inside], 0))
        scores.append(np.where(sets == inside, table.set_scores[inside], 0))
    shape = (len(counts), len(sets))
    return np.array(counts, np.int64).reshape(shape), np.array(scores, np.int64).reshape(shape)


def _best_nodes(cluster: Cluster, scope: _Scope, mask: int, node_count: int) -> NDArray[np.int64]:
    """The nodes that suit an index set best: well linked, then by preference. Ascending."""
    fits = np.flatnonzero(scope.free & mask == mask)
    preference = scope.preference[fits]
    kinds = cluster.kind[scope.rows[fits]]
    if (kinds != kinds[0]).any():
        scores = [int(table.set_scores[mask & table.full_mask]) for table in cluster.tables]
        ranks = np.unique(scores, return_inverse=True)[1]
        preference = preference + (ranks[kinds] << _LINK_SHIFT)
    return scope.rows[fits[first_largest(preference, node_count)]]


def gang_parts(
    cluster: Cluster, rows: NDArray[np.int64], sets: NDArray[np.int64]
) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """What an index set on each of some nodes is worth.

    Args:
        cluster: the nodes.
        rows: [row].
        sets: [row].

    Returns:
        float32 [row, feature], and the link scores, int64 [row].
    """
    free = cluster.free_mask[rows]
    left = POPCOUNT[free & ~sets]
    each = np.zeros((len(rows), len(COLUMNS)), dtype=np.float32)
    scores = np.zeros(len(rows), dtype=np.int64)
    for table, here in cluster.by_kind(rows):
        mine, load = sets[here], cluster.loads.by_gpu[rows[here], : table.gpu_count]
        lost = table.fragmentation(free[here], mine)
        each[here, STATIC_COLUMNS] = table.static_features(mine, lost, left[here])
        weights = table.neighbour_weights(mine).reshape(len(here), -1, table.gpu_count)
        each[here, LOAD_COLUMNS] = weighted_sums(weights, load).reshape(len(here), -1)
        scores[here] = table.set_scores[mine]
    each[:, COLUMN["load_known_frac"]] = cluster.loads.known_frac[rows]
    return each, scores
