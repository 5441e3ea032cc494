"""`roost-sim compare`: what it prints and writes, and how it fails."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from tests.simulator.sweeps.cases import csv_of, jobs

from roost_sim.cli import cli


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    path = tmp_path / "jobs.csv"
    path.write_text(csv_of(jobs()))
    return path


def compare(trace: Path, *arguments: object) -> Result:
    argv = ["compare", "--trace", trace, "--cluster", "small", "--processes", 1, *arguments]
    return CliRunner().invoke(cli, [str(argument) for argument in argv])


def run_document(trace: Path, *arguments: object) -> dict[str, object]:
    argv = ["run", "--trace", trace, "--cluster", "small", "--json", *arguments]
    parsed = json.loads(CliRunner().invoke(cli, [str(argument) for argument in argv]).stdout)
    assert isinstance(parsed, dict)
    return parsed


def without_times(document: dict[str, object]) -> dict[str, object]:
    return {
        name: value
        for name, value in document.items()
        if name != "wall_s" and not name.startswith("decision_")
    }


def test_each_run_is_the_object_of_run_and_its_load(trace: Path) -> None:
    result = compare(trace, "--policies", "fifo,sjf", "--seeds", "0,1", "--load", 0.9, "--json")
    assert result.exit_code == 0, result.output
    documents = json.loads(result.stdout)
    assert [(d["policy"], d.get("seed"), d["load"]) for d in documents] == [
        ("fifo", 0, 0.9),
        ("fifo", 1, 0.9),
        ("sjf", 0, 0.9),
        ("sjf", 1, 0.9),
        ("fifo", None, 0.9),
        ("sjf", None, 0.9),
    ]
    alone = run_document(trace, "--policy", "sjf", "--seed", 1, "--load", 0.9)
    assert list(documents[3]) == [*alone, "load"]
    assert without_times(documents[3]) == without_times(alone) | {"load": 0.9}
    assert documents[5]["seeds"] == [0, 1]
    assert documents[5]["regime"] == "oracle"
    assert documents[5]["metrics"]["avg_jct_s"]["ratio"]["ci95"] is not None


def test_loads_come_as_options_or_as_a_list(trace: Path) -> None:
    both = ("--policies", "fifo", "--json", "--load")
    listed = json.loads(compare(trace, *both, "0.5,0.9").stdout)
    repeated = json.loads(compare(trace, *both, "0.5", "--load", "0.9").stdout)
    assert [d["load"] for d in listed] == [d["load"] for d in repeated] == [0.5, 0.9, 0.5, 0.9]


def test_the_options_of_the_world_are_those_of_run(trace: Path) -> None:
    options = ("--full-speed", "--patience-s", 0, "--limit", 30)
    (found, _) = json.loads(compare(trace, "--policies", "fifo", "--json", *options).stdout)
    alone = run_document(trace, "--policy", "fifo", *options)
    assert without_times(found) == without_times(alone) | {"load": None}
    assert found["comm_share"] is None


def test_a_table_for_people(trace: Path) -> None:
    result = compare(trace, "--policies", "fifo,sjf", "--seeds", "0-2", "--baseline", "sjf")
    assert result.exit_code == 0
    assert "÷ sjf" in result.stdout
    assert "6 of 6 runs" in result.stderr
    assert [line.split()[0] for line in result.stdout.splitlines()] == [
        "Load",
        "policy",
        "fifo",
        "sjf",
    ]


def test_a_report_says_how_it_was_made(trace: Path, tmp_path: Path) -> None:
    page = tmp_path / "out.html"
    result = compare(trace, "--policies", "fifo,sjf", "--load", "0.5,0.9", "--report", page)
    assert result.exit_code == 0
    text = page.read_text()
    assert f'"command":"roost-sim compare --trace {trace} ' in text
    assert "--policies fifo,sjf --load 0.5,0.9" in text


def test_an_interrupted_sweep_continues(trace: Path, tmp_path: Path) -> None:
    kept = tmp_path / "runs.jsonl"
    first = compare(trace, "--policies", "fifo", "--seeds", "0,1", "--resume", kept, "--json")
    more = compare(trace, "--policies", "fifo,sjf", "--seeds", "0,1", "--resume", kept, "--json")
    assert "2 of 4 runs" in more.stderr
    assert json.loads(more.stdout)[:2] == json.loads(first.stdout)[:2]  # wall_s too: not run again


def test_a_load_of_jobs_that_come_at_once_is_refused(trace: Path) -> None:
    result = compare(trace, "--policies", "fifo", "--window-jobs", 1, "--load", 0.5)
    assert result.exit_code == 2
    assert "all jobs arrive at once" in result.stderr


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--policies", "fifo,fifa"], "no policy 'fifa': did you mean fifo?"),
        (["--policies", "fifo,,sjf"], "want words between commas"),
        (["--policies", "fifo", "--baseline", "sjf"], "--baseline sjf is none of fifo"),
        (["--policies", "fifo", "--seeds", "3-1"], "want integers between commas, or 0-9"),
        (["--policies", "fifo", "--seeds", "1,x"], "want integers"),
        (["--policies", "fifo", "--load", "0.5,soon"], "want numbers between commas"),
        (["--policies", "fifo", "--load", "0"], "want numbers above 0"),
        (["--policies", "fifo", "--window-jobs", "41"], "40 jobs are too few for a window of 41"),
        (["--policies", "fifo", "--ray-address", "auto"], "--ray-address goes with --engine ray"),
        (["--policies", "fifo", "--exclude-model", "no-such"], "no-such"),
        (["--policies", "fifo", "--report", "/no/such/folder/x.html"], "no such folder"),
    ],
)
def test_what_is_wrong_is_one_line(trace: Path, arguments: list[str], complaint: str) -> None:
    result = compare(trace, *arguments)
    assert result.exit_code == 2, result.output
    assert complaint in result.stderr
    assert "Traceback" not in result.output


def test_a_report_that_cannot_be_written_costs_no_figures(trace: Path) -> None:
    result = compare(trace, "--policies", "fifo", "--json", "--report", "/proc/nowhere.html")
    assert result.exit_code == 2
    assert json.loads(result.stdout)[0]["policy"] == "fifo"
    assert "/proc/nowhere.html: cannot be written" in result.stderr


def test_jobs_left_out_are_reported_on_stderr(tmp_path: Path) -> None:
    path = tmp_path / "jobs.csv"
    path.write_text("submit_s,duration_s,num_gpus\n0,10,8\n1,10,65\n2,10,128\n")
    result = compare(path, "--policies", "fifo", "--seeds", "0,1", "--json")
    assert result.exit_code == 0
    assert "roost-sim: fifo: left out 2 jobs in a run: no placement" in result.stderr


@pytest.mark.parametrize("seeds", ["9223372036854775808", "0-99999999999", "0-", "nan"])
def test_seeds_that_no_run_could_have_are_refused(trace: Path, seeds: str) -> None:
    result = compare(trace, "--policies", "fifo", "--seeds", seeds)
    assert result.exit_code == 2
    assert "--seeds" in result.stderr


def test_a_policy_that_leaves_jobs_out_has_no_ratio(tmp_path: Path) -> None:
    cluster = tmp_path / "mixed.yaml"
    cluster.write_text(
        "tiers:\n"
        "  node: {gbytes_per_s: 100}\n  rack: {gbytes_per_s: 10}\n  pod: {gbytes_per_s: 10}\n"
        "node_kinds:\n  four: {links: a100x4}\n  eight: {links: a100x8}\n"
        "racks:\n  r1: {nodes: {four: 3, eight: 1}}\n"
    )
    path = tmp_path / "jobs.csv"
    # 16 GPUs are two nodes of 8 to plain Slurm, of which there is one; `fifo` takes four of 4.
    path.write_text("submit_s,duration_s,num_gpus\n0,100,16\n5,50,2\n10,50,4\n")
    given = ["compare", "--trace", path, "--cluster", cluster, "--policies", "fifo,slurm"]
    result = CliRunner().invoke(cli, [*map(str, given), "--processes", "1", "--json"])
    assert result.exit_code == 0, result.output
    fifo, slurm = json.loads(result.stdout)[2:]
    assert (fifo["metrics"]["completed"]["mean"], slurm["metrics"]["completed"]["mean"]) == (3, 2)
    assert slurm["not_comparable"] == "other jobs than under fifo: 1 left out, there 0 (in seed 0)"
    assert slurm["metrics"]["avg_jct_s"]["ratio"] is None
    assert fifo["metrics"]["avg_jct_s"]["ratio"]["mean"] == 1
