"""The benchmarks of the whole daemon, each once and small: the figures are there and plausible."""

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.conftest import missing

from roost_slurm.testing.availability import LocalSlurmUnavailable, check_available

FOLDER = Path(__file__).parents[2] / "benchmarks"


def figures_of(name: str, *options: str) -> dict[str, Any]:
    argv = [sys.executable, str(FOLDER / name), *options, "--json"]
    done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=110)
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    assert found["machine"]["cores"] >= 1
    return found


def test_ingest_loses_no_sample() -> None:
    found = figures_of("ingest.py", "--nodes", "20", "--seconds", "3")
    assert found["nodes"] == 20
    assert found["lost"] == 0
    assert found["sent"] >= 20
    assert 0.0 < found["cpu_cores"] < 2.0
    assert found["rss_mb"] > 10.0
    assert 0.0 < found["rpc_p50_ms"] <= found["rpc_p99_ms"]


@pytest.mark.nvml
def test_probe_is_measured_with_its_child() -> None:
    if shutil.which("gcc") is None:
        missing("gcc is not installed: no fake driver")
    found = figures_of("probe.py", "--seconds", "12")
    assert found["samples"] >= 2
    assert 0.0 <= found["cpu_percent"] < 100.0
    assert found["rss_mb"] > 20.0
    assert found["sample_ms"] > 0.0


def test_restart_drops_no_stream() -> None:
    found = figures_of("restart.py", "--nodes", "10", "--jobs", "60")
    assert found["streams_dropped"] == 0
    assert found["streams"] == 10
    assert 0.0 < found["first_decision_s"] < 60.0


def test_waiting_measures_stalls() -> None:
    found = figures_of("waiting.py", "--nodes", "4", "--jobs", "100", "--seconds", "2")
    assert found["jobs"] == 100
    for name in ("steady_stall_ms", "status_p50_ms", "reload_s", "reload_stall_ms"):
        assert found[name] >= 0.0, name


def test_soak_runs_jobs_through() -> None:
    found = figures_of("soak.py", "--minutes", "0.1")
    assert found["jobs"] > found["jobs_left"] > 0
    assert found["files_end"] > 0
    assert found["rss_mb_end"] > 10.0


@pytest.mark.slurm
@pytest.mark.nvml
def test_slurm_load_measures_both_clusters() -> None:
    try:
        check_available()
    except LocalSlurmUnavailable as error:
        missing(str(error))
    found = figures_of("slurm_load.py", "--jobs", "50", "--burst", "5", "--seconds", "3")
    assert found["plain_burst_s"] > 0.0
    assert found["burst_ratio"] == pytest.approx(found["roost_burst_s"] / found["plain_burst_s"])
    assert found["roost_cpu_percent"] >= 0.0


@pytest.mark.slurm
@pytest.mark.nvml
def test_turnover_measures_both_clusters() -> None:
    try:
        check_available()
    except LocalSlurmUnavailable as error:
        missing(str(error))
    sizes = ("--rounds", "1", "--jobs", "4", "--run-s", "0.2", "--seconds", "4")
    found = figures_of("turnover.py", "--kinds", "array,singles", *sizes)
    for kind in ("array", "singles"):
        plain, roost = (found[f"{kind}_{name}_per_s_median"] for name in ("plain", "roost"))
        assert plain > 0.0
        assert found[f"{kind}_per_s_ratio"] == pytest.approx(roost / plain)
