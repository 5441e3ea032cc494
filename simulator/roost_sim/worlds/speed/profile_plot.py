"""Plots of efficiency by GPUs and tier. The only module that needs matplotlib."""

from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

import matplotlib as mpl
from matplotlib.figure import Figure

from roost_sim.errors import ProfileError
from roost_sim.worlds.speed.tier_efficiency import JobProfile, TierEfficiency

_MOST_GPUS = 64
_TITLES = ("as few nodes as can be", "several nodes of a rack", "several racks")


def plot_efficiencies(
    path: Path, profiles: Sequence[JobProfile], tiers: TierEfficiency, most_gpus: int
) -> None:
    """Draw one panel a tier and one line a family: the mean of its profiles.

    Args:
        path: the file; its suffix decides the format.
        profiles: to draw.
        tiers: efficiencies on the cluster.
        most_gpus: GPUs of the cluster; at most 64 are drawn.

    Raises:
        ProfileError: the file cannot be written.
    """
    families = defaultdict[str, list[JobProfile]](list)
    for profile in profiles:
        families[profile.family].append(profile)
    sizes = [size for size in (1, 2, 4, 8, 16, 32, _MOST_GPUS) if size <= most_gpus]
    figure = Figure(figsize=(13, 4.5), layout="constrained")
    panels = figure.subplots(1, len(_TITLES), sharey=True)
    colours = mpl.colormaps["tab20"]
    for tier, (panel, title) in enumerate(zip(panels, _TITLES, strict=True)):
        for number, (family, members) in enumerate(sorted(families.items())):
            means = [
                sum(tiers.efficiencies(member, size)[tier] for member in members) / len(members)
                for size in sizes
            ]
            panel.plot(sizes, means, marker="o", label=family, color=colours(number % 20))
        panel.set_xscale("log", base=2)
        panel.set_xticks(sizes, [str(size) for size in sizes])
        panel.set(title=title, xlabel="GPUs", ylim=(0, 1.03))
        panel.grid(alpha=0.3)
    panels[0].set_ylabel("compute ÷ (compute + exposed communication)")
    figure.legend(*panels[0].get_legend_handles_labels(), loc="outside right upper")
    try:
        # The date and random ids of an SVG would make the same drawing differ each time.
        with mpl.rc_context({"svg.hashsalt": "roost"}):
            metadata = {"Date": None} if path.suffix == ".svg" else None
            figure.savefig(path, metadata=metadata)
    except OSError as error:
        raise ProfileError(f"{path}: cannot be written: {error.strerror}") from error
