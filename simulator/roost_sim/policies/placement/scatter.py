"""Scattered placements of the literature: a job may take any free GPUs of any nodes.

Slurm gives a job the same number of GPUs on every node, Roost even the same indices, and the daemon
proposes nothing else. Published baselines have no such restriction. To simulate them as defined, a
rule chooses the GPUs of each node, and that choice is the only candidate.
Sources: docs/simulator/placements.md.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from roost_engine.cluster.cluster import Cluster
from roost_engine.cluster.link_table import LOAD_COLUMN_COUNT
from roost_engine.cluster.node_sets import NodeSet
from roost_engine.domain.lazy import Lazy
from roost_engine.domain.model import JobSpec, Shape
from roost_engine.domain.tier import Tier
from roost_engine.placement.candidates import Candidates
from roost_engine.placement.eligibility import Capacity, Hint, capacity_for
from roost_engine.placement.options import GangOption, Load
from roost_engine.placement.search import NoCapacity, failure
from roost_sim.policies.placement.free_gpus import (
    FreeGpus,
    exact_shape,
    find_free_gpus,
    lowest_of,
    one_gpu_of,
)


class ScatterRule(Protocol):
    """Chooses the GPUs of one job among the free ones."""

    def take(self, free: FreeGpus, at_s: float) -> NDArray[np.int64] | None:
        """Choose `free.wanted` GPUs.

        Args:
            free: at least `free.wanted` GPUs.
            at_s: engine time.

        Returns:
            int64 [node], a mask of the GPUs taken of each node, all of them free; 0: none. None:
            the job waits for better GPUs. A rule must not return None on an idle cluster.
        """


@dataclass(frozen=True, slots=True)
class Scattered:
    """Proposes the one placement that a rule chooses. See policies.CandidatePolicy.

    A node that the job requires gives its lowest free GPU; the rule chooses the other GPUs.
    """

    rule: ScatterRule

    def propose(self, cluster: Cluster, job: JobSpec, reserved: NodeSet, at_s: float) -> Candidates:
        """See CandidatePolicy."""
        free, capacity = find_free_gpus(cluster, job, reserved)
        shape = exact_shape(job)
        taken = None if free is None else self._take(free, at_s)
        if free is None or taken is None:
            return nothing(cluster, job, capacity, _any_of(shape, capacity.reserved))
        chosen = np.flatnonzero(taken)
        return the_one(cluster, shape, free.nodes[chosen], taken[chosen], capacity)

    def hints(self, cluster: Cluster, job: JobSpec, nodes: NodeSet) -> Sequence[Hint]:
        """See CandidatePolicy."""
        shape = exact_shape(job)
        if cluster.free_gpu_count < shape.gpu_count:
            return ()
        capacity = capacity_for(cluster, job, one_gpu_of(shape))
        return _any_of(shape, capacity.nodes) if capacity.nodes & nodes else ()

    def _take(self, free: FreeGpus, at_s: float) -> NDArray[np.int64] | None:
        if not free.job.required_nodes:
            return self.rule.take(free, at_s)
        nodes = [free.cluster.index_of[name] for name in free.job.required_nodes]
        taken = lowest_of(free.masks, np.isin(free.nodes, nodes).astype(np.int64))
        left = free.without(taken)
        if left.wanted:
            more = self.rule.take(left, at_s)
            if more is None:
                return None
            taken[np.isin(free.nodes, left.nodes)] |= more
        return taken


def _any_of(shape: Shape, nodes: NodeSet) -> tuple[Hint, ...]:
    return (Hint(shape, nodes, 1),) if nodes else ()


def nothing(
    cluster: Cluster, job: JobSpec, capacity: Capacity, hints: tuple[Hint, ...]
) -> Candidates:
    """Return no candidates, with the reason and the hints for the next search."""
    return failure(cluster, [NoCapacity(exact_shape(job), capacity)], hints)


def the_one(
    cluster: Cluster,
    shape: Shape,
    nodes: NDArray[np.int64],
    masks: NDArray[np.int64],
    capacity: Capacity,
) -> Candidates:
    """Return these GPUs as the only candidate.

    Its features are means over its nodes; load features are 0, since no rule here reads them.

    Args:
        cluster: the nodes.
        shape: the job holds its totals.
        nodes: int64 [node], ascending node indices.
        masks: int64 [node], the GPUs of each node; none of them 0.
        capacity: which nodes have capacity, and why the others have none.
    """
    racks = cluster.racks.ids[nodes]
    several = Tier.RACK if (racks == racks[0]).all() else Tier.CLUSTER
    tier = Tier.NODE if len(nodes) == 1 else several
    listed = tuple(nodes.tolist())
    parts = [
        (*cluster.free_as(node), mask) for node, mask in zip(listed, masks.tolist(), strict=True)
    ]
    load = None
    if known_frac := float(cluster.loads.known_frac[nodes].mean()):
        load = Load(np.zeros((1, LOAD_COLUMN_COUNT), dtype=np.float32), known_frac)
    option = GangOption(listed, tuple(parts), tier, load)
    return Candidates(cluster, shape, (option,), Lazy(capacity.exclusions))
