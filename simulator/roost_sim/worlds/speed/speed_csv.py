"""The speed table that roostd reads, from profiles: CSV, one line for a model and number of GPUs.

A site should measure its own speeds; until then, published measurements are better than none.
"""

from collections.abc import Iterable, Sequence
from statistics import median

from roost_sim.worlds.speed.tier_efficiency import JobProfile, TierEfficiency

GPU_COUNTS = (2, 4, 8, 16, 32, 64)
_HEAD = "model,gpus,node,rack,across"


def speed_csv(
    profiles: Sequence[JobProfile],
    tiers: TierEfficiency,
    gpu_counts: Iterable[int] = GPU_COUNTS,
) -> str:
    """Return the table; a family has the median of its batch sizes and kinds of GPU by tier.

    Args:
        profiles: of the models.
        tiers: efficiencies on the cluster.
        gpu_counts: numbers of GPUs, one line each.
    """
    counts = tuple(gpu_counts)
    families = sorted({profile.family for profile in profiles})
    lines = [_HEAD]
    for family in families:
        members = [profile for profile in profiles if profile.family == family]
        for gpu_count in counts:
            each = [tiers.efficiencies(profile, gpu_count) for profile in members]
            speeds = (f"{median(column):.4f}" for column in zip(*each, strict=True))
            lines.append(f"{family},{gpu_count},{','.join(speeds)}")
    return "\n".join(lines) + "\n"
