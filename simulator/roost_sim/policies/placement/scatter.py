"""Placements of the literature, which take GPUs wherever they like.

Slurm gives every node of a job as many GPUs, Roost even the same ones, and the daemon offers
nothing else. Published baselines know no such bound: so that they can be simulated as defined, a
rule says which GPUs of each node a job takes, and that is the one candidate.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from roost_engine.cluster.cluster import Cluster
from roost_engine.cluster.features import COLUMN, COLUMNS, link_scale
from roost_engine.cluster.node_sets import RowSet
from roost_engine.domain.model import JobSpec, Shape
from roost_engine.domain.tier import Tier
from roost_engine.placement.candidates import Candidates
from roost_engine.placement.eligibility import POPCOUNT, Chance, Room, room_for
from roost_sim.policies.placement.free_gpus import (
    FreeGpus,
    exact_shape,
    find_free_gpus,
    lowest_of,
    one_gpu_of,
)

_NO_ROWS = np.zeros((0, 1), dtype=np.int64)
_NO_FEATURES = np.zeros((0, len(COLUMNS)), dtype=np.float32)


class ScatterRule(Protocol):
    """Which of the free GPUs does a job take?"""

    def take(self, free: FreeGpus, at_s: float) -> NDArray[np.int64] | None:
        """Choose `free.wanted` GPUs.

        Args:
            free: what there is, enough of it.
            at_s: engine time.

        Returns:
            int64 [node], the GPUs taken of each, all of them free; 0 where none. None: it would
            rather wait than take any of these; it takes some where every node is idle.
        """


@dataclass(frozen=True, slots=True)
class Scattered:
    """The one placement that a rule makes. See policies.CandidatePolicy.

    A node that the job requires gives its lowest free GPU; the rule chooses the rest.
    """

    rule: ScatterRule

    def propose(self, cluster: Cluster, job: JobSpec, kept: RowSet, at_s: float) -> Candidates:
        """See CandidatePolicy."""
        free, room = find_free_gpus(cluster, job, kept)
        shape = exact_shape(job)
        taken = None if free is None else self._take(free, at_s)
        if free is None or taken is None:
            return nothing(job, room, _any_of(shape, room.held_back))
        chosen = np.flatnonzero(taken)
        return the_one(cluster, shape, free.rows[chosen], taken[chosen], room)

    def chances(self, cluster: Cluster, job: JobSpec, rows: RowSet) -> Sequence[Chance]:
        """See CandidatePolicy."""
        shape = exact_shape(job)
        if cluster.spare_count < shape.gpu_count:
            return ()
        room = room_for(cluster, job, one_gpu_of(shape))
        return _any_of(shape, room.rows) if room.rows & rows else ()

    def _take(self, free: FreeGpus, at_s: float) -> NDArray[np.int64] | None:
        if not free.job.required_nodes:
            return self.rule.take(free, at_s)
        rows = [free.cluster.row[name] for name in free.job.required_nodes]
        taken = lowest_of(free.masks, np.isin(free.rows, rows).astype(np.int64))
        left = free.without(taken)
        if left.wanted:
            more = self.rule.take(left, at_s)
            if more is None:
                return None
            taken[np.isin(free.rows, left.rows)] |= more
        return taken


def _any_of(shape: Shape, rows: RowSet) -> tuple[Chance, ...]:
    return (Chance(shape, rows, 1),) if rows else ()


def nothing(job: JobSpec, room: Room, chances: tuple[Chance, ...]) -> Candidates:
    """No room; and what would have to be so for there to be some."""
    return Candidates(
        shape=exact_shape(job),
        rows=_NO_ROWS,
        masks=_NO_ROWS,
        features=_NO_FEATURES,
        link_scores=_NO_ROWS[:, 0],
        tier=Tier.NODE,
        exclusions=room.exclusions(),
        chances=chances,
    )


def the_one(
    cluster: Cluster,
    shape: Shape,
    rows: NDArray[np.int64],
    masks: NDArray[np.int64],
    room: Room,
) -> Candidates:
    """The only candidate: these GPUs.

    Its features are means over its nodes, but for those of loads: no rule here looks at them.

    Args:
        cluster: the nodes.
        shape: whose totals the job holds.
        rows: int64 [node], ascending.
        masks: int64 [node], none of them 0.
        room: which nodes have some, and why the others have none.
    """
    racks = cluster.rack_id[rows]
    several = Tier.RACK if (racks == racks[0]).all() else Tier.CLUSTER
    tier = Tier.NODE if len(rows) == 1 else several
    features = np.zeros((1, len(COLUMNS)), dtype=np.float32)
    features[0, COLUMN["tier_frac"]] = tier / 2
    features[0, COLUMN["load_known_frac"]] = cluster.loads.known_frac[rows].mean()
    return Candidates(
        shape=shape,
        rows=rows[None, :],
        masks=masks[None, :],
        features=features,
        link_scores=np.array([_describe(cluster, rows, masks, features[0])]),
        tier=tier,
        exclusions=room.exclusions(),
    )


def _describe(
    cluster: Cluster,
    rows: NDArray[np.int64],
    masks: NDArray[np.int64],
    features: NDArray[np.float32],
) -> int:
    """Fill in what the GPUs' links say; returns their score."""
    free, sizes = cluster.free_mask[rows], POPCOUNT[masks]
    scores, ideal = np.zeros(len(rows)), np.zeros(len(rows))
    lost = np.zeros(len(rows))
    for table, here in cluster.by_kind(rows):
        scores[here] = table.set_scores[masks[here]]
        ideal[here] = table.best_scores[sizes[here], table.full_mask]
        lost[here] = table.fragmentation(free[here], masks[here])
    pairs = sizes * (sizes - 1) // 2
    left = POPCOUNT[free & ~masks] / cluster.gpu_count[rows]
    frac = np.divide(scores, ideal, out=np.ones(len(rows)), where=ideal > 0)
    features[COLUMN["link_frac"]] = link_scale(scores / np.maximum(pairs, 1)).mean()
    features[COLUMN["link_best_frac"]] = frac.mean()
    features[COLUMN["fragmentation_frac"]] = lost.mean()
    features[COLUMN["leftover_frac"]] = left.mean()
    return int(scores.sum())
