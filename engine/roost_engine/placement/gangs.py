"""The search for gangs: jobs on several nodes, each of which gives the same index set.

Exact: for every scope (a rack, the cluster) the index set and nodes with the best link score are
among those offered, also where nodes of several kinds and sizes mix.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from roost_engine.cluster.cluster import Cluster
from roost_engine.cluster.features import weighted_sums
from roost_engine.cluster.index_set_counts import IndexSetCounts, count_index_sets
from roost_engine.cluster.link_table import LOAD_COLUMN_COUNT
from roost_engine.cluster.node_sets import (
    NO_NODES,
    NodeSet,
    first_nodes,
    node_array,
    nodes_in,
)
from roost_engine.domain.model import Shape
from roost_engine.domain.tier import Tier
from roost_engine.placement.options import GangOption, Load

INDEX_SET_COUNT = 4  # index sets offered per rack and across racks
RACK_COUNT = 4  # racks whose nodes are offered as a gang
_FEW_NODES = 64  # up to so many, looking at each is quicker than at all groups
_LOAD_STEPS = (1 << 10) - 1  # loads that differ by less than a thousandth count as the same


class Group(NamedTuple):
    """Nodes of one kind with the same GPUs free.

    Attributes:
        kind: of the nodes.
        free: mask of the free GPUs.
        nodes: one or more.
        node_count: of `nodes`.
    """

    kind: int
    free: int
    nodes: NodeSet
    node_count: int


class _Scope(NamedTuple):
    """Nodes from which a gang's nodes are chosen.

    Attributes:
        racks: the nodes of each, the fullest rack first; without the required nodes.
        groups: the same nodes, grouped by what is free.
        required: groups of nodes that the gang must hold.
    """

    racks: Sequence[NodeSet]
    groups: Sequence[Group]
    required: Sequence[Group]


def find_gangs(
    cluster: Cluster, shape: Shape, nodes: NodeSet, required: NodeSet
) -> Sequence[GangOption]:
    """List the best-linked gangs, those within one rack first.

    Args:
        cluster: the nodes.
        shape: how many nodes, and how many GPUs on each.
        nodes: those with capacity, enough of them.
        required: those of them that the gang must hold.
    """
    groups = groups_in(cluster, nodes, shape.gpus_per_node)
    if not _may_have_a_set_in_common(shape, groups):
        return ()
    found: dict[tuple[NodeSet, int], None] = {}
    for scope in _scopes(cluster, shape, nodes, required, groups):
        for mask in _index_sets(cluster, shape, scope):
            found.setdefault((_best_nodes(cluster, shape, scope, mask), mask))
    gangs = [_option(cluster, chosen, mask) for chosen, mask in found]
    return _with_loads(cluster, gangs) if gangs and nodes & cluster.loads.reported else gangs


def groups_in(cluster: Cluster, nodes: NodeSet, gpu_count: int) -> list[Group]:
    """Group nodes with so many free GPUs by kind and free GPUs."""
    if nodes.bit_count() < _FEW_NODES:
        few: dict[tuple[int, int], NodeSet] = {}
        for node in nodes_in(nodes):
            key = cluster.free_as(node)
            few[key] = few.get(key, NO_NODES) | 1 << node
        return [Group(*key, here, here.bit_count()) for key, here in few.items()]
    return [
        Group(group.kind, group.free, here, here.bit_count())
        for group in cluster.groups
        if group.free.bit_count() >= gpu_count and (here := group.nodes & nodes)
    ]


def _may_have_a_set_in_common(shape: Shape, groups: Sequence[Group]) -> bool:
    """Whether some index set is free on enough nodes: most searches that find no gang end here."""
    if any(group.node_count >= shape.node_count for group in groups):
        return True
    return _counts(groups, shape.gpus_per_node).reach(shape.node_count)


def _counts(groups: Sequence[Group], size: int) -> IndexSetCounts:
    """Count on how many nodes each index set is free."""
    return count_index_sets(size, [(group.free, group.node_count) for group in groups])


def _scopes(
    cluster: Cluster, shape: Shape, nodes: NodeSet, required: NodeSet, groups: Sequence[Group]
) -> Iterator[_Scope]:
    """The tightest racks that hold enough nodes, then everything."""
    optional = nodes & ~required
    racks = [here for all_of_rack in cluster.rack_nodes if (here := all_of_rack & nodes)]
    counts = [here.bit_count() for here in racks]
    numbers = range(len(racks))
    enough = [
        number
        for number in numbers
        if counts[number] >= shape.node_count and not required & ~racks[number]
    ]
    size = shape.gpus_per_node
    needed = groups_in(cluster, required, size) if required else ()
    for number in sorted(enough, key=counts.__getitem__)[:RACK_COUNT]:
        here = racks[number] & optional
        yield _Scope((here,), groups_in(cluster, here, size), needed)
    if len(racks) > 1:
        fullest_first = sorted(numbers, key=lambda number: -counts[number])
        by_rack = [racks[number] & optional for number in fullest_first]
        yield _Scope(by_rack, groups_in(cluster, optional, size) if required else groups, needed)


def _index_sets(cluster: Cluster, shape: Shape, scope: _Scope) -> list[int]:
    """The index sets whose best free nodes link best, all told; the least fragmenting of equals."""
    size, tables = shape.gpus_per_node, cluster.tables
    every_group = [*scope.groups, *scope.required]
    kinds = sorted({group.kind for group in every_group})
    free_on_required = -1
    for group in scope.required:
        free_on_required &= group.free
    needed_count = sum([group.node_count for group in scope.required])
    wanted = shape.node_count - needed_count
    if size == max(tables[kind].gpu_count for kind in kinds):  # whole nodes: nothing to compare
        whole = (1 << size) - 1
        count = sum([group.node_count for group in scope.groups if group.free == whole])
        is_free = count >= wanted and free_on_required & whole == whole
        return [whole] if is_free else []
    counts = _counts(scope.groups if wanted else scope.required, size)
    masks = counts.reaching(max(wanted, 1))
    masks = masks[masks & ~free_on_required == 0]
    if not len(masks):
        return []
    total = _best_totals(cluster, scope, kinds, masks, wanted)
    lost, node_count = np.zeros(len(masks)), 0
    for kind in kinds:
        count = sum([group.node_count for group in every_group if group.kind == kind])
        inside = masks <= tables[kind].full_mask
        lost[inside] += count * tables[kind].idle_losses[masks[inside]]
        node_count += count
    best = np.argsort(lost / (2 * node_count) - total, kind="stable")[:INDEX_SET_COUNT]
    chosen: list[int] = masks[best].tolist()
    return chosen


def _best_totals(
    cluster: Cluster, scope: _Scope, kinds: Sequence[int], masks: NDArray[np.int64], wanted: int
) -> NDArray[np.int64]:
    """Sum the link scores of index sets on their best-linked nodes; there are enough of these.

    Args:
        cluster: has the link tables.
        scope: its required nodes count in any case.
        kinds: of all nodes in the scope.
        masks: int64 [set].
        wanted: how many nodes that are not required.

    Returns:
        int64 [set].
    """
    tables, total = cluster.tables, np.zeros(len(masks), dtype=np.int64)
    for group in scope.required:
        total += group.node_count * tables[group.kind].set_scores[masks]
    if len(kinds) == 1:
        return total + wanted * tables[kinds[0]].set_scores[masks]
    scores, free_on = np.zeros((2, len(kinds), len(masks)), dtype=np.int64)
    for position, kind in enumerate(kinds):
        inside = masks <= tables[kind].full_mask
        groups = [group for group in scope.groups if group.kind == kind]
        scores[position, inside] = tables[kind].set_scores[masks[inside]]
        free_on[position, inside] = _counts(groups, int(masks[0]).bit_count()).of(masks[inside])
    missing = np.full(len(masks), wanted)
    for kind_of_set in np.argsort(-scores, axis=0, kind="stable"):  # best linked first, set by set
        each = kind_of_set, np.arange(len(masks))
        taken = np.minimum(missing, free_on[each])
        total += taken * scores[each]
        missing -= taken
    return total


def _best_nodes(cluster: Cluster, shape: Shape, scope: _Scope, mask: int) -> NodeSet:
    """The nodes that suit an index set best.

    Required nodes first; then the best linked; of equals those of the fullest rack, then the
    fullest nodes, then those with the least load, then the lowest node index.
    """
    chosen, wanted = NO_NODES, shape.node_count
    for group in scope.required:
        chosen |= group.nodes
        wanted -= group.node_count
    fitting: dict[tuple[int, int], NodeSet] = {}
    for group in scope.groups:
        if group.free & mask == mask:
            key = -cluster.tables[group.kind].score_by_set[mask], group.free.bit_count()
            fitting[key] = fitting.get(key, NO_NODES) | group.nodes
    by_score: dict[int, list[NodeSet]] = {}
    for (score, _), nodes in sorted(fitting.items()):
        by_score.setdefault(score, []).append(nodes)
    for fullest_first in by_score.values():
        together = NO_NODES
        for nodes in fullest_first:
            together |= nodes
        count = together.bit_count()
        if count > wanted:
            return chosen | _first_of(cluster, scope.racks, together, fullest_first, wanted)
        chosen |= together
        wanted -= count
    return chosen


def _first_of(
    cluster: Cluster,
    racks: Sequence[NodeSet],
    together: NodeSet,
    fullest_first: Sequence[NodeSet],
    wanted: int,
) -> NodeSet:
    """Choose among equally well linked nodes, rack by rack; there are more than wanted."""
    chosen = NO_NODES
    for rack in racks:
        if not wanted:
            break
        if not together & rack:
            continue
        for nodes in fullest_first:
            if wanted and (here := nodes & rack):
                best = _least_loaded(cluster, here, wanted)
                chosen |= best
                wanted -= best.bit_count()
    return chosen


def _least_loaded(cluster: Cluster, nodes: NodeSet, count: int) -> NodeSet:
    """The nodes of a set with the least load, ties to the lower node index; all if too few."""
    if nodes.bit_count() <= count or not nodes & cluster.loads.reported:
        return first_nodes(nodes, count)
    listed = node_array(nodes)
    idle = ((1.0 - cluster.loads.mean[listed]) * _LOAD_STEPS).astype(np.int64)
    found = NO_NODES
    for node in listed[np.argsort(-idle, kind="stable")[:count]].tolist():
        found |= 1 << node
    return found


def _option(cluster: Cluster, nodes: NodeSet, mask: int) -> GangOption:
    listed = tuple(nodes_in(nodes))
    parts = tuple([(*cluster.free_as(node), mask) for node in listed])
    rack = cluster.rack_nodes[cluster.rack_of[listed[0]]]
    return GangOption(listed, parts, Tier.CLUSTER if nodes & ~rack else Tier.RACK)


def _with_loads(cluster: Cluster, gangs: Sequence[GangOption]) -> Sequence[GangOption]:
    """Add the load around each gang's GPUs, the mean over its nodes."""
    loads = cluster.loads
    nodes = np.array([gang.nodes for gang in gangs])
    flat = nodes.reshape(-1)
    masks = np.repeat([gang.parts[0][2] for gang in gangs], nodes.shape[1])
    around = np.zeros((len(flat), LOAD_COLUMN_COUNT), dtype=np.float32)
    for table, here in cluster.by_kind(flat):
        weights = table.neighbour_weights(masks[here]).reshape(len(here), -1, table.gpu_count)
        load = loads.by_gpu[flat[here], : table.gpu_count]
        around[here] = weighted_sums(weights, load).reshape(len(here), -1)
    mean = around.reshape(*nodes.shape, -1).mean(axis=1)
    known = loads.known_frac[nodes].mean(axis=1)
    return [
        gang._replace(load=Load(mean[position : position + 1], float(known[position])))
        for position, gang in enumerate(gangs)
    ]
