"""Made-up groups of candidates: what an engine might put before a score policy.

One group is the candidates of one decision. Their columns are correlated as in a cluster:
few link levels, tiers that cost links, similar load for all candidates on one node.
"""

from dataclasses import dataclass

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from roost_engine.cluster.features import COLUMN, COLUMNS, LOAD_QUANTITIES, LOAD_SCOPES, link_scale

SMALLEST_GROUP, LARGEST_GROUP = 2, 64
NEAR_TIE_STEP = 1e-3  # of a load fraction: the smallest difference that must still decide

# Mean pair scores that real matrices show: SYS, NODE, PXB, PIX, one, two, four, twelve, eighteen
# NVLink lanes (domain.topology.Link.score).
_PAIR_SCORES = np.array([10, 20, 40, 50, 100, 200, 400, 1200, 1800], dtype=np.float64)
_NODE_GPU_COUNTS = np.array([4, 8, 16])
_LOADS = slice(COLUMN[f"{LOAD_SCOPES[0]}_{LOAD_QUANTITIES[0]}_frac"], COLUMN["load_known_frac"])


@dataclass(frozen=True, slots=True)
class GroupMix:
    """How often each kind of group is drawn; the rest are ordinary groups.

    Attributes:
        near_tie_frac: candidates that differ in load only, in steps of NEAR_TIE_STEP.
        scattered_frac: every column drawn independently, so that none can replace another.
    """

    near_tie_frac: float = 0.4
    scattered_frac: float = 0.2

    @property
    def ordinary_frac(self) -> float:
        """Return the share of ordinary groups."""
        return 1.0 - self.near_tie_frac - self.scattered_frac


def draw_groups(
    rng: Generator, group_count: int, size: int, mix: GroupMix | None = None
) -> NDArray[np.float64]:
    """Draw groups of one size.

    Args:
        rng: the only source of randomness.
        group_count: how many groups.
        size: candidates in each.
        mix: how often each kind of group is drawn.

    Returns:
        float64 [group, candidate, column], columns cluster.features.COLUMNS, 0..1, exactly
        representable in float32.
    """
    mix = mix or GroupMix()
    kinds = rng.choice(3, group_count, p=[mix.near_tie_frac, mix.scattered_frac, mix.ordinary_frac])
    draw = (_near_ties, _scattered, _ordinary)
    groups = np.stack([draw[kind](rng, size) for kind in kinds])
    return np.clip(groups, 0.0, 1.0).astype(np.float32).astype(np.float64)


def _ordinary(rng: Generator, size: int) -> NDArray[np.float64]:
    """One job's candidates over nodes of one kind, some of them over several nodes."""
    node_gpus = int(rng.choice(_NODE_GPU_COUNTS))
    job_gpus = int(rng.integers(1, node_gpus + 1))
    levels = np.sort(rng.choice(_PAIR_SCORES, 3))
    features = np.zeros((size, len(COLUMNS)))
    tier = rng.choice([0.0, 0.5, 1.0], size, p=[0.7, 0.2, 0.1])
    pair_score = rng.choice(levels, size) * np.where(tier > 0, rng.uniform(0.3, 0.8, size), 1.0)
    if job_gpus > 1:
        features[:, COLUMN["link_frac"]] = link_scale(pair_score)
    features[:, COLUMN["link_best_frac"]] = pair_score / levels[-1] if job_gpus > 1 else 1.0
    features[:, COLUMN["tier_frac"]] = tier
    features[:, COLUMN["fragmentation_frac"]] = rng.beta(1, 3, size) * job_gpus / node_gpus
    left_over = rng.integers(0, node_gpus - job_gpus + 1, size)
    features[:, COLUMN["leftover_frac"]] = left_over / node_gpus
    features[:, _LOADS], features[:, COLUMN["load_known_frac"]] = _loads(rng, size)
    return features


def _loads(rng: Generator, size: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Load columns: a node's load, and that of its roots and switches scattered about it."""
    known = rng.choice([0.0, 0.5, 1.0], size, p=[0.1, 0.1, 0.8])
    node = rng.beta(0.7, 1.0, (size, len(LOAD_QUANTITIES)))
    nearer = [np.clip(node + rng.normal(0, spread, node.shape), 0, 1) for spread in (0.3, 0.15)]
    # A free switch or root has no neighbours, hence no load: common on half-empty nodes.
    for load in nearer:
        load[rng.random(size) < 0.3] = 0.0
    loads = np.concatenate((*nearer, node), axis=1)
    return loads * (known[:, None] > 0), known


def _near_ties(rng: Generator, size: int) -> NDArray[np.float64]:
    """Draw candidates that differ in load only, by few thousandths in few columns."""
    one = _ordinary(rng, 1)[0]
    features = np.tile(one, (size, 1))
    varied = rng.choice(np.arange(_LOADS.start, _LOADS.stop), int(rng.integers(1, 4)), False)
    for column in varied:
        base = rng.uniform(0.0, 0.8)
        steps = rng.permutation(3 * size)[:size]  # no two alike
        features[:, column] = base + steps * NEAR_TIE_STEP
    features[:, COLUMN["load_known_frac"]] = 1.0
    return features


def _scattered(rng: Generator, size: int) -> NDArray[np.float64]:
    return rng.random((size, len(COLUMNS)))
