import json
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner, Result

from roost_sim.cli import cli
from roost_sim.traces.fitted_traces import HELIOS
from roost_sim.traces.formats import load_trace
from roost_sim.traces.generator import generate


def run(*arguments: object) -> Result:
    return CliRunner().invoke(cli, ["trace", *map(str, arguments)])


@pytest.mark.parametrize("like", ["helios", "philly", "dally"])
def test_generated_jobs_can_be_read_back(tmp_path: Path, like: str) -> None:
    path = tmp_path / "jobs.csv.gz"
    result = run("generate", "--like", like, "--jobs", 300, "--seed", 5, "-o", path)
    assert result.exit_code == 0
    assert len(load_trace(path).trace) == 300


def test_the_seed_decides_the_file(tmp_path: Path) -> None:
    files = [tmp_path / name for name in ("once.csv", "again.csv", "other.csv")]
    for path, seed in zip(files, (1, 1, 2), strict=True):
        run("generate", "--like", "dally", "--jobs", 50, "--seed", seed, "-o", path)
    once, again, other = (path.read_bytes() for path in files)
    assert once == again
    assert once != other


def test_jobs_like_helios_have_users_and_names_unless_they_are_independent(tmp_path: Path) -> None:
    path = tmp_path / "jobs.csv"
    run("generate", "--like", "helios", "--jobs", 500, "-o", path)
    trace = load_trace(path, strict=True).trace
    assert len(trace.user_names) > 5
    assert len(trace.job_name.names) > len(trace.user_names)
    info = json.loads(run("info", path, "--json").stdout)
    assert info["job_names"] == len(trace.job_name.names)
    assert set(info["jobs_by_end"]) == {"completed", "failed", "cancelled"}
    run("generate", "--like", "helios", "--jobs", 500, "--independent", "-o", path)
    assert path.read_text().splitlines()[0] == "submit_s,duration_s,num_gpus"
    alone, wanted = load_trace(path).trace, generate(HELIOS, 500, 0)
    assert np.array_equal(alone.duration_s, wanted.duration_s)


def test_time_limits_are_drawn_where_they_are_wanted_and_jobs_have_users(tmp_path: Path) -> None:
    drawn, plain = tmp_path / "drawn.csv", tmp_path / "plain.csv"
    same = ("generate", "--like", "helios", "--jobs", 300, "-o")
    assert run(*same, drawn, "--time-limits").exit_code == 0
    assert run(*same, plain).exit_code == 0
    assert json.loads(run("info", drawn, "--json").stdout)["with_time_limit"] == 300
    assert json.loads(run("info", plain, "--json").stdout)["with_time_limit"] == 0
    for without_users in (("--like", "philly"), ("--like", "helios", "--independent")):
        done = run("generate", *without_users, "--jobs", 9, "-o", plain, "--time-limits")
        assert done.exit_code == 2
        assert "needs jobs with users: --like helios" in done.output


def test_info_counts_what_run_times_are_predicted_from(tmp_path: Path) -> None:
    path = tmp_path / "jobs.csv"
    header = "submit_s,duration_s,num_gpus,job_name,vc,qos,time_limit_s,is_array"
    path.write_text(f"{header}\n0,100,8,a,v,low,60,1\n50,60,1,b,v,,-3,0\n")
    done = run("info", path, "--json")
    found = json.loads(done.stdout)
    assert (found["job_names"], found["accounts"], found["qos"]) == (2, ["v"], ["low"])
    assert (found["with_time_limit"], found["of_arrays"]) == (1, 1)
    assert "ignored 1 values, their jobs are read: time limit is not 0 to" in done.stderr


def test_a_batch_arrives_at_once(tmp_path: Path) -> None:
    path = tmp_path / "jobs.csv"
    run("generate", "--like", "dally", "--jobs", 40, "--batch", "-o", path)
    assert set(load_trace(path).trace.submit_s.tolist()) == {0.0}
    both = run(
        "generate", "--like", "dally", "--jobs", 4, "--batch", "--jobs-per-day", 5, "-o", path
    )
    assert both.exit_code == 2


def test_rate_and_largest_size_can_be_set(tmp_path: Path) -> None:
    path = tmp_path / "jobs.csv"
    arguments = ("--like", "dally", "--jobs", 400, "--jobs-per-day", 100, "--max-gpus", 8)
    run("generate", *arguments, "-o", path)
    trace = load_trace(path).trace
    assert trace.gpu_count.max() == 8
    assert trace.span_s / 86_400 == pytest.approx(4.0, rel=0.2)  # Poisson: 4 days +- 5 %


def test_info_counts_what_is_there(tmp_path: Path) -> None:
    path = tmp_path / "jobs.csv"
    path.write_text("submit_s,duration_s,num_gpus,user\n0,100,8,a\n50,60,1,b\n100,20,200,a\n")
    found = json.loads(run("info", path, "--cluster", "small", "--json").stdout)
    assert (found["jobs"], found["users"], found["too_large"]) == (3, 2, 1)
    assert found["jobs_by_gpus"] == {"1": 1, "8": 1, "200": 1}
    assert found["gpu_hours"] == pytest.approx((800 + 60 + 4000) / 3600)
    assert found["load"] == pytest.approx((800 + 60) / (64 * 50))
    assert "1: 1, 8: 1, 200: 1" in run("info", path).stdout


def test_a_missing_trace_is_named(tmp_path: Path) -> None:
    result = run("info", tmp_path / "none.csv")
    assert result.exit_code != 0
    assert "none.csv" in result.stderr
