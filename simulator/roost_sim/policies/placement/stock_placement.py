"""Plain Slurm's choice of nodes and of GPUs on each, without a planner beside it.

Nodes as select/cons_tres takes them when all weigh the same: without a topology plugin from the
best-fitting run of consecutive nodes, with topology/tree from the best-fitting leaf switches. GPUs
as measured (roost_sim.policies.placement.stock_slurm). Each node of a job may give different ones.
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

Rows: TypeAlias = NDArray[np.int64]
NodeRule: TypeAlias = Callable[[Cluster, Rows, Shape], Rows]


class GpuRule(Protocol):
    """Which GPUs of one node?"""

    def __call__(self, links: LinkMatrix, free: Sequence[int], gpu_count: int) -> tuple[int, ...]:
        """Choose so many of the free ones. Ascending."""


class StockSlurm:
    """The one placement that plain Slurm makes. See policies.CandidatePolicy.

    Args:
        nodes: which of the nodes with capacity.
        gpus: which GPUs of a node.
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
            masks = [self._mask(cluster, row, shape.gpus_per_node) for row in chosen.tolist()]
            return the_one(cluster, shape, chosen, np.array(masks), capacity)
        return nothing(cluster, job, capacity, tuple(hints))

    def hints(self, cluster: Cluster, job: JobSpec, rows: NodeSet) -> Sequence[Hint]:
        """See CandidatePolicy."""
        return hints_in(cluster, job, rows)

    def _choose(self, cluster: Cluster, rows: NodeSet, required: NodeSet, shape: Shape) -> Rows:
        """Required nodes first; the rule fills up."""
        missing = shape.node_count - required.bit_count()
        chosen = node_array(required)
        if missing:
            part = replace(shape, node_count=missing)
            more = self._nodes(cluster, node_array(rows & ~required), part)
            chosen = np.concatenate((chosen, more))
        return np.sort(chosen)

    def _mask(self, cluster: Cluster, row: int, gpu_count: int) -> int:
        table, free = cluster.table(row), int(cluster.free_mask[row])
        key = table, free, gpu_count
        found = self._chosen.get(key)
        if found is None:
            chosen = self._gpus(table.links, indices_of(free), gpu_count)
            found = self._chosen[key] = mask_of(chosen)
        return found


def consecutive_nodes(cluster: Cluster, rows: Rows, shape: Shape) -> Rows:
    """Nodes from the runs of consecutive ones that fit best.

    A run that suffices, in nodes and in CPUs, goes before one that does not; of those that do the
    one with the fewest CPUs, of those that do not the one with the most; ties to the first. When
    one node is wanted, it is the one of the run with the fewest CPUs; else they are taken in order.

    Args:
        cluster: whose rows are in the order of Slurm's nodes.
        rows: [node], ascending, those with room; enough of them.
        shape: how many are wanted.
    """
    cpus = cluster.cpu_free.of(rows)
    begins = np.concatenate(([0], np.flatnonzero(np.diff(rows) > 1) + 1))
    sizes, run_cpus = np.diff(begins, append=len(rows)), np.add.reduceat(cpus, begins)
    chosen, missing = list[int](), shape.node_count
    while True:
        enough = (sizes >= missing) & (run_cpus >= missing * shape.cpus_per_node)
        best = int(np.lexsort((np.where(enough, run_cpus, -run_cpus), ~enough, sizes == 0))[0])
        run = np.arange(begins[best], begins[best] + sizes[best])
        if missing == 1:
            run = run[[np.argmin(cpus[run])]]
        chosen += rows[run[:missing]].tolist()
        missing -= min(missing, len(run))
        if not missing:
            return np.array(chosen, dtype=np.int64)
        sizes[best] = 0


def leaf_switches(cluster: Cluster, rows: Rows, shape: Shape) -> Rows:
    """Nodes from the leaf switches, here racks, that fit best.

    A leaf with enough nodes goes before one without; of those with enough the one with the fewest,
    of the others the one with the most; ties to the first. A leaf's nodes are taken in order.

    Args:
        cluster: the nodes.
        rows: [node], ascending, those with room; enough of them.
        shape: how many are wanted.
    """
    leaves = cluster.rack_id[rows]
    left = np.bincount(leaves)
    chosen, missing = list[int](), shape.node_count
    while missing:
        enough = np.flatnonzero(left >= missing)
        leaf = int(enough[np.argmin(left[enough])]) if len(enough) else int(np.argmax(left))
        taken = rows[leaves == leaf][:missing].tolist()
        left[leaf] = 0
        chosen += taken
        missing -= len(taken)
    return np.array(chosen, dtype=np.int64)
