"""roost_sim.worlds.speed.speed_csv: the table of speeds that the daemon reads."""

from pathlib import Path
from statistics import median

import pytest
from click.testing import CliRunner

from roost_sim.cli import cli
from roost_sim.clusters.cluster_file import load_cluster
from roost_sim.worlds.speed.fitted_profiles import PROFILES
from roost_sim.worlds.speed.speed_csv import GPU_COUNTS, speed_csv
from roost_sim.worlds.speed.tier_efficiency import TierEfficiency
from roostd.config.speed_file import load_speeds
from roostd.slurm.comment import parse_comment


def test_the_daemon_reads_what_the_program_writes(tmp_path: Path) -> None:
    path = tmp_path / "speeds.csv"
    options = ["profiles", "--cluster", "small", "--speed-table", str(path)]
    result = CliRunner().invoke(cli, options)
    assert result.exit_code == 0, result.output
    rows = load_speeds(path)
    families = {profile.family for profile in PROFILES}
    assert {row.model for row in rows} == families
    assert len(rows) == len(families) * len(GPU_COUNTS)


def test_a_family_is_the_median_of_its_profiles() -> None:
    tiers = TierEfficiency.of(load_cluster("small"))
    berts = [profile for profile in PROFILES if profile.family == "bert"]
    rack = median(tiers.efficiencies(profile, 8)[1] for profile in berts)
    (line,) = speed_csv(berts, tiers, (8,)).splitlines()[1:]
    assert line.startswith("bert,8,")
    assert float(line.split(",")[3]) == pytest.approx(rack, abs=1e-4)


def test_users_can_name_every_model() -> None:
    for family in {profile.family for profile in PROFILES}:
        said = parse_comment(f"roost:model={family}")
        assert said is not None
        assert (said.model, said.problems) == (family, ())
