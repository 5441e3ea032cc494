"""Which placements are worth scoring for one shape of one job, and what a policy sees of each.

One node: the exact link-optimal subsets of the best few nodes, so no score policy can choose a
worse-linked set of a node than the best one. Several nodes: Slurm gives each node of a job the
same indices, so a candidate is a node set and one index set that is free on all of them.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from operator import itemgetter
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from roost_engine.cluster.cluster import Cluster
from roost_engine.cluster.features import COLUMN, COLUMNS, HEURISTIC_WEIGHTS, weighted_sums
from roost_engine.cluster.link_table import LOAD_COLUMNS, LinkTable, SubsetChoice, indices_of
from roost_engine.cluster.node_sets import NO_ROWS, RowSet, row_array, rows_in
from roost_engine.domain.lazy import Late
from roost_engine.domain.model import JobSpec, NodeName, NodeShare, Placement, Shape
from roost_engine.domain.tier import Tier
from roost_engine.placement.eligibility import (
    KEPT_FREE,
    POPCOUNT,
    Chance,
    Room,
    first_largest,
    required_rows,
    room_for,
)
from roost_engine.placement.gangs import gang_parts, gangs
from roost_engine.placement.quiet_gangs import (
    QuietGang,
    alike_in,
    have_a_set_in_common,
    quiet_gang_features,
    quiet_gangs,
)
from roost_engine.placement.quiet_nodes import (
    NODE_COUNT,
    QuietChoices,
    quiet_choices,
    quiet_features,
)

_NODE_LOAD_WEIGHT = float(HEURISTIC_WEIGHTS[LOAD_COLUMNS].sum())


@dataclass(frozen=True, slots=True, eq=False)
class Candidates(Late):
    """What is up for scoring.

    Attributes:
        shape: the shape they all have.
        rows: int64 [candidate, node], ascending in each row.
        masks: int64 [candidate], the index set on each of the nodes; or [candidate, node] where
            they are scattered, as policies of the literature have it.
        features: float32 [candidate, feature], columns cluster.features.COLUMNS.
        link_scores: int64 [candidate], summed over nodes.
        tier: of the closest candidate: 0 one node, 1 one rack, 2 across racks.
        exclusions: (reason, number of nodes), for the nodes that were ruled out.
        chances: where there are none: what would have to be so that there are some.
        choices: of single nodes of whose load nothing is told: rows that share their best subsets.
            Then what a candidate is worth hangs on its subset alone, and need not be worked out
            anew.
        gangs: the same of several nodes: what one is worth hangs on its parts alone.
    """

    shape: Shape
    rows: NDArray[np.int64]
    masks: NDArray[np.int64]
    features: NDArray[np.float32]
    link_scores: NDArray[np.int64]
    tier: int
    exclusions: tuple[tuple[str, int], ...]
    chances: tuple[Chance, ...] = ()
    choices: QuietChoices = ()
    gangs: tuple[QuietGang, ...] = ()

    def __len__(self) -> int:
        if self.choices:
            return sum(rows.bit_count() * len(choice.masks) for rows, choice in self.choices)
        return len(self.gangs) or len(self.masks)

    def __bool__(self) -> bool:
        """Whether there are any: quicker than how many."""
        return bool(self.choices or self.gangs) or len(self.masks) > 0

    def placement(self, position: int, cluster: Cluster) -> Placement:
        """Spell out one candidate."""
        return self.placements(np.array([position]), cluster.names)[0]

    def placements(
        self, positions: NDArray[np.int64], names: Sequence[NodeName]
    ) -> tuple[Placement, ...]:
        """Spell out some candidates."""
        shape = self.shape
        rows, masks = self.rows[positions].tolist(), self.masks[positions].tolist()
        if shape.node_count == 1 and self.masks.ndim == 1:
            pairs = zip(rows, masks, strict=True)
            return tuple(
                Placement((names[row],), indices_of(mask), shape) for (row,), mask in pairs
            )
        if self.masks.ndim > 1:
            return tuple(self._scattered(*pair, names) for pair in zip(rows, masks, strict=True))
        return tuple(
            Placement(tuple(sorted(names[row] for row in each)), indices_of(mask), shape)
            for each, mask in zip(rows, masks, strict=True)
        )

    def best_link_score(self, position: int, cluster: Cluster) -> int:
        """What the shape could reach if the nodes of one candidate were idle."""
        tables = [cluster.table(row) for row in self.rows[position]]
        sizes = POPCOUNT[self.masks[position]]
        each = sizes.tolist() if self.masks.ndim > 1 else [int(sizes)] * len(tables)
        return sum(
            table.best_score(table.full_mask, size)
            for table, size in zip(tables, each, strict=True)
        )

    def shortlist(self, order: NDArray[np.int64], count: int) -> NDArray[np.int64]:
        """The candidates worth remembering: the best of each node, then the best of the rest.

        Args:
            order: [candidate], best first.
            count: how many to keep, at least NODE_COUNT.

        Returns:
            [at most count], best first.
        """
        if len(order) <= count:
            return order
        _, first_of_node = np.unique(self.rows[order, 0], return_index=True)
        keep = np.zeros(len(order), dtype=np.bool_)
        keep[first_of_node] = True
        keep[np.flatnonzero(~keep)[: count - len(first_of_node)]] = True
        return order[keep]

    def free_shares(self, position: int, cluster: Cluster) -> tuple[NodeShare, ...]:
        """What is free on the nodes of one candidate."""
        rows = self.rows[position].tolist()
        return tuple(
            NodeShare(cluster.names[row], indices_of(int(cluster.free_mask[row]))) for row in rows
        )

    def _scattered(self, rows: list[int], masks: list[int], names: Sequence[NodeName]) -> Placement:
        named = sorted(
            (names[row], indices_of(mask)) for row, mask in zip(rows, masks, strict=True)
        )
        nodes, indices = zip(*named, strict=True)
        return Placement(nodes, (), self.shape, indices)


def find_candidates(
    cluster: Cluster, job: JobSpec, shape: Shape, kept: RowSet = NO_ROWS
) -> Candidates:
    """List the placements of one shape that Slurm could start now.

    Args:
        cluster: the nodes.
        job: whose partition, features and node lists count.
        shape: how many nodes, and what on each.
        kept: nodes kept free for a job that is served before this one.
    """
    found = _look(cluster, job, shape, kept)
    return found if isinstance(found, Candidates) else _none((found,))


def first_candidates(cluster: Cluster, job: JobSpec, kept: RowSet = NO_ROWS) -> Candidates:
    """List the placements of the first of the job's shapes that Slurm could start now.

    Where there are none the exclusions are those of the last shape, and for how many nodes at
    most the others were shut out by nodes kept free.
    """
    failed = []
    for shape in job.shapes:
        found = _look(cluster, job, shape, kept)
        if isinstance(found, Candidates):
            return found
        failed.append(found)
    return _none(failed)


class _NoRoom(NamedTuple):
    """A shape that nothing was found for, and an exclusion that its room does not tell."""

    shape: Shape
    room: Room
    more: tuple[str, int] | None = None


def _look(cluster: Cluster, job: JobSpec, shape: Shape, kept: RowSet) -> Candidates | _NoRoom:
    room = room_for(cluster, job, shape, kept)
    if room.row_count < shape.node_count:
        return _NoRoom(shape, room)
    if shape.node_count == 1:
        return _single_node(cluster, shape, room)
    return _gang(cluster, job, shape, room)


def _none(failed: Sequence[_NoRoom]) -> Candidates:
    """No candidates; why there are none is worked out if somebody asks."""
    shape = failed[-1].shape
    chances = tuple(chance for one in failed for chance in one.room.chances(one.shape))
    return Candidates.later(
        partial(_explain_none, failed, chances),
        shape=shape,
        masks=_nothing(shape.node_count)[1],
        tier=Tier.NODE,
        chances=chances,
        choices=(),
        gangs=(),
    )


def _explain_none(failed: Sequence[_NoRoom], chances: tuple[Chance, ...]) -> Candidates:
    last, excluded = failed[-1], list(failed[-1].room.exclusions())
    if last.more:
        excluded.append(last.more)
    kept_count = max(one.room.held_back.bit_count() for one in failed)
    if kept_count and not last.room.held_back:
        excluded.append((KEPT_FREE, kept_count))
    no_rows, no_numbers, no_features = _nothing(last.shape.node_count)
    return Candidates(
        shape=last.shape,
        rows=no_rows,
        masks=no_numbers,
        features=no_features,
        link_scores=no_numbers,
        tier=Tier.NODE,
        exclusions=tuple(excluded),
        chances=chances,
    )


@cache
def _nothing(
    node_count: int,
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float32]]:
    """Arrays without entries, which all that find nothing share."""
    no_rows = np.zeros((0, node_count), dtype=np.int64)
    no_features = np.zeros((0, len(COLUMNS)), dtype=np.float32)
    return no_rows, np.zeros(0, dtype=np.int64), no_features


# -- one node ----------------------------------------------------------------------------------


def _single_node(cluster: Cluster, shape: Shape, room: Room) -> Candidates:
    if not room.rows & cluster.loads.told:
        choices = quiet_choices(cluster, room.rows, shape.gpus_per_node)
        return Candidates.later(
            partial(_spell_out_quiet, shape, room, choices),
            shape=shape,
            tier=Tier.NODE,
            chances=(),
            choices=choices,
            gangs=(),
        )
    rows, size = row_array(room.rows), shape.gpus_per_node
    keys = _static_scores(cluster, rows, size) + cluster.loads.mean[rows] * _NODE_LOAD_WEIGHT
    best_rows = rows[first_largest(keys, NODE_COUNT)].tolist()
    by_row = [
        (row, cluster.table(row).choice(int(cluster.free_mask[row]), size)) for row in best_rows
    ]
    found, start = _spell_out(shape, room, by_row), 0
    for row, choice in by_row:
        end = start + len(choice.masks)
        if cluster.loads.known_frac[row]:
            load = cluster.loads.by_gpu[row, : choice.neighbours.shape[1]]
            around = weighted_sums(choice.neighbours, load).reshape(end - start, -1)
            found.features[start:end, LOAD_COLUMNS] = around
            found.features[start:end, COLUMN["load_known_frac"]] = cluster.loads.known_frac[row]
        start = end
    return found


def _spell_out_quiet(shape: Shape, room: Room, choices: QuietChoices) -> Candidates:
    by_row = [(row, choice) for rows, choice in choices for row in rows_in(rows)]
    by_row.sort(key=itemgetter(0))
    return replace(_spell_out(shape, room, by_row), choices=choices)


def _spell_out(shape: Shape, room: Room, choices: Sequence[tuple[int, SubsetChoice]]) -> Candidates:
    """Candidates on one node each, by row, as if nothing were told of its load."""
    counts = [len(choice.masks) for _, choice in choices]
    return Candidates(
        shape=shape,
        rows=np.repeat([row for row, _ in choices], counts)[:, None],
        masks=np.concatenate([choice.masks for _, choice in choices]),
        features=quiet_features([choice for _, choice in choices]),
        link_scores=np.repeat([choice.link_score for _, choice in choices], counts),
        tier=Tier.NODE,
        exclusions=room.exclusions(),
    )


def _static_scores(cluster: Cluster, rows: NDArray[np.int64], size: int) -> NDArray[np.float32]:
    """Best load-free heuristic score of each node: float32 [row]."""
    scores = np.empty(len(rows), dtype=np.float32)
    for table, here in cluster.by_kind(rows):
        scores[here] = table.static_scores(cluster.free_mask[rows[here]], size)
    return scores


# -- several nodes -----------------------------------------------------------------------------


def _gang(cluster: Cluster, job: JobSpec, shape: Shape, room: Room) -> Candidates | _NoRoom:
    required = required_rows(cluster, job, room.rows)
    if required is None:
        return _NoRoom(shape, room, ("not in the job's node list", room.row_count))
    alike = alike_in(cluster, room.rows)
    if not have_a_set_in_common(shape, alike):
        return _nothing_in_common(shape, room)
    if not required and not room.rows & cluster.loads.told:
        quiet = quiet_gangs(cluster, shape, room.rows, alike)
        if quiet is not None:
            return _quiet_gangs(cluster, shape, room, quiet)
    nodes, masks = gangs(cluster, shape, room.rows, required)
    if not len(masks):
        return _nothing_in_common(shape, room)
    each, scores = gang_parts(cluster, nodes.reshape(-1), np.repeat(masks, nodes.shape[1]))
    features: NDArray[np.float32] = each.reshape(*nodes.shape, -1).mean(axis=1)
    racks = cluster.rack_id[nodes]
    one_rack = (racks == racks[:, :1]).all(axis=1)
    features[:, COLUMN["tier_frac"]] = np.where(one_rack, Tier.RACK, Tier.CLUSTER) / 2
    return Candidates(
        shape=shape,
        rows=nodes,
        masks=masks,
        features=features,
        link_scores=scores.reshape(nodes.shape).sum(axis=1),
        tier=int(features[:, COLUMN["tier_frac"]].min() * 2),
        exclusions=room.exclusions(),
    )


def _nothing_in_common(shape: Shape, room: Room) -> _NoRoom:
    return _NoRoom(shape, room, ("no index set is free on enough nodes", room.row_count))


def _quiet_gangs(
    cluster: Cluster, shape: Shape, room: Room, found: tuple[QuietGang, ...]
) -> Candidates | _NoRoom:
    if not found:
        return _nothing_in_common(shape, room)
    return Candidates.later(
        partial(_spell_out_gangs, cluster.tables, shape, room, found),
        shape=shape,
        tier=Tier.RACK if any(gang.is_in_one_rack for gang in found) else Tier.CLUSTER,
        chances=(),
        choices=(),
        gangs=found,
    )


def _spell_out_gangs(
    tables: Sequence[LinkTable], shape: Shape, room: Room, found: tuple[QuietGang, ...]
) -> Candidates:
    features, link_scores = quiet_gang_features(tables, found)
    return Candidates(
        shape=shape,
        rows=np.array([gang.rows for gang in found], dtype=np.int64),
        masks=np.array([gang.mask for gang in found], dtype=np.int64),
        features=features,
        link_scores=link_scores,
        tier=Tier.RACK if any(gang.is_in_one_rack for gang in found) else Tier.CLUSTER,
        exclusions=room.exclusions(),
        gangs=found,
    )
