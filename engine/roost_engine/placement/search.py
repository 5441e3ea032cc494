"""The search for placements: which ones Slurm could start now for one job.

One node: the exact link-optimal subsets of the best few nodes, so no score policy can choose a
worse-linked set of a node than the best one. Several nodes: Slurm gives each node of a job the
same GPU indices, so a candidate is a set of nodes and one index set that is free on all of them.

Where no load is known, nodes with the same links and the same GPUs free are interchangeable: the
search looks at groups of them, and the first nodes of a group stand for all. Where load is known,
the nodes are compared one by one, as arrays.
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import NamedTuple

import numpy as np

from roost_engine.cluster.cluster import Cluster
from roost_engine.cluster.features import HEURISTIC_WEIGHTS, weighted_sums
from roost_engine.cluster.link_table import (
    LOAD_COLUMN_COUNT,
    LOAD_COLUMNS,
    SubsetChoice,
    mask_of,
)
from roost_engine.cluster.loads import NodeLoads
from roost_engine.cluster.node_sets import NO_NODES, NodeSet, first_nodes, node_array, nodes_in
from roost_engine.domain.actions import Exclusions
from roost_engine.domain.lazy import Lazy
from roost_engine.domain.model import JobSpec, Shape
from roost_engine.placement.candidates import Candidates
from roost_engine.placement.eligibility import (
    RESERVED,
    Capacity,
    Hint,
    capacity_for,
    first_largest,
    hints_in,
    required_set,
)
from roost_engine.placement.gangs import find_gangs, find_nodes_only
from roost_engine.placement.options import GangOption, Load, NodeOption, Option

NODE_COUNT = 8  # single nodes whose optimal subsets are scored

# What the heuristic adds for a load of 1 around a subset; below 0.
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


def first_candidates(
    cluster: Cluster,
    job: JobSpec,
    reserved: NodeSet = NO_NODES,
    any_gpus: bool = False,
    shapes: Sequence[Shape] | None = None,
) -> Candidates:
    """List the placements of the first of the job's shapes that Slurm could start now.

    Without any, the exclusions are those of the last shape, and of the other shapes only the
    largest number of nodes that a reservation shut out.

    Args:
        cluster: the nodes.
        job: its shapes, partition, features and node lists count.
        reserved: nodes reserved for a job that is served before this one.
        any_gpus: whether a job that may_have_any_gpus() has them.
        shapes: in place of the job's.
    """
    failed = []
    for shape in shapes or job.shapes:
        found = _search(cluster, job, shape, reserved, any_gpus)
        if isinstance(found, Candidates):
            return found
        failed.append(found)
    return failure(cluster, failed)


def may_have_any_gpus(job: JobSpec) -> bool:
    """Return whether a job may have other GPUs on each of its nodes, for Slurm to choose.

    The last resort where no index set is free on enough nodes. A job that leaves the number of its
    nodes open waits for one of its other shapes: on a trace with many of these jobs, starting
    them on ever more nodes made the mean completion time 10 % longer.
    """
    return len(job.shapes) == 1 and not job.fixed_indices


def first_hints(
    cluster: Cluster,
    job: JobSpec,
    nodes: NodeSet,
    any_gpus: bool = False,
    shapes: Sequence[Shape] | None = None,
) -> Sequence[Hint]:
    """Return in which shapes first_candidates() may find a placement, now that nodes were freed.

    Args:
        cluster: the nodes.
        job: the job without capacity.
        nodes: the nodes that have more capacity than at the last search.
        any_gpus: see first_candidates().
        shapes: in place of the job's.
    """
    same_gpus = not (any_gpus and may_have_any_gpus(job))
    return hints_in(cluster, job, nodes, same_gpus, shapes)


class NoCapacity(NamedTuple):
    """A shape for which no placement was found.

    Attributes:
        shape: the shape.
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
    cluster: Cluster, job: JobSpec, shape: Shape, reserved: NodeSet, any_gpus: bool = False
) -> Candidates | NoCapacity:
    capacity = capacity_for(cluster, job, shape, reserved)
    if capacity.node_count < shape.node_count:
        return NoCapacity(shape, capacity)
    options: Sequence[Option]
    if shape.node_count == 1:
        if job.fixed_indices or cluster.asleep:
            options = _awake_nodes_first(cluster, job, shape, capacity.nodes)
        else:
            options = find_nodes(cluster, shape.gpus_per_node, capacity.nodes)
    else:
        required = required_set(cluster, job, capacity.nodes)
        if required is None:
            return NoCapacity(shape, capacity, ("not in the job's node list", capacity.node_count))
        options = _awake_gangs_first(cluster, job, shape, capacity.nodes, required)
        if not options and any_gpus and may_have_any_gpus(job):
            options = find_nodes_only(cluster, shape, capacity.nodes, required)
        if not options:
            why = "no index set is free on enough nodes", capacity.node_count
            return NoCapacity(shape, capacity, why)
    return Candidates(cluster, shape, options, Lazy(capacity.exclusions))


def _awake_gangs_first(
    cluster: Cluster, job: JobSpec, shape: Shape, nodes: NodeSet, required: NodeSet
) -> Sequence[GangOption]:
    """List gangs; those of awake nodes alone where none is closer together."""
    found = find_gangs(cluster, shape, nodes, required, job.fixed_indices)
    asleep = cluster.asleep & nodes
    if not found or not asleep or asleep & required:
        return found
    awake = find_gangs(cluster, shape, nodes & ~asleep, required, job.fixed_indices)
    if awake and min(one.tier for one in awake) <= min(one.tier for one in found):
        return awake
    return found


# -- one node ----------------------------------------------------------------------------------


def _awake_nodes_first(
    cluster: Cluster, job: JobSpec, shape: Shape, nodes: NodeSet
) -> Sequence[NodeOption]:
    """List single nodes; awake ones alone where no other has better links to offer."""
    asleep = cluster.asleep & nodes
    if not asleep or asleep == nodes:
        return _single_nodes(cluster, job, shape, nodes)
    awake = _single_nodes(cluster, job, shape, nodes & ~asleep)
    others = _single_nodes(cluster, job, shape, asleep)
    if _best_static_score(awake) >= _best_static_score(others):
        return awake
    return _single_nodes(cluster, job, shape, nodes)


def _best_static_score(options: Sequence[NodeOption]) -> float:
    return max(option.choice.best_static_score for option in options)


def _single_nodes(
    cluster: Cluster, job: JobSpec, shape: Shape, nodes: NodeSet
) -> Sequence[NodeOption]:
    if job.fixed_indices:
        return find_nodes_with(cluster, job.fixed_indices, nodes)
    return find_nodes(cluster, shape.gpus_per_node, nodes)


def find_nodes_with(
    cluster: Cluster, gpu_indices: tuple[int, ...], nodes: NodeSet
) -> Sequence[NodeOption]:
    """List the best few single nodes for a job that can only have these GPU indices.

    Nodes are compared by the heuristic's score, load left out. Ties go to the lower node index.

    Args:
        cluster: the nodes.
        gpu_indices: ascending.
        nodes: those on which the GPUs are free, one or more.
    """
    chosen: list[NodeOption] = []
    mask = mask_of(gpu_indices)
    options = [
        NodeOption(some, group.kind, cluster.tables[group.kind].only(group.free, mask))
        for group, some in cluster.groups.among(nodes).items()
    ]
    options.sort(key=lambda option: -option.choice.best_static_score)
    missing = NODE_COUNT
    for option in options:
        if missing:
            first = first_nodes(option.nodes, missing)
            chosen.append(replace(option, nodes=first))
            missing -= first.bit_count()
    return with_loads(cluster, chosen) if nodes & cluster.loads.reported else chosen


def with_loads(cluster: Cluster, options: Sequence[NodeOption]) -> Sequence[NodeOption]:
    """Split options into single nodes, each with the load around its subsets."""
    single = [
        replace(option, nodes=1 << node) for option in options for node in nodes_in(option.nodes)
    ]
    nodes = [node for option in options for node in nodes_in(option.nodes)]
    around = _loads(cluster.loads, nodes, [option.choice for option in single])
    return [replace(option, load=load) for option, load in zip(single, around, strict=True)]


def find_nodes(cluster: Cluster, gpu_count: int, nodes: NodeSet) -> Sequence[NodeOption]:
    """List the best few single nodes, each with the link-optimal subsets of its free GPUs.

    Nodes are compared by the heuristic's score of their best subset, with the mean load of the node
    as the load around the subset. Ties go to the lower node index.

    Args:
        cluster: the nodes.
        gpu_count: GPUs wanted.
        nodes: those with capacity, one or more.
    """
    if nodes & cluster.loads.reported:
        return _best_with_load(cluster, gpu_count, nodes)
    # Among groups of interchangeable nodes.
    ranking, are_few = cluster.ranking(gpu_count), nodes.bit_count() <= NODE_COUNT
    chosen = ranking.among(nodes) if are_few else ranking.best(nodes, NODE_COUNT)
    return [NodeOption(some, group.kind, choice) for (_, _, group, choice), some in chosen]


def _best_with_load(cluster: Cluster, gpu_count: int, nodes: NodeSet) -> Sequence[NodeOption]:
    """Choose among nodes of which each has a score of its own."""
    listed, groups, loads = node_array(nodes), cluster.groups, cluster.loads
    scores = cluster.ranking(gpu_count).scores()[groups.number_of[listed]]
    worth = scores + loads.mean[listed] * _NODE_LOAD_WEIGHT
    best = listed[first_largest(worth, NODE_COUNT)].tolist()
    group_of = [groups[node] for node in best]
    choices = [cluster.tables[group.kind].choice(group.free, gpu_count) for group in group_of]
    around = _loads(loads, best, choices)
    return [
        NodeOption(1 << node, group.kind, choice, load)
        for node, group, choice, load in zip(best, group_of, choices, around, strict=True)
    ]


def _loads(
    loads: NodeLoads, nodes: Sequence[int], choices: Sequence[SubsetChoice]
) -> list[Load | None]:
    """Average the load around the subsets of each node; None where it is unknown."""
    found: list[Load | None] = [None] * len(nodes)
    # One product for all nodes of a size: numpy's calls cost more than its sums.
    for size in sorted({choice.neighbours.shape[1] for choice in choices}):
        here = [at for at, choice in enumerate(choices) if choice.neighbours.shape[1] == size]
        weights = np.concatenate([choices[at].neighbours for at in here])
        each = loads.by_gpu[[nodes[at] for at in here], :size]
        by_gpu = np.repeat(each, [len(choices[at].neighbours) for at in here], axis=0)
        around = weighted_sums(weights[:, None], by_gpu).reshape(-1, LOAD_COLUMN_COUNT)
        end = 0
        for at in here:
            start, end = end, end + len(choices[at].masks)
            if known_frac := float(loads.known_frac[nodes[at]]):
                found[at] = Load(around[start:end], known_frac)
    return found
