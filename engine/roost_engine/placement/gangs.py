"""The search for gangs: jobs on several nodes, each of which gives the same index set.

Exact: for every scope (a rack, the cluster) the index set and nodes with the best link score are
among those offered, also where nodes of several kinds and sizes mix.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from roost_engine.cluster.cluster import Cluster
from roost_engine.cluster.features import weighted_sums
from roost_engine.cluster.index_set_counts import is_countable
from roost_engine.cluster.link_table import LOAD_COLUMN_COUNT, LinkTable, mask_of, subsets
from roost_engine.cluster.node_sets import (
    NO_NODES,
    NodeSet,
    first_nodes,
    node_array,
    nodes_in,
)
from roost_engine.domain.model import Shape
from roost_engine.domain.tier import Tier
from roost_engine.placement.gang_scopes import Scope, scope_of
from roost_engine.placement.options import GangOption, Load

INDEX_SET_COUNT = 4  # index sets offered per rack and across racks
RACK_COUNT = 4  # racks whose nodes are offered as a gang
_RACK, _CLUSTER = Tier.RACK, Tier.CLUSTER  # an enum looks its members up by a call
_FEW = 64  # up to so many racks or nodes, a loop is quicker than numpy
_CACHE_LIMIT = 512  # orders of index sets, each of at most index_set_counts.LANE_LIMIT numbers


class _Required(NamedTuple):
    """Nodes that a gang must hold.

    Attributes:
        nodes: the nodes; often none.
        parts: (kind, free mask) of each.
    """

    nodes: NodeSet
    parts: Sequence[tuple[int, int]]


def find_gangs(
    cluster: Cluster,
    shape: Shape,
    nodes: NodeSet,
    required: NodeSet,
    fixed_indices: tuple[int, ...] = (),
) -> Sequence[GangOption]:
    """List the best-linked gangs, those within one rack first.

    Args:
        cluster: the nodes.
        shape: how many nodes, and how many GPUs on each.
        nodes: those with capacity; there is no gang where they are too few.
        required: those of them that the gang must hold.
        fixed_indices: the only GPU indices that the job can have, free on all of the nodes; empty:
            any.
    """
    if nodes.bit_count() < shape.node_count:
        return ()
    counts = _count_by_rack(cluster, nodes)
    racks = sorted(counts, key=counts.__getitem__, reverse=True)  # of equals, the lower id first
    group = cluster.groups.of_node[nodes.bit_length() - 1]
    is_whole = group.free.bit_count() == shape.gpus_per_node == cluster.tables[group.kind].gpu_count
    are_alike = is_whole and not nodes & (~group.nodes | cluster.loads.reported)
    if are_alike and not required and not fixed_indices:
        return _whole_nodes(cluster, shape.node_count, nodes, counts, racks)
    everything = scope_of(cluster, nodes, racks)
    if not _may_have_a_set_in_common(shape, everything):
        return ()
    needed = _Required(required, [cluster.free_as(node) for node in nodes_in(required)])
    # The tightest racks that hold enough nodes, then the whole cluster.
    enough = [rack for rack, count in counts.items() if count >= shape.node_count]
    if required:
        enough = [rack for rack in enough if not required & ~cluster.rack_nodes[rack]]
    if len(racks) == 1 and not required:
        scopes = [everything]
    else:
        scopes = [
            scope_of(cluster, cluster.rack_nodes[rack] & nodes & ~required, (rack,))
            for rack in sorted(enough, key=counts.__getitem__)[:RACK_COUNT]
        ]
    if len(racks) > 1:
        scopes.append(scope_of(cluster, nodes & ~required, racks) if required else everything)
    found: dict[tuple[NodeSet, int], None] = {}
    fixed = mask_of(fixed_indices)
    for scope in scopes:
        masks = [fixed] if fixed else _index_sets(cluster, shape, scope, needed)
        for mask in masks:
            wanted = shape.node_count - len(needed.parts)
            found.setdefault((required | scope.best(mask, wanted), mask))
    gangs = [_option(cluster, chosen, mask) for chosen, mask in found]
    return _with_loads(cluster, gangs) if gangs and nodes & cluster.loads.reported else gangs


def _whole_nodes(
    cluster: Cluster, wanted: int, nodes: NodeSet, counts: Mapping[int, int], racks: Sequence[int]
) -> Sequence[GangOption]:
    """List gangs of idle nodes of one kind without load: these differ by their racks alone.

    The same gangs as those of a search in a fifth of the time; most gangs are for whole nodes.

    Args:
        cluster: the nodes.
        wanted: how many nodes.
        nodes: to choose from, enough of them.
        counts: of them, by rack id.
        racks: the ids of their racks, that with the most nodes first.
    """
    group, rack_nodes = cluster.groups.of_node[nodes.bit_length() - 1], cluster.rack_nodes
    parts = ((group.kind, group.free, group.free),) * wanted
    enough = [rack for rack, count in counts.items() if count >= wanted]
    enough.sort(key=counts.__getitem__)
    chosen = [first_nodes(rack_nodes[rack] & nodes, wanted) for rack in enough[:RACK_COUNT]]
    if counts[racks[0]] < wanted:
        across, missing = NO_NODES, wanted
        for rack in racks:
            here = first_nodes(rack_nodes[rack] & nodes, missing)
            across |= here
            missing -= here.bit_count()
        return [GangOption(tuple(nodes_in(across)), parts, _CLUSTER)]
    widest = first_nodes(rack_nodes[racks[0]] & nodes, wanted)
    if widest not in chosen:  # what a search across racks finds: they need not be crossed
        chosen.append(widest)
    return [GangOption(tuple(nodes_in(each)), parts, _RACK) for each in chosen]


def find_nodes_only(
    cluster: Cluster, shape: Shape, nodes: NodeSet, required: NodeSet
) -> Sequence[GangOption]:
    """Choose the nodes of a gang for which no index set is free on enough nodes.

    Slurm can then be asked for the nodes only, and chooses the GPUs. The option names the
    best-linked free GPUs of each node, which are the likely ones.

    Args:
        cluster: the nodes.
        shape: how many nodes, and how many GPUs on each.
        nodes: those with capacity, enough of them.
        required: those of them that the gang must hold.

    Returns:
        One gang: of the rack with the fewest nodes that suffice, else across racks; there the
        best-linked nodes, of equals those with the fewest free GPUs.
    """
    counts = _count_by_rack(cluster, nodes)
    enough = [
        rack
        for rack, count in counts.items()
        if count >= shape.node_count and not required & ~cluster.rack_nodes[rack]
    ]
    if enough:
        nodes &= cluster.rack_nodes[min(enough, key=counts.__getitem__)]

    def preference(node: int) -> tuple[bool, int, int, int]:
        kind, free = cluster.free_as(node)
        choice = cluster.tables[kind].choice(free, shape.gpus_per_node)
        return not required >> node & 1, -choice.link_score, free.bit_count(), node

    chosen = sorted(sorted(nodes_in(nodes), key=preference)[: shape.node_count])
    parts = []
    for node in chosen:
        kind, free = cluster.free_as(node)
        choice = cluster.tables[kind].choice(free, shape.gpus_per_node)
        parts.append((kind, free, int(choice.masks[0])))
    rack_nodes = cluster.rack_nodes[cluster.rack_of[chosen[0]]]
    tier = Tier.CLUSTER if any(not rack_nodes >> node & 1 for node in chosen) else Tier.RACK
    gang = GangOption(tuple(chosen), tuple(parts), tier)
    return [gang]


def _count_by_rack(cluster: Cluster, nodes: NodeSet) -> dict[int, int]:
    """Return how many of the nodes each rack has, by rack id, ascending; only racks with some."""
    if len(cluster.rack_nodes) <= _FEW:
        in_each = [(members & nodes).bit_count() for members in cluster.rack_nodes]
        return {rack: count for rack, count in enumerate(in_each) if count}
    if nodes.bit_count() <= _FEW:
        few: dict[int, int] = {}
        for node in nodes_in(nodes):
            rack = cluster.rack_of[node]
            few[rack] = few.get(rack, 0) + 1
        return dict(sorted(few.items()))
    counts = np.bincount(cluster.racks.ids[node_array(nodes)])
    racks = np.flatnonzero(counts)
    return dict(zip(racks.tolist(), counts[racks].tolist(), strict=True))


def _may_have_a_set_in_common(shape: Shape, scope: Scope) -> bool:
    """Return whether some index set is free on enough nodes.

    Most searches that find no gang end here.
    """
    if scope.has_alike(shape.node_count):
        return True
    return scope.counts(shape.gpus_per_node).reach(shape.node_count)


def _index_sets(cluster: Cluster, shape: Shape, scope: Scope, required: _Required) -> list[int]:
    """Return the index sets with the best link scores, summed over the best free nodes.

    At most INDEX_SET_COUNT; of equals those that fragment idle nodes least.
    """
    size, tables = shape.gpus_per_node, cluster.tables
    count_by_kind = dict(scope.count_by_kind)
    free_on_required = -1  # every bit is set: without a required node nothing is ruled out
    for kind, free in required.parts:
        count_by_kind[kind] = count_by_kind.get(kind, 0) + 1
        free_on_required &= free
    wanted = shape.node_count - len(required.parts)
    kinds = sorted(count_by_kind)
    if size == max(tables[kind].gpu_count for kind in kinds):  # whole nodes: nothing to compare
        whole = (1 << size) - 1
        is_free = scope.count_with(whole) >= wanted and free_on_required & whole == whole
        return [whole] if is_free else []
    if not required.parts and len(kinds) == 1 and is_countable(tables[kinds[0]].full_mask, size):
        ranked = _ranked_sets(tables[kinds[0]], size, count_by_kind[kinds[0]], wanted)
        return scope.counts(size).first_reaching(wanted, ranked, INDEX_SET_COUNT)
    if wanted:
        masks = scope.counts(size).reaching(wanted)
    else:
        masks = np.array(sorted(subsets(free_on_required, size)), dtype=np.int64)
    masks = masks[masks & ~free_on_required == 0]
    if not len(masks):
        return []
    total = _best_totals(cluster, scope, required, kinds, masks, wanted)
    node_counts = [(tables[kind], count_by_kind[kind]) for kind in kinds]
    return _best_first(masks, total, node_counts)[:INDEX_SET_COUNT]


@lru_cache(_CACHE_LIMIT)
def _ranked_sets(table: LinkTable, size: int, node_count: int, wanted: int) -> list[int]:
    """Return the index sets of a size for a gang on nodes of one kind, the best first.

    Args:
        table: of the kind.
        size: GPUs in a set.
        node_count: nodes to choose from.
        wanted: nodes of the gang.
    """
    masks = np.flatnonzero(table.popcount == size)
    return _best_first(masks, wanted * table.set_scores[masks], [(table, node_count)])


def _best_first(
    masks: NDArray[np.int64],
    total: NDArray[np.int64] | NDArray[np.int32],
    node_counts: Sequence[tuple[LinkTable, int]],
) -> list[int]:
    """Order index sets by their link scores; of equals those that fragment idle nodes least.

    Args:
        masks: int64 [set].
        total: [set], link scores summed over the nodes of a gang.
        node_counts: how many nodes there are of each kind.
    """
    lost, node_count = np.zeros(len(masks)), sum(count for _, count in node_counts)
    for table, count in node_counts:
        inside = masks <= table.full_mask
        lost[inside] += count * table.idle_losses[masks[inside]]
    # Totals are whole numbers, and a mean loss is 0 to 1: half of it only settles ties.
    order = np.argsort(lost / (2 * node_count) - total, kind="stable")
    listed: list[int] = masks[order].tolist()
    return listed


def _best_totals(
    cluster: Cluster,
    scope: Scope,
    required: _Required,
    kinds: Sequence[int],
    masks: NDArray[np.int64],
    wanted: int,
) -> NDArray[np.int64]:
    """Sum the link scores of index sets on their best-linked nodes; there are enough of these.

    Args:
        cluster: has the link tables.
        scope: the nodes to choose from.
        required: nodes that count in any case.
        kinds: of all these nodes.
        masks: int64 [set].
        wanted: how many nodes of the scope.

    Returns:
        int64 [set].
    """
    tables, total = cluster.tables, np.zeros(len(masks), dtype=np.int64)
    for kind, _ in required.parts:
        total += tables[kind].set_scores[masks]
    if len(kinds) == 1:
        return total + wanted * tables[kinds[0]].set_scores[masks]
    size = int(masks[0]).bit_count()
    scores, free_on = np.zeros((2, len(kinds), len(masks)), dtype=np.int64)
    for position, kind in enumerate(kinds):
        inside = masks <= tables[kind].full_mask
        scores[position, inside] = tables[kind].set_scores[masks[inside]]
        free_on[position, inside] = scope.counts(size, kind).of(masks[inside])
    missing = np.full(len(masks), wanted)
    for kind_of_set in np.argsort(-scores, axis=0, kind="stable"):  # best linked first, set by set
        each = kind_of_set, np.arange(len(masks))
        taken = np.minimum(missing, free_on[each])
        total += taken * scores[each]
        missing -= taken
    return total


def _option(cluster: Cluster, nodes: NodeSet, mask: int) -> GangOption:
    listed = tuple(nodes_in(nodes))
    groups = [cluster.groups.of_node[node] for node in listed]
    parts = tuple([(group.kind, group.free, mask) for group in groups])
    rack = cluster.rack_nodes[cluster.rack_of[listed[0]]]
    return GangOption(listed, parts, _CLUSTER if nodes & ~rack else _RACK)


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
        replace(gang, load=Load(mean[position : position + 1], float(known[position])))
        for position, gang in enumerate(gangs)
    ]
