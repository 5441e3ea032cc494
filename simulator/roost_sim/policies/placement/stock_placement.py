"""Stock Slurm's placement: its choice of nodes, and of GPUs on each node.

Nodes as select/cons_tres takes them when all weigh the same: without a topology plugin from the
best-fitting run of consecutive nodes, with topology/tree from the best-fitting leaf switches. GPUs
as measured (roost_engine.placement.stock_gpus); each node may give different indices.
Rules and source: docs/simulator/placements.md.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from roost_engine.cluster.cluster import Cluster
from roost_engine.cluster.link_table import LinkTable, indices_of, mask_of
from roost_engine.cluster.node_sets import NodeSet, node_array
from roost_engine.domain.model import JobSpec, Shape
from roost_engine.domain.topology import LinkMatrix
from roost_engine.placement.candidates import Candidates
from roost_engine.placement.eligibility import Hint, capacity_for, hints_in, required_set
from roost_sim.policies.placement.scatter import nothing, the_one

Nodes: TypeAlias = NDArray[np.int64]  # [node], node indices
NodeRule: TypeAlias = Callable[[Cluster, Nodes, Shape], Nodes]


class GpuRule(Protocol):
    """Chooses the GPUs of one node."""

    def __call__(self, links: LinkMatrix, free: Sequence[int], gpu_count: int) -> tuple[int, ...]:
        """Return `gpu_count` of the free GPUs, ascending."""


class StockPlacement:
    """Proposes the one placement that stock Slurm makes. See policies.CandidatePolicy.

    Args:
        nodes: chooses among the nodes with capacity.
        gpus: chooses the GPUs of a node.
    """

    def __init__(self, nodes: NodeRule, gpus: GpuRule) -> None:
        self._nodes, self._gpus = nodes, gpus
        self._chosen: dict[tuple[LinkTable, int, int], int] = {}

    def propose(self, cluster: Cluster, job: JobSpec, reserved: NodeSet, at_s: float) -> Candidates:
        """See CandidatePolicy."""
        hints: list[Hint] = []
        for shape in job.shapes:
            capacity = capacity_for(cluster, job, shape, reserved)
            required = required_set(cluster, job, capacity.nodes)
            if capacity.node_count < shape.node_count or required is None:
                hints += capacity.hints(shape)
                continue
            chosen = self._choose(cluster, capacity.nodes, required, shape)
            masks = [self._mask(cluster, node, shape.gpus_per_node) for node in chosen.tolist()]
            return the_one(cluster, shape, chosen, np.array(masks), capacity)
        return nothing(cluster, job, capacity, tuple(hints))

    def hints(self, cluster: Cluster, job: JobSpec, nodes: NodeSet) -> Sequence[Hint]:
        """See CandidatePolicy."""
        return hints_in(cluster, job, nodes)

    def _choose(self, cluster: Cluster, among: NodeSet, required: NodeSet, shape: Shape) -> Nodes:
        """Return the required nodes and, chosen by the rule, the missing ones."""
        missing = shape.node_count - required.bit_count()
        chosen = node_array(required)
        if missing:
            part = replace(shape, node_count=missing)
            more = self._nodes(cluster, node_array(among & ~required), part)
            chosen = np.concatenate((chosen, more))
        return np.sort(chosen)

    def _mask(self, cluster: Cluster, node: int, gpu_count: int) -> int:
        table, free = cluster.table(node), int(cluster.free_mask[node])
        key = table, free, gpu_count
        found = self._chosen.get(key)
        if found is None:
            chosen = self._gpus(table.links, indices_of(free), gpu_count)
            found = self._chosen[key] = mask_of(chosen)
        return found


def consecutive_nodes(cluster: Cluster, nodes: Nodes, shape: Shape) -> Nodes:
    """Choose nodes from the best-fitting runs of consecutive nodes.

    A run with enough nodes and CPUs goes before a run without. Of several with enough, the one
    with the fewest CPUs; of several without, the one with the most; ties go to the first. If one
    node is missing, it is the node of the run with the fewest CPUs; else nodes go in order.

    Args:
        cluster: its node indices are in the order of Slurm's nodes.
        nodes: int64 [node], ascending node indices with capacity; enough of them.
        shape: how many nodes are wanted, and CPUs a node.
    """
    cpus = cluster.cpu_free.of(nodes)
    begins = np.concatenate(([0], np.flatnonzero(np.diff(nodes) > 1) + 1))
    sizes, run_cpus = np.diff(begins, append=len(nodes)), np.add.reduceat(cpus, begins)
    chosen, missing = list[int](), shape.node_count
    while True:
        enough = (sizes >= missing) & (run_cpus >= missing * shape.cpus_per_node)
        best = int(np.lexsort((np.where(enough, run_cpus, -run_cpus), ~enough, sizes == 0))[0])
        run = np.arange(begins[best], begins[best] + sizes[best])
        if missing == 1:
            run = run[[np.argmin(cpus[run])]]
        chosen += nodes[run[:missing]].tolist()
        missing -= min(missing, len(run))
        if not missing:
            return np.array(chosen, dtype=np.int64)
        sizes[best] = 0


def leaf_switches(cluster: Cluster, nodes: Nodes, shape: Shape) -> Nodes:
    """Choose nodes from the best-fitting leaf switches; a leaf is a rack here.

    A leaf with enough nodes goes before one without. Of several with enough, the one with the
    fewest nodes; of several without, the one with the most; ties go to the first. The nodes of a
    leaf are taken in order.

    Args:
        cluster: the nodes.
        nodes: int64 [node], ascending node indices with capacity; enough of them.
        shape: how many nodes are wanted.
    """
    leaves = cluster.racks.ids[nodes]
    left = np.bincount(leaves)
    chosen, missing = list[int](), shape.node_count
    while missing:
        enough = np.flatnonzero(left >= missing)
        leaf = int(enough[np.argmin(left[enough])]) if len(enough) else int(np.argmax(left))
        taken = nodes[leaves == leaf][:missing].tolist()
        left[leaf] = 0
        chosen += taken
        missing -= len(taken)
    return np.array(chosen, dtype=np.int64)
