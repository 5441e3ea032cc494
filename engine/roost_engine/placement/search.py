"""The search for placements: which ones Slurm could start now for one job.

One node: the exact link-optimal subsets of the best few nodes, so no score policy can choose a
worse-linked set of a node than the best one. Several nodes: Slurm gives each node of a job the
same GPU indices, so a candidate is a set of nodes and one index set that is free on all of them.

Both look at groups of nodes with the same links and the same GPUs free, not at nodes. Where the
load of a group's nodes is unknown the group is a bit set and its first nodes stand for all; where
it is known, the nodes of the group are compared as arrays.
"""

from collections.abc import Iterator, Sequence
from functools import partial
from itertools import chain, groupby, takewhile
from operator import itemgetter
from typing import NamedTuple

import numpy as np

from roost_engine.cluster.cluster import Cluster
from roost_engine.cluster.features import HEURISTIC_WEIGHTS, weighted_sums
from roost_engine.cluster.group_ranking import RankedGroup
from roost_engine.cluster.link_table import LOAD_COLUMNS
from roost_engine.cluster.node_sets import NO_NODES, NodeSet, first_nodes, nodes_in
from roost_engine.domain.actions import Exclusions
from roost_engine.domain.lazy import Lazy
from roost_engine.domain.model import JobSpec, Shape
from roost_engine.placement.candidates import Candidates
from roost_engine.placement.eligibility import (
    RESERVED,
    Capacity,
    Hint,
    capacity_for,
    required_set,
)
from roost_engine.placement.gangs import find_gangs
from roost_engine.placement.options import Load, NodeOption, Option

NODE_COUNT = 8  # single nodes whose optimal subsets are scored

# What a mean load of 1 takes off the heuristic's score, were it the same around every GPU.
_NODE_LOAD_WEIGHT = float(HEURISTIC_WEIGHTS[LOAD_COLUMNS].sum())


def find_candidates(
    cluster: Cluster, job: JobSpec, shape: Shape, reserved: NodeSet = NO_NODES
) -> Candidates:
    """List the placements of one shape that Slurm could start now.

    Args:
        cluster: the nodes.
        job: its partition, features and node lists count.
        shape: how many nodes, and what on each.
        reserved: nodes reserved for a job that is served before this one.
    """
    found = _search(cluster, job, shape, reserved)
    return found if isinstance(found, Candidates) else failure(cluster, [found])


def first_candidates(cluster: Cluster, job: JobSpec, reserved: NodeSet = NO_NODES) -> Candidates:
    """List the placements of the first of the job's shapes that Slurm could start now.

    Without any, the exclusions are those of the last shape, and of the other shapes only the
    largest number of nodes that a reservation shut out.
    """
    failed = []
    for shape in job.shapes:
        found = _search(cluster, job, shape, reserved)
        if isinstance(found, Candidates):
            return found
        failed.append(found)
    return failure(cluster, failed)


class NoCapacity(NamedTuple):
    """A shape for which no placement was found.

    Attributes:
        capacity: the nodes that have capacity for a part of it.
        why: an exclusion that `capacity` does not know of.
    """

    shape: Shape
    capacity: Capacity
    why: tuple[str, int] | None = None


def failure(
    cluster: Cluster, failed: Sequence[NoCapacity], hints: tuple[Hint, ...] | None = None
) -> Candidates:
    """Return no candidates.

    Args:
        cluster: the nodes.
        failed: the shapes that were tried, one or more.
        hints: when to search again; None: as the capacity of each shape says.
    """
    if hints is None:
        hints = tuple(hint for one in failed for hint in one.capacity.hints(one.shape))
    exclusions = Lazy(partial(_exclusions, failed))
    return Candidates(cluster, failed[-1].shape, (), exclusions, hints)


def _exclusions(failed: Sequence[NoCapacity]) -> Exclusions:
    last, excluded = failed[-1], list(failed[-1].capacity.exclusions())
    if last.why:
        excluded.append(last.why)
    reserved_count = max(one.capacity.reserved.bit_count() for one in failed)
    if reserved_count and not last.capacity.reserved:
        excluded.append((RESERVED, reserved_count))
    return tuple(excluded)


def _search(
    cluster: Cluster, job: JobSpec, shape: Shape, reserved: NodeSet
) -> Candidates | NoCapacity:
    capacity = capacity_for(cluster, job, shape, reserved)
    if capacity.node_count < shape.node_count:
        return NoCapacity(shape, capacity)
    options: Sequence[Option]
    if shape.node_count == 1:
        options = find_nodes(cluster, shape.gpus_per_node, capacity.nodes)
    else:
        required = required_set(cluster, job, capacity.nodes)
        if required is None:
            return NoCapacity(shape, capacity, ("not in the job's node list", capacity.node_count))
        options = find_gangs(cluster, shape, capacity.nodes, required)
        if not options:
            why = "no index set is free on enough nodes", capacity.node_count
            return NoCapacity(shape, capacity, why)
    return Candidates(cluster, shape, options, Lazy(capacity.exclusions))


# -- one node ----------------------------------------------------------------------------------


def find_nodes(cluster: Cluster, gpu_count: int, nodes: NodeSet) -> Sequence[NodeOption]:
    """List the best few single nodes, each with the link-optimal subsets of its free GPUs.

    A node is worth the heuristic's load-free score of its best subset, less its mean load by
    weight. Ties go to the lower node index.

    Args:
        cluster: the nodes.
        gpu_count: GPUs wanted.
        nodes: those with capacity, one or more.
    """
    groups = cluster.ranking(gpu_count).among(nodes)
    if nodes & cluster.loads.reported:
        return _best_with_load(cluster, groups)
    return _best_without_load(groups)


def _best_without_load(groups: Iterator[RankedGroup]) -> Sequence[NodeOption]:
    """Cut the ranking off after the best few nodes.

    Groups of the same score compete by node index, so they are cut off together.
    """
    found, missing = list[NodeOption](), NODE_COUNT
    for _, equals in groupby(groups, itemgetter(0)):
        level, together = list(equals), NO_NODES
        for group in level:
            together |= group.nodes
        first = first_nodes(together, missing)
        for _, nodes, kind, choice in level:
            if chosen := nodes & first:
                found.append(NodeOption(chosen, kind, choice))
        missing -= first.bit_count()
        if not missing:
            break
    return found


def _best_with_load(cluster: Cluster, groups: Iterator[RankedGroup]) -> Sequence[NodeOption]:
    """Compare the nodes of the best groups one by one.

    Load only lowers what a node is worth, so groups whose score is below the worth of enough nodes
    need not be looked at.
    """
    compared, node_count = list[RankedGroup](), 0
    for group in groups:
        compared.append(group)
        node_count += group.nodes.bit_count()
        if node_count >= NODE_COUNT:
            break
    best = _most_worth(cluster, compared)
    more = list(takewhile(lambda group: group.score >= best[-1][0], groups))
    if more:
        best = _most_worth(cluster, compared + more)
    return [_with_load(cluster, node, group) for _, node, group in best]


def _most_worth(
    cluster: Cluster, groups: Sequence[RankedGroup]
) -> list[tuple[float, int, RankedGroup]]:
    """Worth, node and group of the best few nodes, best first."""
    listed = [nodes_in(group.nodes) for group in groups]
    group_of = np.repeat(np.arange(len(groups)), [len(nodes) for nodes in listed])
    scores = np.array([group.score for group in groups], dtype=np.float32)[group_of]
    nodes = np.array(list(chain.from_iterable(listed)), dtype=np.int64)
    worth = scores + cluster.loads.mean[nodes] * _NODE_LOAD_WEIGHT
    order = np.lexsort((nodes, -worth))[:NODE_COUNT]
    return [
        (float(worth[position]), int(nodes[position]), groups[group_of[position]])
        for position in order.tolist()
    ]


def _with_load(cluster: Cluster, node: int, group: RankedGroup) -> NodeOption:
    loads, choice, load = cluster.loads, group.choice, None
    if loads.known_frac[node]:
        here = loads.by_gpu[node, : choice.neighbours.shape[1]]
        around = weighted_sums(choice.neighbours, here).reshape(len(choice.masks), -1)
        load = Load(around, float(loads.known_frac[node]))
    return NodeOption(1 << node, group.kind, choice, load)
