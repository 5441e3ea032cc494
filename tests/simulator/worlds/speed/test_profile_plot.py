"""Plots of efficiency: files of both formats, and the same bytes each time."""

from pathlib import Path

import pytest

from roost_sim.clusters.presets import preset
from roost_sim.errors import ProfileError
from roost_sim.worlds.speed.fitted_profiles import PROFILES
from roost_sim.worlds.speed.profile_plot import plot_efficiencies
from roost_sim.worlds.speed.tier_efficiency import TierEfficiency

TIERS = TierEfficiency.of(preset("small"))


def test_an_svg_names_the_families_and_is_the_same_each_time(tmp_path: Path) -> None:
    paths = [tmp_path / "a.svg", tmp_path / "b.svg"]
    for path in paths:
        plot_efficiencies(path, PROFILES[:4], TIERS, 16)
    assert paths[0].read_bytes() == paths[1].read_bytes()
    assert "<!-- bert -->" in paths[0].read_text()


def test_the_suffix_decides_the_format(tmp_path: Path) -> None:
    path = tmp_path / "a.png"
    plot_efficiencies(path, PROFILES[:1], TIERS, 8)
    assert path.read_bytes().startswith(b"\x89PNG")


def test_a_file_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    with pytest.raises(ProfileError, match=r"a.svg: cannot be written"):
        plot_efficiencies(tmp_path / "no" / "a.svg", PROFILES[:1], TIERS, 8)
