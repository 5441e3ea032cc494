"""The program: what its commands print, and how they fail."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from roost_sim.cli import cli

RUN_KEYS = [
    "policy",
    "seed",
    "jobs",
    "completed",
    "avg_jct_s",
    "median_jct_s",
    "p95_jct_s",
    "p99_jct_s",
    "makespan_s",
    "avg_queue_s",
    "comm_share",
    "occupancy",
    "preemptions",
    "decisions",
    "decision_p99_ms",
    "bound_avg_jct_s",
    "wall_s",
    "regime",
    "avg_comm_s",
    "occupancy_loss",
    "fairness_mean",
    "fairness_max",
    "fairness_jain",
    "decision_p50_ms",
    "placed_node",
    "placed_rack",
    "placed_across_racks",
]
CLUSTER = """
tiers:
  node: {gbytes_per_s: 25}
  rack: {gbytes_per_s: 10}
  pod: {gbytes_per_s: 10}
node_kinds:
  plain: {links: pcie8}
racks:
  r0:
    nodes: {plain: 1}
"""


def run(*arguments: object) -> Result:
    return CliRunner().invoke(cli, [str(argument) for argument in arguments])


@pytest.fixture
def cluster(tmp_path: Path) -> Path:
    """One node of eight GPUs."""
    path = tmp_path / "cluster.yaml"
    path.write_text(CLUSTER)
    return path


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    """Three whole-node jobs, the last the shortest, and one that is too large."""
    path = tmp_path / "jobs.csv"
    path.write_text("submit_s,duration_s,num_gpus\n0,100,8\n10,80,8\n20,40,8\n30,10,64\n")
    return path


def document(result: Result) -> dict[str, object]:
    assert result.exit_code == 0, result.output
    parsed = json.loads(result.stdout)
    assert isinstance(parsed, dict)
    return parsed


def test_run_prints_one_object(trace: Path, cluster: Path) -> None:
    figures = document(
        run("run", "--trace", trace, "--cluster", cluster, "--policy", "fifo", "--json")
    )
    assert list(figures) == RUN_KEYS
    assert figures["policy"] == "fifo"
    assert (figures["jobs"], figures["completed"], figures["decisions"]) == (4, 3, 3)
    # Starts at 0, 100, 180; ends at 100, 180, 220.
    assert figures["avg_jct_s"] == pytest.approx((100 + 170 + 200) / 3)
    assert figures["avg_queue_s"] == pytest.approx((0 + 90 + 160) / 3)
    assert (figures["makespan_s"], figures["occupancy"]) == (220, 1.0)
    assert (figures["preemptions"], figures["regime"]) == (0, "none")
    assert (figures["placed_node"], figures["placed_rack"]) == (3, 0)


def test_communication_is_unknown_at_the_speed_of_the_trace(trace: Path, cluster: Path) -> None:
    arguments = ("run", "--trace", trace, "--cluster", cluster, "--json")
    assert document(run(*arguments, "--full-speed"))["comm_share"] is None
    share = document(run(*arguments))["comm_share"]
    assert isinstance(share, float)
    assert 0 < share < 1


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        (("--seed", -1), "--seed"),
        (("--regime", "lab"), "--regime"),
        (("--exclude-model", "bret"), "no model 'bret'; there are a2c, bert"),
        (("--compute-scale", 0), "--compute-scale"),
        (("--congestion", 0.5), "--congestion"),
        (("--full-speed", "--speed", "dally"), "exclude each other"),
    ],
)
def test_a_world_that_cannot_be_is_refused(
    trace: Path, cluster: Path, options: tuple[object, ...], complaint: str
) -> None:
    result = run("run", "--trace", trace, "--cluster", cluster, *options)
    assert result.exit_code == 2
    assert complaint in result.stderr


def test_a_regime_sets_what_its_switches_do_not(trace: Path, cluster: Path) -> None:
    arguments = ("run", "--trace", trace, "--cluster", cluster, "--policy", "sjf", "--json")
    told = [
        document(run(*arguments, *options))["regime"]
        for options in (
            (),
            ("--regime", "paper"),
            ("--regime", "field"),
            ("--regime", "field", "--durations", "limit"),
        )
    ]
    assert told == ["oracle", "oracle", "predicted", "limit"]


def test_a_policy_changes_the_figures(trace: Path, cluster: Path) -> None:
    figures = document(
        run("run", "--trace", trace, "--cluster", cluster, "--policy", "sjf", "--json")
    )
    assert figures["avg_jct_s"] == pytest.approx((100 + 120 + 210) / 3)


def test_run_never_beats_its_bound(trace: Path, cluster: Path) -> None:
    figures = document(
        run("run", "--trace", trace, "--cluster", cluster, "--policy", "sjf", "--json")
    )
    limit_s, reached_s = figures["bound_avg_jct_s"], figures["avg_jct_s"]
    assert isinstance(limit_s, float)
    assert isinstance(reached_s, float)
    assert limit_s <= reached_s


def test_run_tells_people_more(trace: Path, cluster: Path) -> None:
    result = run("run", "--trace", trace, "--cluster", cluster)
    assert result.exit_code == 0
    assert "placed on one node  3" in result.stdout
    assert "left out  1: no placement could ever hold it" in result.stdout


def test_json_leaves_what_was_left_out_to_stderr(trace: Path, cluster: Path) -> None:
    result = run("run", "--trace", trace, "--cluster", cluster, "--json")
    assert "roost-sim: left out 1 jobs: no placement could ever hold it" in result.stderr
    document(result)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no device that is always full here")
def test_output_that_cannot_be_written_is_one_line(trace: Path, cluster: Path) -> None:
    argv = ["run", "--trace", str(trace), "--cluster", str(cluster), "--json"]
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "roost_sim.cli", *argv],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert done.returncode == 2
    assert "roost-sim: No space left on device" in done.stderr
    assert "Traceback" not in done.stderr


def test_limit_and_load_change_the_arrivals(trace: Path, cluster: Path) -> None:
    arguments = ("run", "--trace", trace, "--cluster", cluster, "--limit", 2, "--json")
    assert document(run(*arguments))["jobs"] == 2
    stretched = document(run(*arguments, "--load", 0.1))
    assert stretched["avg_queue_s"] == 0


def test_bound_of_a_trace(trace: Path, cluster: Path) -> None:
    figures = document(run("bound", "--trace", trace, "--cluster", cluster, "--json"))
    # Each needs every GPU: 1 until 10, 2 until 20, 3 until 60, 2 until 130, 1 until 220.
    assert figures["jobs"] == 3
    assert figures["gpus"] == 8
    assert figures["bound_avg_jct_s"] == pytest.approx((220 + 120 + 40) / 3)


def test_bound_for_people(trace: Path, cluster: Path) -> None:
    result = run("bound", "--trace", trace, "--cluster", cluster)
    assert result.stdout.split() == ["jobs", "3", "gpus", "8", "bound_avg_jct_s", "126.667"]


def test_policies_as_json() -> None:
    listed = json.loads(run("policies", "--json").stdout)
    keys = ["name", "order", "placement", "gate", "preemption", "regime", "source"]
    assert all(list(row) == keys for row in listed)
    assert {"fifo", "sjf"} <= {row["name"] for row in listed}
    assert all(value for row in listed for value in row.values())


def test_policies_for_people_names_every_part() -> None:
    shown = run("policies").stdout
    for word in ("smallest-first", "consolidation", "strict", "block", "oracle", "none"):
        assert word in shown


@pytest.mark.parametrize(
    ("arguments", "code", "complaint"),
    [
        (["--policy", "fifa"], 2, "no policy 'fifa': did you mean fifo?"),
        (["--cluster", "nowhere"], 2, "nowhere: no such file, and no preset"),
        (["--trace", "/nonexistent.csv"], 2, "/nonexistent.csv"),
        (["--warm-up-frac", "0.6", "--cool-down-frac", "0.4"], 2, "leave no job to measure"),
        (["--load", "0"], 2, "--load"),
        (["--load", "nan"], 2, "nan is not a finite number"),
        (["--load", "1e-300"], 2, "jobs.csv: at a load of 1e-300 jobs arrive over more than 3,17"),
        (["--congestion", "inf"], 2, "inf is not in the range 1<=x<=1000000"),
        (["--compute-scale", "nan"], 2, "nan is not a finite number"),
        (["--patience-s", "nan"], 2, "nan is not a finite number"),
        (["--warm-up-frac", "nan"], 2, "nan is not a finite number"),
        (["--seed", "9223372036854775808"], 2, "--seed"),
        (["--start-delay-s", "10"], 2, "--start-delay-s"),
    ],
)
def test_what_is_wrong_is_one_line(
    trace: Path, cluster: Path, arguments: list[str], code: int, complaint: str
) -> None:
    result = run("run", "--trace", trace, "--cluster", cluster, *arguments)
    assert result.exit_code == code
    assert complaint in result.stderr
    assert "Traceback" not in result.output


def test_a_trace_without_gpu_jobs_is_refused(tmp_path: Path, cluster: Path) -> None:
    path = tmp_path / "cpu.csv"
    path.write_text("submit_s,duration_s,num_gpus\n0,10,0\n")
    result = run("run", "--trace", path, "--cluster", cluster)
    assert (result.exit_code, result.stdout) == (2, "")
    assert "no GPU job" in result.stderr


def test_bad_rows_are_reported_and_strict_stops_at_them(tmp_path: Path, cluster: Path) -> None:
    path = tmp_path / "bad.csv"
    path.write_text("submit_s,duration_s,num_gpus\n0,10,1\n5,soon,1\n")
    arguments = ("run", "--trace", path, "--cluster", cluster, "--json")
    lenient = run(*arguments)
    assert document(lenient)["jobs"] == 1
    assert "bad.csv:3" in lenient.stderr
    assert run(*arguments, "--strict").exit_code == 2


@pytest.mark.parametrize("policy", ["fifo", "random-order", "sjf"])
def test_the_same_seed_prints_the_same_bytes_in_any_process(
    tmp_path: Path, cluster: Path, policy: str
) -> None:
    path = tmp_path / "many.csv"
    rows = (f"{7 * n},{50 + 31 * (n % 11)},{1 + n % 9}" for n in range(120))
    path.write_text("submit_s,duration_s,num_gpus\n" + "\n".join(rows) + "\n")
    printed = set()
    for hash_seed in ("0", "4242"):
        argv = ["run", "--trace", path, "--cluster", cluster, "--policy", policy, "--json"]
        done = subprocess.run(
            [sys.executable, "-m", "roost_sim.cli", *map(str, argv)],
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
            capture_output=True,
            text=True,
            check=True,
        )
        figures = json.loads(done.stdout)
        del figures["wall_s"], figures["decision_p99_ms"], figures["decision_p50_ms"]
        printed.add(json.dumps(figures))
    assert len(printed) == 1
