import gzip
import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from roost_sim.cli import cli


def run(*arguments: object, env: dict[str, str | None] | None = None) -> Result:
    return CliRunner(env=env).invoke(cli, ["profiles", *map(str, arguments)])


def test_every_profile_has_its_efficiencies_and_source() -> None:
    rows = json.loads(run("--json", "--cluster", "venus", "--gpus", 4).stdout)
    assert len(rows) > 40
    bert = next(row for row in rows if row["name"] == "bert/4@t4")
    # 1 + 0.06873 · 2 on one node; 1 + 0.9541 + 0.4204 · 2 + 1.017 · 1 on two of two GPUs each.
    assert bert["efficiency_node"] == pytest.approx(1 / (1 + 0.06873 * 2))
    assert bert["efficiency_rack"] == pytest.approx(1 / (1 + 0.9541 + 0.4204 * 2 + 1.017))
    assert "Pollux" in bert["source"]
    assert next(row for row in rows if row["family"] == "ncf")["skew_frac"] is None


def test_people_get_a_table_with_sources() -> None:
    result = run("--speed", "dally", "--cluster", "dally-128")
    assert result.exit_code == 0
    assert "mobilenetv3" in result.stdout
    assert "source: Dally" in result.stdout


@pytest.mark.parametrize(("name", "begins"), [("p.svg", b"<?xml"), ("p.png", b"\x89PNG")])
def test_a_plot_is_what_its_name_says(tmp_path: Path, name: str, begins: bytes) -> None:
    path = tmp_path / name
    assert run("--plot", path, "--speed", "dally").exit_code == 0
    once = path.read_bytes()
    assert once.startswith(begins)
    run("--plot", path, "--speed", "dally")
    assert path.read_bytes() == once


def test_an_unknown_format_is_refused(tmp_path: Path) -> None:
    result = run("--plot", tmp_path / "p.pdf")
    assert result.exit_code == 2
    assert ".svg or .png" in result.stderr


def test_more_gpus_than_there_are_is_refused() -> None:
    assert "--gpus 100: small has 64" not in run("--cluster", "small", "--gpus", 64).stderr
    assert "--gpus 100: small has 64" in run("--cluster", "small", "--gpus", 100).stderr


def test_validation_without_the_table_says_where_to_get_it(tmp_path: Path) -> None:
    for arguments in ((), ("--data", tmp_path)):
        result = run("--validate", *arguments, env={"ROOST_DATA_DIR": None})
        assert result.exit_code != 0
        assert "docs/simulator/speed.md" in result.stderr
        assert "--data" in result.stderr


@pytest.mark.parametrize(
    "content",
    [
        b"no gzip",
        gzip.compress(b"model,kind\n" * 1_000)[:-20],  # a download that was cut short
        gzip.compress(b"model,kind,local_bsz,num_nodes\nbert,placements,8\n"),
    ],
    ids=["text", "cut", "short line"],
)
def test_validation_of_another_table_names_it(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "pollux_aws_t4_steptime.csv.gz").write_bytes(content)
    result = run("--validate", "--data", tmp_path)
    assert result.exit_code != 0
    assert "pollux_aws_t4_steptime.csv.gz: is not that table" in result.stderr


@pytest.mark.data
def test_error_on_rows_that_no_fit_has_seen(data_folder: Path) -> None:
    found = json.loads(run("--validate", "--json", "--data", data_folder).stdout)
    held_out, larger = (error for error in found if error["family"] == "all")
    assert (held_out["rows"], held_out["row_count"] > 700) == ("held out", True)
    assert held_out["mean_frac"] < 0.06
    assert larger["row_count"] > 600
    assert larger["mean_frac"] < 0.1
    assert "larger than any fitted" in run("--validate", "--data", data_folder).stdout
