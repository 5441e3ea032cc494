"""A wider search on single nodes, for score policies that read more of a node than its links.

The usual search offers the eight nodes with the best heuristic score. To a policy that reads racks
and neighbours, nodes with the same links and the same GPUs free differ, and a node with weak links
can be the right one for a job that hardly communicates.
"""

from collections.abc import Sequence
from dataclasses import replace

from roost_engine.cluster.cluster import Cluster
from roost_engine.cluster.features import LOAD_SCOPES
from roost_engine.cluster.link_table import SubsetChoice, best_static_score
from roost_engine.cluster.node_sets import NO_NODES, NodeSet, nodes_in
from roost_engine.domain.lazy import Lazy
from roost_engine.domain.model import JobSpec
from roost_engine.placement.candidates import Candidates
from roost_engine.placement.eligibility import Hint, capacity_for
from roost_engine.placement.options import NodeOption
from roost_engine.placement.search import first_candidates, first_hints, with_loads

KIND_GROUP_COUNT = 6  # groups of each kind of node, the best by the heuristic
GROUP_NODE_COUNT = 4  # nodes of a group, spread evenly over it
SUBSET_COUNT = 4  # subsets of a node, the least fragmenting


class WideSearch:
    """The first of a job's shapes that has capacity, on more nodes. See policies.CandidatePolicy.

    Args:
        any_gpus: see policies.ShapeByShape.
    """

    def __init__(self, any_gpus: bool = False) -> None:
        self.any_gpus = any_gpus

    def propose(self, cluster: Cluster, job: JobSpec, reserved: NodeSet, at_s: float) -> Candidates:
        """See policies.CandidatePolicy."""
        found = first_candidates(cluster, job, reserved, self.any_gpus)
        if not found or found.shape.node_count > 1 or job.fixed_indices:
            return found
        capacity = capacity_for(cluster, job, found.shape, reserved)
        offered = NO_NODES
        for option in found.options:
            offered |= option.nodes if isinstance(option, NodeOption) else NO_NODES
        nodes = capacity.nodes
        if not offered & cluster.asleep:  # the search has preferred awake nodes
            nodes &= ~cluster.asleep
        options = various_nodes(cluster, found.shape.gpus_per_node, nodes)
        return Candidates(cluster, found.shape, options, Lazy(capacity.exclusions))

    def hints(self, cluster: Cluster, job: JobSpec, nodes: NodeSet) -> Sequence[Hint]:
        """See policies.CandidatePolicy."""
        return first_hints(cluster, job, nodes, self.any_gpus)


def various_nodes(cluster: Cluster, gpu_count: int, nodes: NodeSet) -> Sequence[NodeOption]:
    """List nodes of the best groups of every kind, a few spread over each group.

    Args:
        cluster: the nodes.
        gpu_count: GPUs wanted.
        nodes: those with capacity, one or more.
    """
    by_kind: dict[int, list[NodeOption]] = {}
    for group in cluster.groups:
        if some := group.nodes & nodes:
            choice = cluster.tables[group.kind].choice(group.free, gpu_count)
            by_kind.setdefault(group.kind, []).append(NodeOption(some, group.kind, choice))
    chosen: list[NodeOption] = []
    for options in by_kind.values():
        # Ties go to the group with the lowest node: 0b1010 & -0b1010 is 0b0010.
        options.sort(key=lambda one: (-one.choice.best_static_score, one.nodes & -one.nodes))
        chosen += [
            replace(option, nodes=_spread(option.nodes), choice=_few(option.choice))
            for option in options[:KIND_GROUP_COUNT]
        ]
    return with_loads(cluster, chosen) if nodes & cluster.loads.reported else chosen


def _spread(nodes: NodeSet) -> NodeSet:
    """Return some of the nodes, at even distances in the order of their indices."""
    listed, spread = nodes_in(nodes), NO_NODES
    count = min(GROUP_NODE_COUNT, len(listed))
    for number in range(count):
        spread |= 1 << listed[number * len(listed) // count]
    return spread


def _few(choice: SubsetChoice) -> SubsetChoice:
    """Return a choice of the first subsets only."""
    if len(choice.masks) <= SUBSET_COUNT:
        return choice
    static = choice.static[:SUBSET_COUNT]
    return replace(
        choice,
        masks=choice.masks[:SUBSET_COUNT],
        static=static,
        best_static_score=best_static_score(static),
        neighbours=choice.neighbours[: SUBSET_COUNT * len(LOAD_SCOPES)],
    )
