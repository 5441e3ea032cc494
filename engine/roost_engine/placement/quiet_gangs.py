"""Gangs on nodes of whose load nobody has told: sets of nodes instead of arrays of them.

The same gangs in the same order as `placement.gangs` finds by looking at every node. Here
nodes with the same GPUs free are one entry, and an index set is looked at only where it is free.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from roost_engine.cluster.cluster import Cluster
from roost_engine.cluster.features import COLUMN, COLUMNS
from roost_engine.cluster.index_set_counts import SetCounts, is_countable
from roost_engine.cluster.link_table import STATIC_COLUMNS, LinkTable
from roost_engine.cluster.node_sets import NO_ROWS, RowSet, first_rows, rows_in
from roost_engine.domain.model import Shape

INDEX_SET_COUNT = 4  # index sets offered per rack and across racks
RACK_COUNT = 4  # racks whose nodes are offered as a gang

Alike: TypeAlias = tuple[int, int, RowSet]  # kind, free mask, and the rows that have both
Part: TypeAlias = tuple[int, int, int]  # kind, free mask, and the index set that is taken


class QuietGang(NamedTuple):
    """A node set and one index set.

    Attributes:
        rows: ascending.
        mask: the index set, the same on each node.
        parts: by row, what the gang is worth hangs on: nothing else but `is_in_one_rack`.
    """

    rows: tuple[int, ...]
    mask: int
    parts: tuple[Part, ...]
    is_in_one_rack: bool


class _Scope(NamedTuple):
    """Nodes to choose a gang's nodes from.

    Attributes:
        racks: the rows of each, the fullest rack first.
        alike: those of them that have the same GPUs free.
    """

    racks: Sequence[RowSet]
    alike: Sequence[Alike]


def alike_in(cluster: Cluster, room: RowSet) -> list[Alike]:
    """The nodes with room, those with the same GPUs free together."""
    return [
        (kind, free, here)
        for (kind, free), rows in cluster.free_sets.items()
        if (here := rows & room)
    ]


def have_a_set_in_common(shape: Shape, alike: Sequence[Alike]) -> bool:
    """Whether any index set is free on enough nodes; most that find no gang fail here.

    True also where it would cost more to know than to look for gangs.

    Args:
        shape: how many nodes, and how many GPUs on each.
        alike: the nodes with room.
    """
    node_count, size = shape.node_count, shape.gpus_per_node
    for _, _, rows in alike:
        if rows.bit_count() >= node_count:
            return True
    if not _are_countable(alike, size):
        return True
    return _counts(alike, size).reach(node_count)


def quiet_gangs(
    cluster: Cluster, shape: Shape, room: RowSet, alike: Sequence[Alike]
) -> tuple[QuietGang, ...] | None:
    """List the best-linked gangs, those within one rack first. See `placement.gangs.gangs`.

    Args:
        cluster: the nodes; nobody has told the load of those with room, and the job requires none.
        shape: how many nodes, and how many GPUs on each.
        room: the nodes with room.
        alike: the same by what is free.

    Returns:
        None where looking at every node costs less.
    """
    if not _are_countable(alike, shape.gpus_per_node):
        return None
    found: dict[tuple[RowSet, int], None] = {}
    for scope in _scopes(cluster, shape, room, alike):
        for mask in _index_sets(cluster, shape, scope):
            rows = _best_nodes(cluster, scope, mask, shape.node_count)
            found.setdefault((rows, mask))
    return tuple(_gang(cluster, rows, mask) for rows, mask in found)


def quiet_gang_features(
    tables: Sequence[LinkTable], found: Sequence[QuietGang]
) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """What a policy sees of gangs.

    Args:
        tables: by kind.
        found: of one shape.

    Returns:
        float32 [gang, feature], columns of cluster.features, and link scores, int64 [gang].
    """
    parts = [tables[kind].part(free, mask) for gang in found for kind, free, mask in gang.parts]
    each = np.zeros((len(parts), len(COLUMNS)), dtype=np.float32)
    each[:, STATIC_COLUMNS] = [static for static, _ in parts]
    features: NDArray[np.float32] = each.reshape(len(found), -1, len(COLUMNS)).mean(axis=1)
    features[:, COLUMN["tier_frac"]] = [0.5 if gang.is_in_one_rack else 1.0 for gang in found]
    scores = np.array([score for _, score in parts], dtype=np.int64)
    return features, scores.reshape(len(found), -1).sum(axis=1)


def _gang(cluster: Cluster, rows: RowSet, mask: int) -> QuietGang:
    listed = tuple(rows_in(rows))
    parts = tuple([(*cluster.free_as(row), mask) for row in listed])
    rack = cluster.rack_rows[cluster.rack_of[listed[0]]]
    return QuietGang(listed, mask, parts, not rows & ~rack)


def _are_countable(alike: Sequence[Alike], size: int) -> bool:
    return is_countable(max([free for _, free, _ in alike], default=0), size)


def _counts(alike: Iterable[Alike], size: int) -> SetCounts:
    """On how many nodes each index set is free."""
    return SetCounts(size, [(free, rows.bit_count()) for _, free, rows in alike])


def _scopes(
    cluster: Cluster, shape: Shape, room: RowSet, alike: Sequence[Alike]
) -> Iterator[_Scope]:
    """The tightest racks that hold enough nodes, then everything."""
    racks = [here for rows in cluster.rack_rows if (here := rows & room)]
    counts = [rows.bit_count() for rows in racks]
    numbers = range(len(racks))
    enough = [number for number in numbers if counts[number] >= shape.node_count]
    for number in sorted(enough, key=counts.__getitem__)[:RACK_COUNT]:
        rows = racks[number]
        inside = [(kind, free, here) for kind, free, all_ in alike if (here := all_ & rows)]
        yield _Scope((rows,), inside)
    if len(racks) > 1:
        fullest_first = sorted(numbers, key=lambda number: -counts[number])
        yield _Scope([racks[number] for number in fullest_first], alike)


def _index_sets(cluster: Cluster, shape: Shape, scope: _Scope) -> list[int]:
    """The index sets whose best free nodes link best, all told."""
    node_count, size = shape.node_count, shape.gpus_per_node
    kinds = sorted({kind for kind, _, _ in scope.alike})
    tables = [cluster.tables[kind] for kind in kinds]
    if size == max(table.gpu_count for table in tables):  # whole nodes: nothing to compare
        count = sum([rows.bit_count() for _, free, rows in scope.alike if free.bit_count() == size])
        return [(1 << size) - 1] if count >= node_count else []
    enough = _counts(scope.alike, size).reaching(node_count)
    if not enough:
        return []
    by_kind = [[each for each in scope.alike if each[0] == kind] for kind in kinds]
    row_counts = [sum([rows.bit_count() for _, _, rows in alike]) for alike in by_kind]
    free_on = [_counts(alike, size) for alike in by_kind] if len(kinds) > 1 else []
    keys: list[tuple[float, int]] = []
    for mask in enough:
        if free_on:
            total = _best_total(tables, free_on, mask, node_count)
        else:
            total = node_count * tables[0].score_by_set[mask]
        lost = 0.0
        for table, count in zip(tables, row_counts, strict=True):
            if mask <= table.full_mask:
                lost += count * table.whole_losses[mask]
        keys.append((lost / (2 * sum(row_counts)) - total, mask))
    return [mask for _, mask in sorted(keys)[:INDEX_SET_COUNT]]


def _best_total(
    tables: Sequence[LinkTable], free_on: Sequence[SetCounts], mask: int, node_count: int
) -> int:
    """The link scores of an index set on its best-linked nodes, all told; there are enough."""
    there = [
        (table.score_by_set[mask], counts.of(mask))
        for table, counts in zip(tables, free_on, strict=True)
        if mask <= table.full_mask
    ]
    total, wanted = 0, node_count
    for score, count in sorted(there, reverse=True):
        taken = min(wanted, count)
        total += taken * score
        wanted -= taken
    return total


def _best_nodes(cluster: Cluster, scope: _Scope, mask: int, node_count: int) -> RowSet:
    """The nodes that suit an index set best.

    Well linked ones first; then those of the fullest rack; then those that are nearly taken.
    """
    fitting: dict[tuple[int, int], RowSet] = {}
    for kind, free, rows in scope.alike:
        if free & mask == mask:
            key = -cluster.tables[kind].score_by_set[mask], free.bit_count()
            fitting[key] = fitting.get(key, NO_ROWS) | rows
    chosen, wanted = NO_ROWS, node_count
    by_score: dict[int, list[RowSet]] = {}
    for (score, _), rows in sorted(fitting.items()):
        by_score.setdefault(score, []).append(rows)
    for fullest_last in by_score.values():
        for rack in scope.racks:
            for rows in fullest_last:
                if here := rows & rack:
                    first = first_rows(here, wanted)
                    chosen |= first
                    wanted -= first.bit_count()
                    if not wanted:
                        return chosen
    return chosen
