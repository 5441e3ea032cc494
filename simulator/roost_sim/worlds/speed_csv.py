"""The profiles as the table of speeds that roostd reads: CSV, a line a model and number of GPUs.

Sites measure their own; until they have, published measurements are better than nothing.
"""

from collections.abc import Iterable, Sequence
from statistics import median

from roost_sim.worlds.tier_efficiency import JobProfile, TierEfficiency

GPU_COUNTS = (2, 4, 8, 16, 32, 64)
_HEAD = "model,gpus,node,rack,across"


def speed_csv(
    profiles: Sequence[JobProfile],
    tiers: TierEfficiency,
    gpu_counts: Iterable[int] = GPU_COUNTS,
) -> str:
    """Write the table; a family is the median of its batch sizes and kinds of GPU, tier by tier.

    Args:
        profiles: of which models.
        tiers: where.
        gpu_counts: of which jobs.
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
