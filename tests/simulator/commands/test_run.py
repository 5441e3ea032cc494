"""`roost-sim run`: its figures, for programs and for people."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.simulator.program import document, run

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
    "mechanism",
    "large_p99_queue_s",
    "pins_per_job",
    "updates_per_s",
    "standing_pins",
    "longest_queue_s",
    "worst_user_slowdown",
    "user_jain",
]


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
    assert figures["longest_queue_s"] == 160
    assert (figures["makespan_s"], figures["occupancy"]) == (220, 1.0)
    assert (figures["preemptions"], figures["regime"]) == (0, "none")
    assert (figures["placed_node"], figures["placed_rack"]) == (3, 0)
    # Three of four jobs were pinned, each once, in 220 s.
    assert (figures["pins_per_job"], figures["standing_pins"]) == (0.75, 0)
    assert figures["updates_per_s"] == pytest.approx(3 / 220)


def test_a_trace_without_users_has_no_worst_user(trace: Path, cluster: Path) -> None:
    arguments = ("--cluster", cluster, "--policy", "fifo", "--full-speed")
    result = run("run", "--trace", trace, *arguments)
    assert "worst_user_slowdown  -\n" in result.stdout
    told = document(run("run", "--trace", trace, *arguments, "--json"))
    assert (told["worst_user_slowdown"], told["user_jain"]) == (None, None)


def test_the_worst_user_waited_longest_for_its_work(tmp_path: Path, cluster: Path) -> None:
    path = tmp_path / "users.csv"
    rows = ("0,100,8,ann", "1,100,8,bob", "2,300,8,ann")
    path.write_text("submit_s,duration_s,num_gpus,user\n" + "\n".join(rows) + "\n")
    arguments = ("--cluster", cluster, "--policy", "fifo", "--full-speed", "--json")
    figures = document(run("run", "--trace", path, *arguments))
    # Ends at 100, 200, 500: ann has (100 + 498) / 400, bob 199 / 100.
    assert figures["worst_user_slowdown"] == pytest.approx(1.99)
    assert figures["user_jain"] == pytest.approx(
        (1.99 + 598 / 400) ** 2 / (2 * (1.99**2 + (598 / 400) ** 2))
    )


def test_communication_is_unknown_at_the_speed_of_the_trace(trace: Path, cluster: Path) -> None:
    arguments = ("run", "--trace", trace, "--cluster", cluster, "--json")
    assert document(run(*arguments, "--full-speed"))["comm_share"] is None
    share = document(run(*arguments))["comm_share"]
    assert isinstance(share, float)
    assert 0 < share < 1


def test_the_mechanism_is_that_of_the_option_but_for_plain_slurm(
    trace: Path, cluster: Path
) -> None:
    arguments = ("run", "--trace", trace, "--cluster", cluster, "--mechanism", "standing", "--json")
    standing = document(run(*arguments, "--policy", "fifo"))
    # The pins are chosen by the time limits of the running jobs.
    assert (standing["mechanism"], standing["regime"]) == ("standing", "limit")
    assert standing["standing_pins"] == 2
    slurm = document(run(*arguments, "--policy", "slurm"))
    assert (slurm["mechanism"], slurm["standing_pins"]) == ("lease", 0)


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


def test_the_text_output_has_more_figures(trace: Path, cluster: Path) -> None:
    result = run("run", "--trace", trace, "--cluster", cluster)
    assert result.exit_code == 0
    assert "placed on one node  3" in result.stdout
    assert "left out  1: no placement could ever hold it" in result.stdout


def test_json_leaves_what_was_left_out_to_stderr(trace: Path, cluster: Path) -> None:
    result = run("run", "--trace", trace, "--cluster", cluster, "--json")
    assert "roost-sim: left out 1 jobs: no placement could ever hold it" in result.stderr
    document(result)


def test_limit_and_load_change_the_arrivals(trace: Path, cluster: Path) -> None:
    arguments = ("run", "--trace", trace, "--cluster", cluster, "--limit", 2, "--json")
    assert document(run(*arguments))["jobs"] == 2
    stretched = document(run(*arguments, "--load", 0.1))
    assert stretched["avg_queue_s"] == 0


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
