"""`roost-sim tune`: the gate section that it prints."""

from pathlib import Path

import yaml
from click.testing import CliRunner

from roost_sim.cli import cli


def test_the_command_prints_a_gate_section(tmp_path: Path) -> None:
    path = tmp_path / "jobs.csv"
    rows = [f"{number * 60},600,8" for number in range(12)]
    path.write_text("\n".join(["submit_s,duration_s,num_gpus", *rows]) + "\n")
    options = ["--trace", path, "--cluster", "small", "--seeds", "0", "--processes", "1"]
    result = CliRunner().invoke(cli, ["tune", *map(str, options)])
    assert result.exit_code in (0, 1), result.output
    section = yaml.safe_load(result.stdout)["gate"]
    assert section["kind"] == "delay"
    assert "on the second half" in result.stdout


def test_what_cannot_be_written_is_printed(tmp_path: Path) -> None:
    path = tmp_path / "jobs.csv"
    rows = [f"{number * 60},600,8" for number in range(12)]
    path.write_text("\n".join(["submit_s,duration_s,num_gpus", *rows]) + "\n")
    options = ["--trace", path, "--cluster", "small", "--seeds", "0", "--processes", "1"]
    result = CliRunner().invoke(cli, ["tune", *map(str, options), "--out", "/dev/full"])
    assert result.exit_code == 2
    assert yaml.safe_load(result.stdout)["gate"]["kind"] == "delay"
    assert "No space left on device" in result.stderr


def test_a_missing_folder_is_reported_before_the_search(tmp_path: Path) -> None:
    jobs = tmp_path / "jobs.csv"
    jobs.write_text("submit_s,duration_s,num_gpus\n0,10,1\n5,10,1\n")
    arguments = ["tune", "--trace", str(jobs), "--cluster", "small", "--out", "/no/such/gate.yaml"]
    result = CliRunner().invoke(cli, arguments)
    assert result.exit_code == 2
    assert "--out /no/such/gate.yaml: no such folder" in result.output
    assert "runs" not in result.output
