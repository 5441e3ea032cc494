"""Node rules of the literature, applied to a gang's equal parts: one part a node.

Tetris, LIF and LWF choose the server of a task. Papers that train with parameter servers have tasks
of one GPU; a gang placed like that is spread over many nodes. Here consolidation comes first: a
gang is cut into as few equal parts as possible, each part goes to the node of least cost among the
nodes that hold a whole part, and if these are too few, the job waits.
Sources: docs/simulator/placements.md.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from roost_engine.cluster.cluster import Cluster
from roost_engine.cluster.link_table import POPCOUNT
from roost_engine.cluster.node_sets import NodeSet, node_array, nodes_in
from roost_engine.domain.model import JobSpec, Shape
from roost_engine.placement.candidates import Candidates
from roost_engine.placement.eligibility import Hint, capacity_for, hints_in, required_set
from roost_sim.policies.placement.free_gpus import lowest_of
from roost_sim.policies.placement.scatter import nothing, the_one


class NodeCost(Protocol):
    """The cost of each node for one part of a job."""

    def costs(
        self, cluster: Cluster, job: JobSpec, shape: Shape, nodes: NDArray[np.int64], at_s: float
    ) -> NDArray[np.float64]:
        """Compute the cost of nodes.

        Args:
            cluster: read-only.
            job: the waiting job.
            shape: the shape of the job; its parts are equal.
            nodes: int64 [node], ascending node indices; each node holds a part.
            at_s: engine time.

        Returns:
            float64 [node], finite; the lowest is best.
        """


@dataclass(frozen=True, slots=True)
class WholePieces:
    """The first of a job's shapes that has capacity, on the nodes of least cost.

    Within one rack if one has enough nodes, the rack of least cost; else in as few racks as
    possible. Of nodes of equal cost the fullest, then the first. See policies.CandidatePolicy.
    """

    rule: NodeCost

    def propose(self, cluster: Cluster, job: JobSpec, reserved: NodeSet, at_s: float) -> Candidates:
        """See CandidatePolicy."""
        hints: tuple[Hint, ...] = ()
        for shape in job.shapes:
            capacity = capacity_for(cluster, job, shape, reserved)
            required = required_set(cluster, job, capacity.nodes)
            if (
                required is not None
                and capacity.node_count >= shape.node_count >= required.bit_count()
            ):
                nodes = node_array(capacity.nodes)
                cost = self.rule.costs(cluster, job, shape, nodes, at_s)
                chosen = _best(cluster, shape, nodes, cost, tuple(nodes_in(required)))
                sizes = np.full(len(chosen), shape.gpus_per_node)
                masks = lowest_of(cluster.free_mask[chosen], sizes)
                return the_one(cluster, shape, chosen, masks, capacity)
            hints += capacity.hints(shape)
        return nothing(cluster, job, capacity, hints)

    def hints(self, cluster: Cluster, job: JobSpec, nodes: NodeSet) -> Sequence[Hint]:
        """See CandidatePolicy."""
        return hints_in(cluster, job, nodes)


class WholeFreeNode:
    """Tetris: the node whose free resources align best with the demand of a part.

    The score is the dot product of free resources and demand, in GPUs, CPUs and memory, each as a
    fraction of the node's. See NodeCost.
    """

    def costs(
        self, cluster: Cluster, job: JobSpec, shape: Shape, nodes: NDArray[np.int64], at_s: float
    ) -> NDArray[np.float64]:
        """See NodeCost."""
        score = np.zeros(len(nodes))
        for free, whole, asked in (
            (cluster.gpu_free, cluster.gpu_count, shape.gpus_per_node),
            (cluster.cpu_free, cluster.cpu_count, shape.cpus_per_node),
            (cluster.memory_free, cluster.memory_bytes, shape.memory_per_node_bytes),
        ):
            if asked:
                score += free.of(nodes) / whole[nodes] * (asked / whole[nodes])
        return -score


def _best(
    cluster: Cluster,
    shape: Shape,
    nodes: NDArray[np.int64],
    cost: NDArray[np.float64],
    required: tuple[int, ...],
) -> NDArray[np.int64]:
    """Return the node index of each part, ascending; required nodes are among them."""
    left = POPCOUNT[cluster.free_mask[nodes]]
    order = np.lexsort((nodes, left, cost, ~np.isin(nodes, required)))  # best first
    wanted = shape.node_count
    if wanted == 1:
        return nodes[order[:1]]
    racks = cluster.racks.ids[nodes]
    parts_of = np.bincount(racks)
    if not required and int(parts_of.max()) >= wanted:
        enough = np.flatnonzero(parts_of >= wanted)
        first = [order[racks[order] == rack][:wanted] for rack in enough]
        return np.sort(nodes[first[int(np.argmin([cost[each].sum() for each in first]))]])
    place = np.empty(len(order), dtype=np.int64)
    place[order] = np.arange(len(order))
    fewest_racks = np.lexsort((place, -parts_of[racks], ~np.isin(nodes, required)))
    return np.sort(nodes[fewest_racks[:wanted]])
