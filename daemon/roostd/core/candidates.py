"""Which placements are worth scoring for one shape of one job, and what a policy sees of each.

One node: the exact link-optimal subsets of the best few nodes, so no score policy can choose a
worse-linked set of a node than the best one. Several nodes: Slurm gives each node of a job the
same indices, so a candidate is a node set and one index set that is free on all of them.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from roostd.core.cluster import Cluster
from roostd.core.features import COLUMN, COLUMNS, HEURISTIC_WEIGHTS, LOAD_SCOPES
from roostd.core.links import MAX_GPUS, STATIC_COLUMNS, LinkTable, indices_of, popcounts
from roostd.core.model import JobSpec, NodeName, NodeShare, Placement, Shape

NODE_COUNT = 8  # single nodes whose optimal subsets are scored
GANG_COUNT = 16  # node sets that are scored
_INDEX_SET_COUNT = 4  # index sets tried per rack and across racks
_RACK_COUNT = 4
_DENSE_GPUS = 8  # up to here every index set is counted at once
_LOAD_COLUMNS = slice(STATIC_COLUMNS.stop, STATIC_COLUMNS.stop + 4 * len(LOAD_SCOPES))
_SPARSE_SETS = 16  # distinct free sets of large nodes that are intersected pairwise
_ALL_MASK = (1 << MAX_GPUS) - 1
_POPCOUNT = popcounts(MAX_GPUS)
_NODE_LOAD_WEIGHT = float(HEURISTIC_WEIGHTS[_LOAD_COLUMNS].sum())

TIER_NODE, TIER_RACK, TIER_CLUSTER = 0, 1, 2


@dataclass(frozen=True, slots=True, eq=False)
class Candidates:
    """What is up for scoring.

    Attributes:
        shape: the shape they all have.
        rows: int64 [candidate, node], ascending in each row.
        masks: int64 [candidate], the index set on each of the nodes.
        features: float32 [candidate, feature], columns core.features.COLUMNS.
        link_scores: int64 [candidate], summed over nodes.
        tier: of the closest candidate: 0 one node, 1 one rack, 2 across racks.
        exclusions: (reason, number of nodes), for the nodes that were ruled out.
    """

    shape: Shape
    rows: NDArray[np.int64]
    masks: NDArray[np.int64]
    features: NDArray[np.float32]
    link_scores: NDArray[np.int64]
    tier: int
    exclusions: tuple[tuple[str, int], ...]

    def __len__(self) -> int:
        return len(self.masks)

    def placement(self, position: int, cluster: Cluster) -> Placement:
        """Spell out one candidate."""
        return Placement(
            nodes=tuple(sorted(cluster.names[row] for row in self.rows[position])),
            gpu_indices=indices_of(int(self.masks[position])),
            shape=self.shape,
        )

    def best_link_score(self, position: int, cluster: Cluster) -> int:
        """What the shape could reach if the nodes of one candidate were idle."""
        size = self.shape.gpus_per_node
        full = ((cluster.table(row), row) for row in self.rows[position])
        return sum(table.best_score(table.full_mask, size) for table, _ in full)

    def free_shares(self, position: int, cluster: Cluster) -> tuple[NodeShare, ...]:
        """What is free on the nodes of one candidate."""
        rows = self.rows[position].tolist()
        return tuple(
            NodeShare(cluster.names[row], indices_of(int(cluster.free_mask[row]))) for row in rows
        )


def find_candidates(
    cluster: Cluster, job: JobSpec, shape: Shape, kept: NDArray[np.bool_] | None = None
) -> Candidates:
    """List the placements of one shape that Slurm could start now.

    Args:
        cluster: the nodes.
        job: whose partition, features and node lists count.
        shape: how many nodes, and what on each.
        kept: bool [row], nodes kept free for a job that is served before this one.
    """
    rows, exclusions = eligible_rows(cluster, job, shape, kept)
    if len(rows) >= shape.node_count:
        if shape.node_count == 1:
            return _single_node(cluster, shape, rows, exclusions)
        return _gang(cluster, job, shape, rows, exclusions)
    return _none(shape, exclusions)


def eligible_rows(
    cluster: Cluster, job: JobSpec, shape: Shape, kept: NDArray[np.bool_] | None = None
) -> tuple[NDArray[np.int64], tuple[tuple[str, int], ...]]:
    """The rows with room for one node's part of a shape, and why the others have none."""
    count = len(cluster)
    alive = cluster.members("partition", job.partition).copy()
    exclusions: list[tuple[str, int]] = []

    def keep(reason: str, condition: NDArray[np.bool_]) -> None:
        before = int(np.count_nonzero(alive))
        np.logical_and(alive, condition, out=alive)
        if removed := before - int(np.count_nonzero(alive)):
            exclusions.append((reason, removed))

    _keep_static(cluster, job, shape, keep)
    keep("not usable by Slurm's word", cluster.usable[:count])
    if kept is not None:
        keep("kept free for a job that waits longer", ~kept[:count])
    free_gpus = _POPCOUNT[cluster.free_mask[:count]]
    keep("too few free GPUs", free_gpus >= shape.gpus_per_node)
    keep("too few free CPUs", cluster.cpu_free[:count] >= shape.cpus_per_node)
    keep("too little free memory", cluster.memory_free[:count] >= shape.memory_per_node_bytes)
    return np.flatnonzero(alive), tuple(exclusions)


def could_ever_fit(cluster: Cluster, job: JobSpec) -> bool:
    """Whether any shape would fit if every node were idle and usable."""
    for shape in job.shapes:
        alive = cluster.members("partition", job.partition).copy()

        def keep(
            reason: str, condition: NDArray[np.bool_], alive: NDArray[np.bool_] = alive
        ) -> None:
            np.logical_and(alive, condition, out=alive)

        _keep_static(cluster, job, shape, keep)
        if np.count_nonzero(alive) >= max(shape.node_count, 1):
            return True
    return False


def rows_to_keep(cluster: Cluster, job: JobSpec, shape: Shape) -> NDArray[np.int64]:
    """The nodes that will soonest have room for a shape: those with the most free GPUs now.

    Empty when too few nodes could ever hold it.
    """
    alive = cluster.members("partition", job.partition) & cluster.usable[: len(cluster)]

    def keep(reason: str, condition: NDArray[np.bool_]) -> None:
        np.logical_and(alive, condition, out=alive)

    _keep_static(cluster, job, shape, keep)
    rows = np.flatnonzero(alive)
    if len(rows) < shape.node_count:
        return rows[:0]
    order = np.lexsort((rows, -_POPCOUNT[cluster.free_mask[rows]]))
    return rows[order[: shape.node_count]]


class _Keep(Protocol):
    def __call__(self, reason: str, condition: NDArray[np.bool_]) -> None: ...


def _keep_static(cluster: Cluster, job: JobSpec, shape: Shape, keep: _Keep) -> None:
    """The conditions that no other job's end can change."""
    count = len(cluster)
    if job.required_nodes and shape.node_count == len(job.required_nodes):
        keep("not in the job's node list", _named(cluster, job.required_nodes))
    if job.excluded_nodes:
        keep("excluded by the job", ~_named(cluster, job.excluded_nodes))
    for feature in job.features:
        keep(f"lacks feature {feature}", cluster.members("feature", feature))
    keep("has too few GPUs", cluster.gpu_count[:count] >= shape.gpus_per_node)
    keep("has too few CPUs", cluster.cpu_count[:count] >= shape.cpus_per_node)
    keep("has too little memory", cluster.memory_bytes[:count] >= shape.memory_per_node_bytes)


def _named(cluster: Cluster, names: Sequence[NodeName]) -> NDArray[np.bool_]:
    named = np.zeros(len(cluster), dtype=np.bool_)
    named[[cluster.row[name] for name in names if name in cluster.row]] = True
    return named


def _none(shape: Shape, exclusions: tuple[tuple[str, int], ...]) -> Candidates:
    return Candidates(
        shape=shape,
        rows=np.zeros((0, shape.node_count), dtype=np.int64),
        masks=np.zeros(0, dtype=np.int64),
        features=np.zeros((0, len(COLUMNS)), dtype=np.float32),
        link_scores=np.zeros(0, dtype=np.int64),
        tier=TIER_NODE,
        exclusions=exclusions,
    )


# -- one node ----------------------------------------------------------------------------------


def _single_node(
    cluster: Cluster,
    shape: Shape,
    rows: NDArray[np.int64],
    exclusions: tuple[tuple[str, int], ...],
) -> Candidates:
    size = shape.gpus_per_node
    keys = _static_scores(cluster, rows, size) + cluster.load_mean[rows] * _NODE_LOAD_WEIGHT
    best_rows = rows[_first_largest(keys, NODE_COUNT)]
    choices = [cluster.table(row).choice(int(cluster.free_mask[row]), size) for row in best_rows]
    counts = [len(choice.masks) for choice in choices]
    features = np.zeros((sum(counts), len(COLUMNS)), dtype=np.float32)
    start = 0
    for row, choice, count in zip(best_rows, choices, counts, strict=True):
        block = features[start : start + count]
        block[:, STATIC_COLUMNS] = choice.static
        around = choice.neighbours @ cluster.load[row, : choice.neighbours.shape[1]]
        block[:, _LOAD_COLUMNS] = around.reshape(count, -1)
        block[:, COLUMN["load_known_frac"]] = cluster.load_known_frac[row]
        start += count
    return Candidates(
        shape=shape,
        rows=np.repeat(best_rows, counts)[:, None],
        masks=np.concatenate([choice.masks for choice in choices]),
        features=features,
        link_scores=np.repeat([choice.link_score for choice in choices], counts),
        tier=TIER_NODE,
        exclusions=exclusions,
    )


def _static_scores(cluster: Cluster, rows: NDArray[np.int64], size: int) -> NDArray[np.float32]:
    """Best load-free heuristic score of each node: float32 [row]."""
    scores = np.empty(len(rows), dtype=np.float32)
    for table, here in _by_kind(cluster, rows):
        scores[here] = table.static_scores(cluster.free_mask[rows[here]], size)
    return scores


def _by_kind(
    cluster: Cluster, rows: NDArray[np.int64]
) -> Iterator[tuple[LinkTable, NDArray[np.int64]]]:
    """Group positions in `rows` by the kind of node."""
    kinds = cluster.kind[rows]
    for kind in np.flatnonzero(np.bincount(kinds)).tolist():
        yield cluster.tables[kind], np.flatnonzero(kinds == kind)


def _first_largest(keys: NDArray[np.float32], count: int) -> NDArray[np.int64]:
    """Positions of the largest keys, ties to the lower position, in ascending position."""
    if len(keys) <= count:
        return np.arange(len(keys))
    threshold = np.partition(keys, len(keys) - count)[len(keys) - count]
    above = np.flatnonzero(keys > threshold)
    ties = np.flatnonzero(keys == threshold)[: count - len(above)]
    return np.sort(np.concatenate((above, ties)))


# -- several nodes -----------------------------------------------------------------------------


def _gang(
    cluster: Cluster,
    job: JobSpec,
    shape: Shape,
    rows: NDArray[np.int64],
    exclusions: tuple[tuple[str, int], ...],
) -> Candidates:
    required = np.array([cluster.row[name] for name in job.required_nodes], dtype=np.int64)
    if not np.isin(required, rows).all():
        return _none(shape, exclusions)
    sets: list[tuple[NDArray[np.int64], int]] = []
    for scope in _scopes(cluster, rows, required, shape.node_count):
        for mask in _index_sets(cluster, scope, shape):
            nodes = _best_nodes(cluster, scope, mask, shape, required)
            if nodes is not None:
                sets.append((nodes, mask))
    unique = list({(tuple(nodes.tolist()), mask): (nodes, mask) for nodes, mask in sets}.values())
    if not unique:
        return _none(shape, (*exclusions, ("no index set is free on enough nodes", len(rows))))
    unique = unique[:GANG_COUNT]
    features = np.array([_gang_features(cluster, nodes, mask) for nodes, mask in unique])
    tiers = features[:, COLUMN["tier_frac"]] * 2
    return Candidates(
        shape=shape,
        rows=np.array([nodes for nodes, _ in unique]),
        masks=np.array([mask for _, mask in unique], dtype=np.int64),
        features=features.astype(np.float32),
        link_scores=np.array([_gang_link_score(cluster, *each) for each in unique], dtype=np.int64),
        tier=int(tiers.min()),
        exclusions=exclusions,
    )


def _scopes(
    cluster: Cluster, rows: NDArray[np.int64], required: NDArray[np.int64], node_count: int
) -> list[NDArray[np.int64]]:
    """Sets of rows to choose nodes from: the fullest racks that hold enough, then everything."""
    racks, counts = np.unique(cluster.rack_id[rows], return_counts=True)
    enough = counts >= node_count
    if len(required):
        enough &= np.isin(racks, cluster.rack_id[required])
        enough &= len(np.unique(cluster.rack_id[required])) == 1
    tight = racks[enough][np.argsort(counts[enough], kind="stable")][:_RACK_COUNT]
    scopes = [rows[cluster.rack_id[rows] == rack] for rack in tight]
    return scopes if len(racks) == 1 and scopes else [*scopes, rows]


def _index_sets(cluster: Cluster, rows: NDArray[np.int64], shape: Shape) -> list[int]:
    """The best-linked index sets that are free on enough of some rows."""
    size, masks = shape.gpus_per_node, cluster.free_mask[rows]
    widest = int(cluster.gpu_count[rows].max())
    if widest <= _DENSE_GPUS:
        free_on = np.bincount(masks, minlength=1 << widest)
        for gpu in range(widest):  # superset sums: on how many rows is each set free?
            halves = free_on.reshape(-1, 2, 1 << gpu)
            halves[:, 0] += halves[:, 1]
        sets = np.flatnonzero((free_on >= shape.node_count) & (_POPCOUNT[: len(free_on)] == size))
    else:
        sets = _sparse_index_sets(cluster, rows, shape)
    if not len(sets):
        return []
    quality = np.zeros(len(sets))
    for table, here in _by_kind(cluster, rows):
        inside = sets <= table.full_mask
        known = sets[inside]
        quality[inside] += len(here) * table.set_scores[known]
        quality[inside] -= 1e-3 * len(here) * table.fragmentation(table.full_mask, known)
    order = np.lexsort((sets, -quality))
    return [int(mask) for mask in sets[order[:_INDEX_SET_COUNT]]]


def _sparse_index_sets(
    cluster: Cluster, rows: NDArray[np.int64], shape: Shape
) -> NDArray[np.int64]:
    """For nodes of more than 8 GPUs: the best subsets of free sets and of their intersections."""
    masks = cluster.free_mask[rows]
    distinct = np.unique(masks)[:_SPARSE_SETS]
    meets = np.unique(distinct[:, None] & distinct[None, :])
    meets = meets[_POPCOUNT[meets] >= shape.gpus_per_node]
    found: set[int] = set()
    for table, _ in _by_kind(cluster, rows):
        for meet in meets[meets <= table.full_mask].tolist():
            found.update(table.choice(meet, shape.gpus_per_node).masks[:_INDEX_SET_COUNT].tolist())
    sets = np.array(sorted(found), dtype=np.int64)
    free_on = (masks[None, :] & sets[:, None] == sets[:, None]).sum(axis=1)
    enough: NDArray[np.int64] = sets[free_on >= shape.node_count]
    return enough


def _best_nodes(
    cluster: Cluster,
    rows: NDArray[np.int64],
    mask: int,
    shape: Shape,
    required: NDArray[np.int64],
) -> NDArray[np.int64] | None:
    """The nodes that suit an index set best: well linked, then nearly full, then quiet."""
    fits = rows[cluster.free_mask[rows] & mask == mask]
    if len(fits) < shape.node_count or not np.isin(required, fits).all():
        return None
    scores = np.empty(len(fits), dtype=np.int64)
    for table, here in _by_kind(cluster, fits):
        scores[here] = table.set_scores[mask]
    order = np.lexsort(
        (
            fits,
            cluster.load_mean[fits],
            _POPCOUNT[cluster.free_mask[fits]],
            cluster.rack_id[fits],
            -scores,
            ~np.isin(fits, required),
        )
    )
    return np.sort(fits[order[: shape.node_count]])


def _gang_features(cluster: Cluster, nodes: NDArray[np.int64], mask: int) -> NDArray[np.float32]:
    """Mean over the nodes of each node's columns, and the tier."""
    each = np.zeros((len(nodes), len(COLUMNS)), dtype=np.float32)
    masks = np.array([mask], dtype=np.int64)
    for position, row in enumerate(nodes.tolist()):
        table, free = cluster.table(row), int(cluster.free_mask[row])
        left = int(_POPCOUNT[free & ~mask])
        each[position, STATIC_COLUMNS] = table.static_features(
            masks, table.fragmentation(free, masks), left
        )[0]
        around = table.neighbour_weights(masks) @ cluster.load[row, : table.gpu_count]
        each[position, _LOAD_COLUMNS] = around.reshape(-1)
        each[position, COLUMN["load_known_frac"]] = cluster.load_known_frac[row]
    features: NDArray[np.float32] = each.mean(axis=0)
    one_rack = len(np.unique(cluster.rack_id[nodes])) == 1
    features[COLUMN["tier_frac"]] = (TIER_RACK if one_rack else TIER_CLUSTER) / 2
    return features


def _gang_link_score(cluster: Cluster, nodes: NDArray[np.int64], mask: int) -> int:
    return sum(int(cluster.table(row).set_scores[mask]) for row in nodes.tolist())
